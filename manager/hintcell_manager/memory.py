"""Memory and processor time of one process, now, as the kernel counts them.

RSS counts a page in every process that has it, so the RSS of forked workers summed up counts the template many
times; PSS divides shared pages among those who share them, USS leaves them out. Limits belong on USS.
"""

import re
from pathlib import Path
from typing import Final

import psutil

from hintcell_manager.protocol import Memory

_HIGH_WATER_MARK: Final = re.compile(rb"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


class ProcessReader:
    """Reads one process's figures; every method raises OSError when no descriptor is free to look with."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._process: psutil.Process | None = None

    def rss_bytes(self) -> int | None:
        """RSS alone: one short file. None also if the kernel does not let us look."""
        try:
            # Zero: it is exiting, its memory is gone already, its entry in the process table is not.
            return self._found().memory_info().rss or None
        except psutil.Error:
            return None

    def cpu_s(self) -> float | None:
        """Processor time used so far, in user and kernel mode."""
        try:
            times = self._found().cpu_times()
        except psutil.Error:
            return None
        return times.user + times.system

    def activity(self) -> tuple[int, float] | None:
        """How often the kernel has switched to or from it, and its processor time in seconds.

        A process that waits for input all the time leaves both as they are; one that answers does not.
        """
        try:
            process = self._found()
            switches, times = process.num_ctx_switches(), process.cpu_times()
        except psutil.Error:
            return None
        return switches.voluntary + switches.involuntary, times.user + times.system

    def memory(self, *, full: bool) -> Memory:
        """RSS and its peak, and with `full` PSS and USS too (the kernel then walks the page tables)."""
        try:
            process = self._found()
            shared_out = process.memory_full_info() if full else None
            rss_bytes = shared_out.rss if shared_out else process.memory_info().rss
            peak = _HIGH_WATER_MARK.search(Path(f"/proc/{self._pid}/status").read_bytes())
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            return Memory("gone")
        except (psutil.AccessDenied, PermissionError):
            return Memory("denied")
        if rss_bytes == 0:
            return Memory("gone")
        return Memory(
            "measured",
            rss_bytes=rss_bytes,
            peak_rss_bytes=int(peak[1]) * 1024 if peak else None,
            pss_bytes=shared_out.pss if shared_out else None,
            uss_bytes=shared_out.uss if shared_out else None,
        )

    def _found(self) -> psutil.Process:
        if self._process is None:
            self._process = psutil.Process(self._pid)
        return self._process


def measure(pid: int, *, full: bool) -> Memory:
    """The memory of a process that is asked about once.

    Raises:
        OSError: this process has no free descriptor to look with.
    """
    return ProcessReader(pid).memory(full=full)
