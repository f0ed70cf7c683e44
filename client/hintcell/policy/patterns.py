"""Patterns of a policy: which are allowed, and matching paths against them.

The matching is pathspec's, which follows Git's ignore files. A pattern that Git would pass over in silence is refused
here, because a deny rule without effect is worse than an error; so is one of which pathspec and Git have different
ideas. Does not cover what a match means (`model`).
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Final

from pathspec import GitIgnoreSpec

MAX_PATTERN_BYTES: Final = 1_024
# Whoever reads a policy again and again checks only what is new in it; as many as a large policy has, twice.
_REMEMBERED: Final = 8_192

# Escapes, simple sets, and everything else. A set that is negated or has punctuation in it could match a `/` in
# pathspec's translation, or mean something else than in Git.
_PLAIN: Final = re.compile(r"(?:\\.|\[(?:\w-\w|[\w.,+@=])+\]|[^\\\[])+")
_NOT_IN_TEXT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

# In the expressions that pathspec makes, a dot does not match a newline, which may stand in a name. This character can
# stand neither in a name nor in a pattern, and takes its place.
_INSTEAD_OF_NEWLINE: Final = "\ud800"


class PatternError(Exception):
    """The pattern has no place in a policy; the message says why and what to write, and does not repeat it."""


@functools.lru_cache(_REMEMBERED)
def check_pattern(pattern: str) -> None:
    """Raise PatternError unless the pattern has a meaning, the same for Git and for us."""
    if not pattern.strip():
        raise PatternError("the pattern is empty: write ** for everything, or leave it out")
    if len(pattern.encode(errors="surrogatepass")) > MAX_PATTERN_BYTES:
        raise PatternError(f"the pattern has over {MAX_PATTERN_BYTES:,} bytes: use a shorter one")
    if pattern.startswith("!"):
        raise PatternError("! makes no exception here: write exceptions under deny, or \\! for the character")
    if pattern.startswith("#"):
        raise PatternError("a pattern with # would be a comment: write \\# for the character")
    if pattern[-1].isspace():
        raise PatternError("the pattern ends in white space, which would not count: remove it, or write ? for it")
    if _NOT_IN_TEXT.search(pattern):
        raise PatternError("the pattern has a control character, or is not UTF-8: write ? for what it is")
    steps = pattern.removeprefix("/").removesuffix("/").split("/")
    if any(step in ("", ".", "..") for step in steps):
        raise PatternError("the pattern has an empty step, . or ..: write it relative to the folder that is searched")
    if not _PLAIN.fullmatch(pattern):
        raise PatternError(
            "the pattern has a [ without ], a set other than letters, digits and .,+@= as in [a-z_], or ends in \\:"
            " write \\[ for the character, or ? for any"
        )
    try:
        [compiled] = GitIgnoreSpec.from_lines([pattern], backend="simple").patterns
    except (ValueError, re.error) as error:
        raise PatternError("the pattern cannot be read: write a path with *, ** and ?") from error
    if not compiled.include:
        raise PatternError("the pattern matches nothing: write a path with *, ** and ?")


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether one of the patterns, which have been checked, matches a path.

    The path is relative to the folder that is searched, with `/`; bytes of it that are not UTF-8 are surrogates, each
    of which counts as one character that no pattern can name.
    """
    # The best available backend would depend on what else is installed, and others refuse surrogates.
    spec = GitIgnoreSpec.from_lines(sorted(set(patterns)), backend="simple")
    return lambda path: spec.match_file(path.replace("\n", _INSTEAD_OF_NEWLINE))
