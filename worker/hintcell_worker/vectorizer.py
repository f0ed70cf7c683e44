"""scikit-learn's CountVectorizer, loaded without SciPy's statistics.

scikit-learn imports `scipy.stats` for functions that counting never calls: a hundred modules, a third of a cold
worker's time, 20 MB of the template, and mappings that every fork copies. A stand-in takes its place until somebody
asks it for anything, which loads the module after all.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Final

_UNUSED: Final = "scipy.stats"


class _StandIn(ModuleType):
    """A module that is loaded when an attribute of it is first asked for."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _stand_in_for(name: str) -> None:
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
        return
    module = _StandIn(name)
    module.__spec__ = spec
    sys.modules[name] = module


_stand_in_for(_UNUSED)

from sklearn.feature_extraction.text import CountVectorizer  # noqa: E402 - after the stand-in

__all__ = ["CountVectorizer"]
