"""When which memory figure is read, and what is remembered of a session's life. No process, no clock."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hintcell_manager.protocol import Sample
from hintcell_manager.sampler import FULL_INTERVAL_S, HISTORY_LENGTH, MOVED_BYTES, SessionSampler

MIB = 1024 * 1024


def settled(rss_bytes: int, now: float) -> SessionSampler:
    """USS was read twice, and RSS did not move in between."""
    sampler = SessionSampler(0.0)
    sampler.note(rss_bytes, MIB, now)
    sampler.note(rss_bytes, MIB, now)
    return sampler


def test_the_first_look_is_a_full_one() -> None:
    assert SessionSampler(0.0).wants_full(MIB, 0.0)


def test_uss_is_read_once_more_after_rss_has_moved() -> None:
    """In between, shared pages may go and others come: RSS is as before, and USS is not."""
    sampler = settled(64 * MIB, 1.0)
    sampler.note(96 * MIB, 33 * MIB, 2.0)
    assert sampler.wants_full(96 * MIB, 3.0)
    sampler.note(96 * MIB, 49 * MIB, 3.0)
    assert not sampler.wants_full(96 * MIB, 4.0)


def test_uss_is_read_again_when_rss_has_moved_either_way_and_not_before() -> None:
    sampler = settled(64 * MIB, 1.0)
    for rss in (64 * MIB, 64 * MIB + MOVED_BYTES - 1, 64 * MIB - MOVED_BYTES + 1):
        assert not sampler.wants_full(rss, 2.0)
    for rss in (64 * MIB + MOVED_BYTES, 64 * MIB - MOVED_BYTES):
        assert sampler.wants_full(rss, 2.0)


def test_slow_growth_is_seen_because_rss_is_compared_with_the_last_full_look() -> None:
    sampler = settled(0, 0.0)
    looked = []
    for second in range(1, 20):
        rss = second * MOVED_BYTES // 4
        full = sampler.wants_full(rss, second)
        sampler.note(rss, rss if full else None, second)
        looked.append(full)
    assert [second for second, full in enumerate(looked, 1) if full] == [4, 5, 9, 10, 14, 15, 19]


def test_uss_is_read_now_and_then_also_when_nothing_moves() -> None:
    sampler = settled(MIB, 5.0)
    assert not sampler.wants_full(MIB, 5.0 + FULL_INTERVAL_S - 0.001)
    assert sampler.wants_full(MIB, 5.0 + FULL_INTERVAL_S)


def test_history_counts_from_the_admission_and_tells_where_uss_was_read() -> None:
    sampler = SessionSampler(100.0)
    sampler.note(3 * MIB, MIB, 100.5)
    sampler.note(4 * MIB, None, 101.5)
    assert list(sampler.history) == [Sample(0.5, 3 * MIB, MIB), Sample(1.5, 4 * MIB, None)]


@given(count=st.integers(1, 20 * HISTORY_LENGTH), full_every=st.integers(1, 300))
def test_a_history_is_bounded_and_in_order_whatever_is_read(count: int, full_every: int) -> None:
    sampler = SessionSampler(0.0)
    for second in range(count):
        sampler.note(second, second if second % full_every == 0 else None, second)
        assert len(sampler.history) <= HISTORY_LENGTH
    ages = [sample.age_s for sample in sampler.history]
    assert ages == sorted(set(ages))
    assert ages[0] == 0


@given(count=st.integers(1, 20 * HISTORY_LENGTH))
def test_the_history_of_a_quiet_session_is_thinned_out_evenly_over_its_whole_life(count: int) -> None:
    sampler = SessionSampler(0.0)
    for second in range(count):
        sampler.note(MIB, MIB if second == 0 else None, second)
    ages = [sample.age_s for sample in sampler.history]
    assert len(ages) >= min(count, HISTORY_LENGTH // 2 - 1)
    widest = max(1, 4 * count / HISTORY_LENGTH)
    assert all(later - earlier <= widest for earlier, later in pairwise(ages))
    assert count - 1 - ages[-1] <= widest


def test_short_lives_are_remembered_in_full() -> None:
    sampler = SessionSampler(0.0)
    for second in range(HISTORY_LENGTH):
        sampler.note(MIB, None, second)
    assert [sample.age_s for sample in sampler.history] == list(range(HISTORY_LENGTH))
