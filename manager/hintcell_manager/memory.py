"""Memory of one process, now, as the kernel counts it.

RSS counts a page in every process that has it, so the RSS of forked workers summed up counts the template many
times; PSS divides shared pages among those who share them, USS leaves them out. Limits belong on USS.
"""

import re
from pathlib import Path
from typing import Final

import psutil

from hintcell_manager.protocol import Memory

_HIGH_WATER_MARK: Final = re.compile(rb"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def measure(pid: int, *, full: bool) -> Memory:
    """RSS and its peak, and with `full` PSS and USS too (the kernel then walks the page tables).

    Raises:
        OSError: this process has no free descriptor to look with.
    """
    try:
        process = psutil.Process(pid)
        shared_out = process.memory_full_info() if full else None
        rss_bytes = shared_out.rss if shared_out else process.memory_info().rss
        peak = _HIGH_WATER_MARK.search(Path(f"/proc/{pid}/status").read_bytes())
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return Memory("gone")
    except (psutil.AccessDenied, PermissionError):
        return Memory("denied")
    if rss_bytes == 0:  # It is exiting: its memory is gone already, its entry in the process table is not.
        return Memory("gone")
    return Memory(
        "measured",
        rss_bytes=rss_bytes,
        peak_rss_bytes=int(peak[1]) * 1024 if peak else None,
        pss_bytes=shared_out.pss if shared_out else None,
        uss_bytes=shared_out.uss if shared_out else None,
    )
