"""What a worker loads, and what it does not, each in an interpreter of its own."""

import subprocess
import sys

import pytest

_DEADLINE_S = 60


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_RANK = """
import sys
from hintcell_worker.protocol import Document, Limits, Request
from hintcell_worker.ranking import rank
documents = [Document("a", "read config"), Document("b", "writeConfig")]
for identifier_hints in (False, True):
    ranking = rank(Request("s", "config", documents), Limits(), identifier_hints=identifier_hints)
"""


def test_ranking_does_not_load_what_it_does_not_use() -> None:
    program = f"{_RANK}\nprint([name for name in sys.modules if name.startswith('scipy.stats.')])"
    assert _run(program) == "[]"


@pytest.mark.parametrize(
    "use",
    [
        "import scipy.stats; mode = scipy.stats.mode",
        "from scipy import stats; mode = stats.mode",
        "from scipy.stats import mode",
        "import scipy; mode = scipy.stats.mode",
        "from scipy.stats._stats_py import mode",
    ],
)
def test_whoever_asks_for_it_gets_the_real_thing(use: str) -> None:
    program = f"{_RANK}\n{use}\nprint(mode([1, 2, 2]).mode, type(sys.modules['scipy.stats']).__name__)"
    assert _run(program) == "2 module"


def test_what_was_loaded_before_stays() -> None:
    program = f"import scipy.stats\nbefore = scipy.stats\n{_RANK}\nprint(sys.modules['scipy.stats'] is before)"
    assert _run(program) == "True"


def test_no_library_does_anything_in_a_forked_worker() -> None:
    program = """
import os
from hintcell_worker import template
template._keep_forks_bare()
template._warm_up()
import random
state = random.getstate()
pid = os.fork()
if pid == 0:  # At a fork, `random` takes a new seed, unless it is kept from that.
    os._exit(0 if random.getstate() == state else 1)
print(os.waitpid(pid, 0)[1])
"""
    assert _run(program) == "0"
