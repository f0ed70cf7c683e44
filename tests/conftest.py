"""What every test folder shares: the recorded exchanges, and how Hypothesis chooses its examples."""

import signal

import pytest
from hypothesis import settings

from tests.contract.conformance import Case, load_cases

# A run that was started in the background ignores SIGINT, and so would every child that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run and in every xdist worker, nothing written to disk. Speed is pytest-timeout's business.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def conformance_cases() -> tuple[Case, ...]:
    return load_cases()
