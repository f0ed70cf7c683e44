"""`python -P -m hintcell_manager`."""

import sys

from hintcell_manager.command import main

if __name__ == "__main__":
    sys.exit(main())
