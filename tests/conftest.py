"""What every test folder shares: the recorded exchanges, and how Hypothesis chooses its examples."""

import pytest
from hypothesis import settings

from tests.contract.conformance import Case, load_cases

# The same examples in every run and in every xdist worker, nothing written to disk. Speed is pytest-timeout's business.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def conformance_cases() -> tuple[Case, ...]:
    return load_cases()
