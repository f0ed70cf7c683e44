"""`make demo` as a person gets it, through a pipe."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Ten seconds on an idle machine; here it shares the cores with other tests.
_DEADLINE_S = 240


@pytest.mark.timeout(_DEADLINE_S + 10)
def test_the_demonstration_tells_its_story() -> None:
    # One test, and not one for each claim: the demonstration runs once, whichever process runs the test.
    done = subprocess.run(
        [sys.executable, "-m", "bench.demo"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    _is_plain_text_in_80_columns(done.stdout)
    _has_numbered_steps(done.stdout)
    _shows_two_pages_without_a_gap(done.stdout)
    _measures_the_process_that_is_gone_later(done.stdout)
    _is_refused_after_the_change(done.stdout)
    _has_the_figures_of_a_session(done.stdout)


def _is_plain_text_in_80_columns(story: str) -> None:
    lines = story.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() and line == line.rstrip() for line in lines)


def _has_numbered_steps(story: str) -> None:
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", story, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "kept free for step 8." in " ".join(story.split())
    assert "\n8. Measure" in story


def _shows_two_pages_without_a_gap(story: str) -> None:
    ranks = re.findall(r"^ +(\d+) +\d+\.\d\d  \S+", story, re.MULTILINE)
    assert [int(rank) for rank in ranks] == list(range(1, 21))


def _measures_the_process_that_is_gone_later(story: str) -> None:
    (pid,) = re.findall(r"The worker is process (\d+)\.", story)
    assert f"Look at the memory of process {pid} " in story
    assert f"os.kill({pid}, 0): no such process" in story


def _is_refused_after_the_change(story: str) -> None:
    text = " ".join(story.split())
    assert "Page: refused, permission_changed: permissions changed." in text
    assert "Session: refused, permission_changed: permissions changed since the grant" in text


def _has_the_figures_of_a_session(story: str) -> None:
    memory = re.findall(r"^ +(?:admitted|after)[a-z, ]+?((?: +\d+\.\d){4})$", story, re.MULTILINE)
    assert len(memory) == 3
    for figures in memory:
        rss, pss, uss, peak = map(float, figures.split())
        assert 0 < uss < pss < rss <= peak
    first, _ = _row(story, "first page, median")
    turn, _ = _row(story, "page turn, median")
    assert 0 < turn < first


def _row(story: str, name: str) -> tuple[float, float]:
    (line,) = [line for line in story.splitlines() if name in line]
    plain, split = re.findall(r"([\d.]+) ms", line)
    return float(plain), float(split)
