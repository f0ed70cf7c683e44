# What hintcell uses of scikit-learn, which ships no types; for mypy and basedpyright alike.
