"""From the text of a policy file to a policy, or to one line that says what is wrong with it and where.

No error repeats anything of the file, not even a name: it may be shown where those must not be. Groups, principals and
the items of lists are numbered from 1, as the file has them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar, cast

import msgspec

from hintcell.policy.model import Group, Policy, PolicyError, Rules
from hintcell.policy.patterns import PatternError, check_pattern
from hintcell_manager.protocol import MAX_NAME_BYTES

# As many as a person could keep in order in one file; looking at each of them for each file of a large folder takes
# seconds.
MAX_PATTERNS: Final = 4_096
# All the members that groups list, together.
MAX_MEMBERS: Final = 65_536

# All that is told of what the parser says, which repeats keys and characters.
_PARSER_PLACE: Final = re.compile(r" \(at (?:line \d+, column \d+|end of document)\)$")


class _File(msgspec.Struct):
    groups: dict[str, object] = {}
    principals: dict[str, object] = {}


class _Principal(msgspec.Struct):
    allow: list[str] = []
    deny: list[str] = []


class _Group(_Principal):
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
        place = _PARSER_PLACE.search(str(error))
        raise PolicyError(
            f"not valid TOML{place[0] if place else ''}: a policy has tables of lists of strings"
        ) from None
    file = _converted(content, _File, "", "a policy has tables [groups.NAME] and [principals.NAME]")
    groups = {
        name: _converted(table, _Group, f"group {number}", "a group has lists of strings members, allow and deny")
        for number, (name, table) in enumerate(file.groups.items(), 1)
    }
    principals = {
        name: _converted(table, _Principal, f"principal {number}", "a principal has lists of strings allow and deny")
        for number, (name, table) in enumerate(file.principals.items(), 1)
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
        table = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise PolicyError(f"{_inside(place, where.rstrip('`'))}{what}; {advice}") from None
    for number, name in enumerate(cast("dict[str, object]", value), 1):
        if name not in kind.__struct_fields__:  # msgspec's own error would repeat the name.
            raise PolicyError(f"{_inside(place, '')}key {number} is not known; {advice}")
    return table


def _inside(place: str, where: str) -> str:
    """The beginning of a message about what msgspec finds at `.FIELD` or `.FIELD[INDEX]` of a place."""
    field, _, index = where.lstrip(".").partition("[")
    item = f"item {int(index.rstrip(']')) + 1} of {field}" if index else field
    return "".join(f"{part}: " for part in (place, item) if part)


def _check_names(groups: Mapping[str, _Group], principals: Mapping[str, _Principal]) -> None:
    if sum(len(group.members) for group in groups.values()) > MAX_MEMBERS:
        raise PolicyError(f"the groups have over {MAX_MEMBERS:,} members: use fewer")
    for place, name in _names(groups, principals):
        if not name.strip():
            raise PolicyError(f"{place}: the name is blank: name who it is")
        if len(name.encode()) > MAX_NAME_BYTES:
            raise PolicyError(f"{place}: the name has over {MAX_NAME_BYTES:,} bytes: use a shorter one")


def _names(groups: Mapping[str, _Group], principals: Mapping[str, _Principal]) -> Iterator[tuple[str, str]]:
    for number, (name, group) in enumerate(groups.items(), 1):
        yield f"group {number}", name
        for item, member in enumerate(group.members, 1):
            yield f"group {number}: item {item} of members", member
    for number, name in enumerate(principals, 1):
        yield f"principal {number}", name


def _check_patterns(groups: Mapping[str, _Group], principals: Mapping[str, _Principal]) -> None:
    tables: list[tuple[str, _Principal]] = [
        *((f"group {number}", group) for number, group in enumerate(groups.values(), 1)),
        *((f"principal {number}", principal) for number, principal in enumerate(principals.values(), 1)),
    ]
    if (count := sum(len(table.allow) + len(table.deny) for _, table in tables)) > MAX_PATTERNS:
        raise PolicyError(f"it has {count:,} patterns, over the limit of {MAX_PATTERNS:,}: name whole folders")
    for place, table in tables:
        for list_name, patterns in (("allow", table.allow), ("deny", table.deny)):
            for item, pattern in enumerate(patterns, 1):
                try:
                    check_pattern(pattern)
                except PatternError as error:
                    raise PolicyError(f"{place}: item {item} of {list_name}: {error}") from None
