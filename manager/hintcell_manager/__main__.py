"""`python -P -m hintcell_manager`."""

import signal
import sys

if __name__ == "__main__":
    # Until the manager handles it, an interrupt ends the process without a traceback, also while modules load.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hintcell_manager.command import main

    sys.exit(main())
