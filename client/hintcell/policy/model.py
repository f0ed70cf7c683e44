"""What a policy is: rules of principals and of groups, what they allow, and whose rules two policies disagree about.

Pure decisions, made once per policy. Covers neither the file (`decode`, `sources`) nor what follows from a change
(`watch`).
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from hintcell.errors import HintcellError
from hintcell.policy.patterns import PatternError, check_pattern, matcher


class PolicyError(HintcellError):
    """There is no policy to go by; the message says where and what to do, and repeats no name or pattern."""


class Rules(Struct, frozen=True):
    """What one principal, or the members of one group, may read and may not; deny wins.

    Attributes:
        allow: patterns of what may be read.
        deny: patterns of what may not, whatever else allows it.
    """

    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()


class Group(Struct, frozen=True):
    """Rules that several principals share.

    Attributes:
        members: principals; a group is no member of another one.
        rules: of each of them, beside their own.
    """

    members: frozenset[str]
    rules: Rules


_NOTHING = Rules()


class Policy:
    """Who may read what: nobody anything, but for what a rule allows and none denies.

    Args:
        principals: the rules of each principal's own, by its name.
        groups: rules that are those of each member as well, by the group's name.

    Raises:
        PolicyError: a pattern has no meaning.
    """

    def __init__(self, principals: Mapping[str, Rules], groups: Mapping[str, Group]) -> None:
        for rules in [*principals.values(), *(group.rules for group in groups.values())]:
            for pattern in sorted(rules.allow | rules.deny):
                try:
                    check_pattern(pattern)
                except PatternError as error:
                    raise PolicyError(str(error)) from None
        own: dict[str, list[Rules]] = {name: [rules] for name, rules in principals.items()}
        for group in groups.values():
            for member in group.members:
                own.setdefault(member, []).append(group.rules)
        # Members of the same groups without rules of their own share one value, so that a file with a large group
        # does not become a large table.
        shared: dict[tuple[int, ...], Rules] = {}
        self._rules: dict[str, Rules] = {}
        for name, several in own.items():
            key = tuple(map(id, several))
            if key not in shared:
                shared[key] = Rules(
                    allow=frozenset[str]().union(*(rules.allow for rules in several)),
                    deny=frozenset[str]().union(*(rules.deny for rules in several)),
                )
            self._rules[name] = shared[key]

    def rules_of(self, principal: str) -> Rules:
        """The principal's own rules and those of all its groups; empty if nothing names it."""
        return self._rules.get(principal, _NOTHING)

    def may_read(self, principal: str) -> Callable[[str], bool]:
        """Whether the principal may read the file with a given path, which is relative to the folder searched.

        The answer depends on the path alone: nothing is opened, and whether there is such a file does not matter. It
        is case-sensitive, and `/` separates folders.
        """
        rules = self.rules_of(principal)
        allowed, denied = matcher(rules.allow), matcher(rules.deny)
        return lambda path: allowed(path) and not denied(path)

    def changed(self, other: "Policy") -> frozenset[str]:
        """The principals whose rules differ between this policy and the other, in either direction.

        The order of rules does not count, nor does whether they are the principal's own or a group's.
        """
        names = self._rules.keys() | other._rules.keys()
        return frozenset(name for name in names if self.rules_of(name) != other.rules_of(name))
