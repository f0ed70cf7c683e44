"""Every Python example of the README and the documentation runs, on its own, and leaves nothing on standard error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A manager and a template start in two seconds, ten on a machine under load.
_EXAMPLE_S = 60

_EXAMPLES = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in [_ROOT / "README.md", *sorted((_ROOT / "docs").glob("*.md"))]
    for number, block in enumerate(_BLOCK.findall(page.read_text()), 1)
]


def test_there_are_examples() -> None:
    assert len(_EXAMPLES) >= 2


@pytest.mark.parametrize("example", _EXAMPLES)
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_EXAMPLE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readmes_first_example_shows_the_end_of_a_session() -> None:
    (block, *_) = _BLOCK.findall((_ROOT / "README.md").read_text())
    done = subprocess.run(
        [sys.executable, "-P", "-c", block], capture_output=True, text=True, timeout=_EXAMPLE_S, check=True
    )
    assert done.stdout == "config.py:1:read_config of 2\npermission_changed\n"
