"""Memory of a process: measured, gone and denied are three answers."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

import psutil
import pytest

from hintcell_manager.memory import ProcessReader, measure
from hintcell_manager.protocol import Memory

# Resident pages are counted in batches for each core, so two readings of one moment may differ by some of them.
_NOISE_BYTES = 1024 * 1024
_HELD_BYTES = 32 * 1024 * 1024


def _figures(memory: Memory) -> tuple[int, int, int, int]:
    """USS, PSS, RSS and its peak."""
    assert memory.state == "measured"
    figures = (memory.uss_bytes, memory.pss_bytes, memory.rss_bytes, memory.peak_rss_bytes)
    assert all(figure is not None for figure in figures)
    return cast(tuple[int, int, int, int], figures)


def test_this_process_is_measured_and_what_is_shared_counts_less() -> None:
    uss, pss, rss, peak = _figures(measure(os.getpid(), full=True))
    assert 0 < uss <= pss
    assert pss <= rss + _NOISE_BYTES
    assert rss <= peak + _NOISE_BYTES


def test_the_cheap_measure_leaves_out_what_costs_more() -> None:
    memory = measure(os.getpid(), full=False)
    assert memory.state == "measured"
    assert (memory.pss_bytes, memory.uss_bytes) == (None, None)
    assert memory.rss_bytes is not None
    assert memory.peak_rss_bytes is not None
    assert 0 < memory.rss_bytes <= memory.peak_rss_bytes + _NOISE_BYTES


def test_what_another_process_holds_alone_is_in_its_uss_and_what_it_gave_back_is_in_its_peak() -> None:
    script = f"held = b'x' * {2 * _HELD_BYTES}; held = b'x' * {_HELD_BYTES}; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        cast(BinaryIO, process.stdout).readline()
        uss, _, _, peak = _figures(measure(process.pid, full=True))
        process.communicate(b"\n")
    assert _HELD_BYTES <= uss < 2 * _HELD_BYTES
    assert peak >= 3 * _HELD_BYTES, "both were held at one moment"


@pytest.mark.parametrize("full", [False, True])
def test_a_process_that_ended_is_gone_reaped_or_not(full: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}").exists(), "it is a zombie now"
        assert measure(process.pid, full=full) == Memory("gone")
        process.wait()
        assert measure(process.pid, full=full) == Memory("gone")


@pytest.mark.parametrize("full", [False, True])
def test_a_process_that_ends_while_it_is_measured_is_gone(monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    class Vanishing(psutil.Process):
        def memory_info(self) -> NoReturn:
            raise psutil.NoSuchProcess(self.pid)

        memory_full_info = memory_info

    monkeypatch.setattr(psutil, "Process", Vanishing)
    assert measure(os.getpid(), full=full) == Memory("gone")


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("error", [psutil.AccessDenied(), PermissionError(errno.EACCES, "Permission denied")])
def test_a_process_that_may_not_be_looked_at_is_denied(
    monkeypatch: pytest.MonkeyPatch, full: bool, error: Exception
) -> None:
    def denied(_pid: int) -> NoReturn:
        raise error

    monkeypatch.setattr(psutil, "Process", denied)
    assert measure(os.getpid(), full=full) == Memory("denied")


def test_having_no_descriptor_to_look_with_is_none_of_the_three(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_descriptors(_pid: int) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(psutil, "Process", out_of_descriptors)
    with pytest.raises(OSError, match="Too many open files"):
        measure(os.getpid(), full=True)


def test_a_process_is_active_when_it_computes_or_is_woken_and_not_while_it_waits() -> None:
    script = "import sys\nfor line in sys.stdin: sum(range(10**7)) if line == 'compute\\n' else 0; print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        reader = ProcessReader(process.pid)

        def seen_after(line: bytes) -> tuple[int, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            process.stdout.readline()
            while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:
                pass
            activity = reader.activity()
            assert activity is not None
            return activity

        waiting = seen_after(b"wait")
        assert reader.activity() == waiting
        woken = seen_after(b"wait")
        assert woken[0] > waiting[0]
        assert seen_after(b"compute")[1] > woken[1]
        process.stdin.close()
    assert reader.activity() is None
