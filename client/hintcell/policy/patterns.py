"""Patterns of a policy: which are allowed, and matching paths against them.

They match as in Git's ignore files. A pattern that Git would pass over in silence, or that has another meaning
elsewhere, is refused here, because a deny rule without effect is worse than an error. Does not cover what a match
means (`model`).
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Final

from hintcell.gitignore import GitPatternError, check_braces, git_pattern

# Whoever reads a policy again and again checks only what is new in it; as many as a large policy has, twice.
_REMEMBERED: Final = 8_192

_NOT_IN_TEXT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class PatternError(Exception):
    """The pattern has no place in a policy; the message says why and what to write, and does not repeat it."""


@functools.lru_cache(_REMEMBERED)
def check_pattern(pattern: str) -> None:
    """Raise PatternError unless the pattern has a meaning, the same for Git and for us."""
    try:
        git_pattern(pattern, below=True)
        check_braces(pattern)
    except GitPatternError as error:
        raise PatternError(f"the pattern {error}") from error
    if pattern.startswith("!"):
        raise PatternError("! makes no exception here: write exceptions under deny, or \\! for the character")
    if pattern[-1].isspace():
        raise PatternError("the pattern ends in white space, which would not count: remove it, or write ? for it")
    if _NOT_IN_TEXT.search(pattern):
        raise PatternError("the pattern has a control character, or is not UTF-8: write ? for what it is")


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether one of the patterns, which have been checked, matches a path.

    The path is relative to the folder that is searched, with `/`; bytes of it that are not UTF-8 are surrogates, each
    of which counts as one character that no pattern can name.
    """
    regexes = [git_pattern(pattern, below=True).regex for pattern in sorted(set(patterns))]
    return lambda path: any(regex.match(path) for regex in regexes)
