"""What a storm counts, and how it prints it. Every figure of PROMISES must be zero."""

from collections import Counter
from typing import Final

import msgspec

# What is counted, in the order of the table.
ORPHANS: Final = "orphans"
ZOMBIES: Final = "zombies"
DESCRIPTORS: Final = "leaked descriptors"
FILES: Final = "stale sockets or directories"
PAGES: Final = "pages after a revocation"
ALIVE: Final = "processes alive after a revocation"
GRANTS: Final = "outdated grants honoured"
REASONS: Final = "ends with an untrue reason"
FOREIGN: Final = "candidates of another session"
ERRORS: Final = "errors that nothing has caused"
HANGS: Final = "calls and ends that did not come in time"
TEXTS: Final = "texts in a log or message"

PROMISES: Final = (ORPHANS, ZOMBIES, DESCRIPTORS, FILES, PAGES, ALIVE, GRANTS, REASONS, FOREIGN, ERRORS, HANGS, TEXTS)


class Violation(msgspec.Struct, frozen=True):
    """A promise that was broken, with what is needed to see how."""

    figure: str
    what: str


class Result(msgspec.Struct):
    """What came of one round, or of several added up."""

    steps: dict[str, int] = {}
    ends: dict[str, int] = {}
    refusals: dict[str, int] = {}
    looks: dict[str, int] = {}
    slowest_s: dict[str, float] = {}
    violations: list[Violation] = []
    log: list[str] = []

    def add(self, other: "Result") -> None:
        """Add another's counts to these; logs stay apart."""
        for name in ("steps", "ends", "refusals", "looks"):
            setattr(self, name, dict(Counter(getattr(self, name)) + Counter(getattr(other, name))))
        for name, seconds in other.slowest_s.items():
            self.slowest_s = self.slowest_s | {name: max(seconds, self.slowest_s.get(name, 0.0))}
        self.violations = self.violations + other.violations


def table(result: Result, *, rounds: int, seed: int, took_s: float) -> str:
    """The figures, for reading."""
    broken = Counter(violation.figure for violation in result.violations)
    lines = [f"{sum(result.steps.values())} steps in {rounds} rounds, seed {seed}, {took_s:.0f} s", ""]
    lines += [f"  {broken[name]:6d}  {name}" for name in PROMISES]
    lines += ["", "  looked at: " + _listed(result.looks)]
    lines += ["  slowest, in seconds: " + ", ".join(f"{k} {v:.3f}" for k, v in sorted(result.slowest_s.items()))]
    lines += ["  ends by reason: " + _listed(result.ends), "  opens refused: " + _listed(result.refusals)]
    lines += ["  steps: " + _listed(result.steps)]
    return "\n".join(lines)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1])) or "none"
