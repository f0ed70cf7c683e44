"""Python's string hashing, which differs from process to process, changes no byte."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.conformance import CHILD_TIMEOUT_S, load_cases

_EVERY = 6
_CHILD = f"""
import hashlib
from tests.contract.conformance import converse_as, load_cases
cases = load_cases()[::{_EVERY}]
print(hashlib.sha256(b"".join(converse_as(case.argv, [case.stdin]).stdout for case in cases)).hexdigest())
"""


@pytest.mark.parametrize("seed", range(10))
def test_the_hash_seed_changes_no_byte(seed: int) -> None:
    recorded = b"".join(case.stdout for case in load_cases()[::_EVERY])
    child = subprocess.run(
        [sys.executable, "-c", _CHILD],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
        check=True,
    )
    assert child.stdout.strip() == hashlib.sha256(recorded).hexdigest()
