"""What the storm's sessions search: texts with a word that must show up nowhere, ids that tell whose they are."""

from collections.abc import Callable
from typing import Final

from hintcell import Document
from tests.faults.storm.messages import Catalog

# In every text and every query: no log line and no message may ever hold it.
SECRET: Final = "zqxhiddenxqz"

# Words in a query that `hooks/sitecustomize.py` acts upon, in the worker, when it has read its request.
FLOOD: Final = "stormFlood"  # 10 MB on standard error, then on as usual
CRASH: Final = "stormCrash"  # the same, then exit with status 9
HANG: Final = "stormHang"  # never answer
ALLOCATE: Final = "stormAllocate"  # memory without bound
PAUSE: Final = "stormPause"  # stop (SIGSTOP) between request and answer

# The first pages: of a few hundred bytes, of tens of kilobytes, and of more than a socket's buffer holds.
LIMITS: Final[dict[Catalog, int]] = {"small": 10, "large": 100, "wide": 4_096}

_FILLER: Final = "def read_config(path): return parseConfig(open(path)) "


def query(trigger: str = "") -> str:
    """A query that matches, with a word for the hooks if one is given."""
    return f"read config {SECRET} {trigger}".strip()


def documents(key: str, catalog: Catalog) -> list[Document]:
    """The documents of the session `key`."""
    return _MAKERS[catalog](key)


def is_of(candidate_id: str, key: str) -> bool:
    """Whether a candidate is one of this session's documents."""
    return candidate_id.startswith(f"{key}/")


def _small(key: str) -> list[Document]:
    return [Document(f"{key}/{number}", f"{SECRET} {_FILLER * (number % 5)} other{number}") for number in range(60)]


def _large(key: str) -> list[Document]:
    """1.3 to 1.9 MiB of text."""
    text = _FILLER * 64
    count = 400 + sum(key.encode()) % 160
    return [Document(f"{key}/{number}", f"{SECRET} word{number} {text}") for number in range(count)]


def _wide(key: str) -> list[Document]:
    """Short texts with ids as long as they may be."""
    return [Document(f"{key}/{number:0>{127 - len(key)}}", f"{SECRET} config {number}") for number in range(4_096)]


_MAKERS: Final[dict[Catalog, Callable[[str], list[Document]]]] = {"small": _small, "large": _large, "wide": _wide}
