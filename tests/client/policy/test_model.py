"""What principals may read under a policy, and whose rules two policies disagree about."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell.policy.decode import decode_policy
from hintcell.policy.model import Group, Policy, PolicyError, Rules

_NAMES = ["alice", "bob", "carol", "dan"]
_PATTERNS = ["**", "src/**", "src/secrets/**", "*.py", "/top.py", "lib"]
_PATHS = ["top.py", "src/a.py", "src/secrets/b.py", "src/c.go", "lib/d.py", "docs/e.md", "new\nsrc/\udcff.py"]


def policy(text: str) -> Policy:
    return decode_policy(text.encode())


def test_a_principal_has_its_own_rules_and_those_of_all_its_groups() -> None:
    may_read = policy("""
        [groups.backend]
        members = ["alice", "bob"]
        allow = ["src/**"]
        deny = ["src/secrets/**"]
        [groups.writers]
        members = ["alice"]
        allow = ["docs/**"]
        [principals.alice]
        allow = ["top.py"]
        [principals.bob]
        deny = ["*.go"]
    """).may_read
    assert {path for path in _PATHS if may_read("alice")(path)} == {"src/a.py", "src/c.go", "docs/e.md", "top.py"}
    assert {path for path in _PATHS if may_read("bob")(path)} == {"src/a.py"}
    assert not any(may_read("carol")(path) for path in _PATHS)


def test_a_group_s_allow_does_not_get_around_the_deny_of_another() -> None:
    may_read = policy("""
        [groups.all]
        members = ["alice"]
        allow = ["**"]
        [groups.guests]
        members = ["alice"]
        deny = ["src/**"]
    """).may_read("alice")
    assert may_read("top.py")
    assert not may_read("src/a.py")


def test_a_group_s_name_is_no_principal() -> None:
    assert not policy('[groups.g]\nmembers = ["alice"]\nallow = ["**"]').may_read("g")("a.py")


def test_an_empty_policy_allows_nobody_anything() -> None:
    assert not policy("").may_read("alice")("a.py")


@pytest.mark.parametrize("rules", [Rules(allow=frozenset({"!a"})), Rules(deny=frozenset({""}))])
def test_a_policy_from_elsewhere_has_its_patterns_checked_as_well(rules: Rules) -> None:
    with pytest.raises(PolicyError, match="write"):
        Policy({"alice": rules}, {})
    with pytest.raises(PolicyError, match="write"):
        Policy({}, {"g": Group(frozenset(), rules)})


class _Drawn(NamedTuple):
    """A policy as it may be written, with lists in any order and with repetitions."""

    principals: Mapping[str, tuple[Sequence[str], Sequence[str]]]
    groups: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]]

    def policy(self) -> Policy:
        return Policy(
            {name: Rules(frozenset(allow), frozenset(deny)) for name, (allow, deny) in self.principals.items()},
            {
                name: Group(frozenset(members), Rules(frozenset(allow), frozenset(deny)))
                for name, (members, allow, deny) in self.groups.items()
            },
        )

    def patterns_of(self, name: str) -> tuple[set[str], set[str]]:
        """By brute force: all that is allowed and denied to this name."""
        own_allow, own_deny = self.principals.get(name, ((), ()))
        mine = [(allow, deny) for members, allow, deny in self.groups.values() if name in members]
        return (
            {pattern for allow in (own_allow, *(allow for allow, _ in mine)) for pattern in allow},
            {pattern for deny in (own_deny, *(deny for _, deny in mine)) for pattern in deny},
        )

    def toml(self) -> bytes:
        tables: dict[str, dict[str, dict[str, Sequence[str]]]] = {
            "principals": {name: {"allow": allow, "deny": deny} for name, (allow, deny) in self.principals.items()},
            "groups": {
                name: {"members": members, "allow": allow, "deny": deny}
                for name, (members, allow, deny) in self.groups.items()
            },
        }
        return "".join(
            f"[{kind}.{name}]\n"
            + "".join(f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in lists.items())
            for kind, named in tables.items()
            for name, lists in named.items()
        ).encode()


_LISTS = st.lists(st.sampled_from(_PATTERNS), max_size=3)
_POLICIES = st.builds(
    _Drawn,
    st.dictionaries(st.sampled_from(_NAMES), st.tuples(_LISTS, _LISTS), max_size=3),
    st.dictionaries(
        st.sampled_from(["g", "h", "i"]),
        st.tuples(st.lists(st.sampled_from(_NAMES), max_size=3), _LISTS, _LISTS),
        max_size=3,
    ),
)


@given(drawn=_POLICIES)
def test_deny_always_wins_and_without_an_allow_there_is_nothing(drawn: _Drawn) -> None:
    read = drawn.policy()
    for name in _NAMES:
        allow, deny = drawn.patterns_of(name)
        # Each pattern on its own, so that the rule of how they combine is not taken from what is tested.
        alone = {pattern: Policy({"x": Rules(frozenset({pattern}))}, {}).may_read("x") for pattern in _PATTERNS}
        for path in _PATHS:
            expected = any(alone[one](path) for one in allow) and not any(alone[one](path) for one in deny)
            assert read.may_read(name)(path) == expected


@given(drawn=_POLICIES)
def test_who_is_not_named_never_reads(drawn: _Drawn) -> None:
    assert not any(drawn.policy().may_read("mallory")(path) for path in _PATHS)


@given(one=_POLICIES, other=_POLICIES)
def test_those_changed_are_exactly_those_whose_rules_differ_in_both_directions(one: _Drawn, other: _Drawn) -> None:
    differing = {name for name in [*_NAMES, "mallory"] if one.patterns_of(name) != other.patterns_of(name)}
    assert one.policy().changed(other.policy()) == differing
    assert other.policy().changed(one.policy()) == differing


@given(drawn=_POLICIES)
def test_a_policy_differs_in_nothing_from_itself_as_it_is_written(drawn: _Drawn) -> None:
    assert decode_policy(drawn.toml()).changed(drawn.policy()) == frozenset()
