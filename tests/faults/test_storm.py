"""A short storm on real processes; `make faults` runs a long one. What it does and looks for: `tests/faults/storm`."""

from tests.faults.storm.__main__ import storm

_STEPS = 150
# Its four rounds: a private and a shared manager each closed and killed, with both kinds of clients.
_SEED = 1


def test_a_storm_leaves_nothing_behind_and_breaks_no_promise() -> None:
    result, remarks = storm(_STEPS, _SEED)
    told = [f"{violation.figure}: {violation.what}" for violation in result.violations]
    assert not told, "\n".join([*remarks, *told])
    assert sum(result.steps.values()) == _STEPS
    assert result.looks["pages"] > 0
    assert result.looks["permission changes"] > 0
    assert result.looks["quiet points"] > 0
