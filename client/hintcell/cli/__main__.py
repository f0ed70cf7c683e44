"""`python -m hintcell.cli`: the `hintcell` command, also where its script is not installed."""

import sys

from hintcell.cli import main

if __name__ == "__main__":
    sys.exit(main())
