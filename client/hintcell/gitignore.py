"""Patterns as in Git's ignore files (gitignore(5)), made into regular expressions that match in linear time.

Ignore files, globs and policies match by them. The usual expressions try every way to share a name among the `*` of a
pattern, and each star more takes as many times longer as the name has characters. Here a piece between two stars is
matched where it comes first and nowhere else (`(?>…)`, as in Python's fnmatch): that leaves the longest rest of the
name, and where the rest of the pattern matches a shorter one, a star can take the difference. So it is with what stands
between two `**/`. No match takes longer than the length of the name times that of the pattern.

Does not cover which of several patterns decides.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_PATTERN_BYTES: Final = 1_024

# A set ends at the first `]` that is not its first character, escaped, or of a class. A `[` without one is no token.
_MEMBER: Final = r"\[:[a-z]*:\]|\\.|[^]\\]"
_TOKEN: Final = re.compile(
    rf"(?P<stars>\*+)|(?P<any>\?)|\\(?P<escaped>.)|\[(?P<negated>[!^]?+)(?P<set>(?>(?:\]|{_MEMBER})(?:{_MEMBER})*))\]"
    r"|(?P<plain>[^\\[])",
    re.DOTALL,
)
_ITEM: Final = re.compile(r"\[:(?P<kind>[a-z]*):\]|(?P<low>\\.|.)-(?P<high>\\.|.)|(?P<one>\\.|.)", re.DOTALL)
_KINDS: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
# For Git as well as `**`.
_STARS: Final = re.compile(r"(?<![^/])\*{3,}(?![^/])")
_ONE_FOLDER: Final = "(?:[^/]+/)"
_ONE_CHARACTER: Final = "[^/]"

_BRACES: Final = re.compile(r"(?<!\\)\{[^{}]*,[^{}]*\}")


class GitPatternError(ValueError):
    """The pattern can match nothing, or has a set that is most likely a mistake.

    The message, to stand behind `the pattern`, says why and what to write.
    """


class GitPattern(NamedTuple):
    """A pattern.

    Attributes:
        regex: for its `match`; names have `/` between steps, and folders one at the end.
        negated: whether it began with `!`.
    """

    regex: re.Pattern[str]
    negated: bool


def git_pattern(line: str, *, below: bool) -> GitPattern:
    r"""The pattern in a line of an ignore file, without `\n`.

    Args:
        line: the line.
        below: whether to match all that is below a folder which the pattern matches, too.

    Raises:
        GitPatternError: it is a comment, can match nothing, or has a set with a `/` or a backward range.
    """
    if len(line.encode(errors="surrogatepass")) > MAX_PATTERN_BYTES:
        raise GitPatternError(f"has over {MAX_PATTERN_BYTES:,} bytes: use a shorter one")
    if not line.removeprefix("!").strip():
        raise GitPatternError("is empty: write ** for everything, or leave it out")
    if line.startswith("#"):
        raise GitPatternError("would be a comment, as it starts with #: write \\# for the character")
    negated = line.startswith("!")
    path = _STARS.sub("**", _without_spaces_at_the_end(line.removeprefix("!")))
    only_folders = path.endswith("/")
    path = path.removesuffix("/")
    steps = path.removeprefix("/").split("/")
    if any(step in ("", ".", "..") for step in steps):
        raise GitPatternError("has an empty step, . or ..: write it relative to the folder that is searched")
    if "/" not in path:
        steps.insert(0, "**")
    if steps[-1] == "**":
        steps.append("*")
    groups = [""]
    for step in steps:
        if step == "**":
            groups.append("")
        else:
            groups[-1] += f"{_step(step)}/"
    groups[-1] = groups[-1].removesuffix("/")
    end = ("/" if only_folders else r"(?:/|\Z)") if below else (r"/\Z" if only_folders else r"/?\Z")
    return GitPattern(re.compile(_with_stars(groups, _ONE_FOLDER) + end), negated)


def check_braces(pattern: str) -> None:
    """Raise GitPatternError if the pattern has braces such as a shell takes for several patterns, and Git does not."""
    if _BRACES.search(pattern):
        raise GitPatternError("has braces, which are plain characters here: write *.ts and *.js for *.{ts,js}, or \\{")


def _without_spaces_at_the_end(pattern: str) -> str:
    r"""As Git strips them: all but one after a `\`."""
    stripped = pattern.rstrip(" ")
    escapes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if escapes % 2 and stripped != pattern else stripped


def _step(step: str) -> str:
    """The expression for what stands between two slashes."""
    if not step.strip("*"):
        return f"{_ONE_CHARACTER}+"
    pieces = [""]
    at = 0
    while at < len(step):
        token = _TOKEN.match(step, at)
        if token is None:
            raise GitPatternError("has a [ with no ] before the next /, or a \\ before nothing: write \\[ or \\\\")
        at = token.end()
        if token["stars"]:
            pieces.append("")
        elif token["any"]:
            pieces[-1] += _ONE_CHARACTER
        elif token["set"]:
            pieces[-1] += _set(token["set"], negated=bool(token["negated"]))
        else:
            pieces[-1] += re.escape(token["escaped"] or token["plain"])
    return _with_stars(pieces, _ONE_CHARACTER)


def _with_stars(pieces: Sequence[str], one: str) -> str:
    """The expression for `pieces` with any number of `one`, which has one way to match, between each two."""
    first, *others = pieces
    if not others:
        return first
    *inner, last = others
    return first + "".join(f"(?>{one}*?{piece})" for piece in inner) + f"{one}*{last}"


def _set(members: str, *, negated: bool) -> str:
    """The expression for a set, which never has the slash."""
    items = ""
    for item in _ITEM.finditer(members):
        if item["kind"] is not None:
            if item["kind"] not in _KINDS:
                raise GitPatternError(f"has a set that is none of {', '.join(_KINDS)}: list its characters")
            items += _KINDS[item["kind"]]
        elif item["low"]:
            low, high = item["low"][-1], item["high"][-1]
            if low > high:
                raise GitPatternError("has a set that runs backwards: write the lower end first, as in [a-z]")
            items += f"{re.escape(low)}-{re.escape(high)}"
        else:
            items += re.escape(item["one"][-1])
    return f"(?!/)[{'^' if negated else ''}{items}]"
