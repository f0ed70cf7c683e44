"""From the text of a policy file to a policy, or to one line that says what is wrong with it and where.

No line of an error repeats a pattern: it may be shown where paths must not be.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from hintcell.policy.model import Group, Policy, PolicyError, Rules
from hintcell.policy.patterns import PatternError, check_pattern
from hintcell_manager.protocol import MAX_NAME_BYTES

# As many as a person could keep in order in one file; looking at each of them for each file of a large folder takes
# seconds.
MAX_PATTERNS: Final = 4_096
# All the members that groups list, together.
MAX_MEMBERS: Final = 65_536


class _File(msgspec.Struct, forbid_unknown_fields=True):
    groups: dict[str, object] = {}
    principals: dict[str, object] = {}


class _Principal(msgspec.Struct, forbid_unknown_fields=True):
    allow: list[str] = []
    deny: list[str] = []


class _Group(_Principal, forbid_unknown_fields=True):
    members: list[str] = []


_Table = TypeVar("_Table", bound=msgspec.Struct)


def decode_policy(text: bytes) -> Policy:
    """The policy that a TOML file says.

    Raises:
        PolicyError: it is not TOML, or not a policy. The message does not name the file.
    """
    try:
        content: object = msgspec.toml.decode(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PolicyError(f"byte {error.start} is not UTF-8: save the file as UTF-8") from None
    except RecursionError:
        raise PolicyError("it is nested too deeply: a policy has tables of lists of strings") from None
    except ValueError as error:  # Also of msgspec, and of numbers that are too long.
        raise PolicyError(f"not valid TOML: {error}") from None
    file = _converted(content, _File, "", "a policy has tables [groups.NAME] and [principals.NAME]")
    groups = {
        name: _converted(table, _Group, f"groups.{name}", "a group has lists of strings members, allow and deny")
        for name, table in file.groups.items()
    }
    principals = {
        name: _converted(table, _Principal, f"principals.{name}", "a principal has lists of strings allow and deny")
        for name, table in file.principals.items()
    }
    _check_names(groups, principals)
    _check_patterns(groups, principals)
    return Policy(
        {name: _rules(table) for name, table in principals.items()},
        {name: Group(frozenset(table.members), _rules(table)) for name, table in groups.items()},
    )


def _rules(table: _Principal) -> Rules:
    return Rules(frozenset(table.allow), frozenset(table.deny))


def _converted(value: object, kind: type[_Table], place: str, advice: str) -> _Table:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        inside = (place + where.rstrip("`")).lstrip(".")
        raise PolicyError(f"{inside}: {what}; {advice}" if inside else f"{what}; {advice}") from None


def _check_names(groups: Mapping[str, _Group], principals: Mapping[str, _Principal]) -> None:
    if sum(len(group.members) for group in groups.values()) > MAX_MEMBERS:
        raise PolicyError(f"the groups have over {MAX_MEMBERS:,} members: use fewer")
    for place, name in _names(groups, principals):
        if not name.strip():
            raise PolicyError(f"{place}: the name is blank: name who it is")
        if len(name.encode()) > MAX_NAME_BYTES:
            raise PolicyError(f"{place}: the name has over {MAX_NAME_BYTES:,} bytes: use a shorter one")


def _names(groups: Mapping[str, _Group], principals: Mapping[str, _Principal]) -> Iterator[tuple[str, str]]:
    for name, group in groups.items():
        yield "groups", name
        for number, member in enumerate(group.members):
            yield f"groups.{name}.members[{number}]", member
    for name in principals:
        yield "principals", name


def _check_patterns(groups: Mapping[str, _Group], principals: Mapping[str, _Principal]) -> None:
    tables: list[tuple[str, _Principal]] = [
        *((f"groups.{name}", group) for name, group in groups.items()),
        *((f"principals.{name}", principal) for name, principal in principals.items()),
    ]
    if (count := sum(len(table.allow) + len(table.deny) for _, table in tables)) > MAX_PATTERNS:
        raise PolicyError(f"it has {count:,} patterns, over the limit of {MAX_PATTERNS:,}: name whole folders")
    for place, table in tables:
        for list_name, patterns in (("allow", table.allow), ("deny", table.deny)):
            for number, pattern in enumerate(patterns):
                try:
                    check_pattern(pattern)
                except PatternError as error:
                    raise PolicyError(f"{place}.{list_name}[{number}]: {error}") from None
