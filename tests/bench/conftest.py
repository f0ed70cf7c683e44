"""Lets the tests import `bench`, which is no package that is installed; pytest's importlib mode adds no path for it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
