"""The worker of hintcell: one isolated process that ranks one snapshot of documents for one query.

Importing this package loads nothing heavy. What other packages may use is `hintcell_worker.protocol`;
scikit-learn and NumPy are loaded by the modules that rank, when a request has been accepted.
"""
