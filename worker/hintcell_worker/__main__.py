"""`python -m hintcell_worker`: the same as `hintcell-worker`."""

import sys

from hintcell_worker.command import main

if __name__ == "__main__":
    sys.exit(main())
