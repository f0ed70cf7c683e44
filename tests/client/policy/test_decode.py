"""What is wrong with a policy file is said in one line: the place and what to do, and nothing that the file says."""

import traceback

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell.policy import PolicyError
from hintcell.policy.decode import MAX_MEMBERS, MAX_PATTERNS, decode_policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[groups", "not valid TOML (at end of document): a policy has tables"),
        ("a = 1\na = 2\n", "not valid TOML (at line 2, column 6): a policy has tables"),
        ("a = " + "[" * 50_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "not valid TOML: a policy has tables"),
        ("[groups]\n[group.g]\n", "key 2 is not known; a policy has tables [groups.NAME] and [principals.NAME]"),
        ("groups = 1\n", "groups: Expected `object`, got `int`; a policy has tables"),
        ("[groups]\nf = {}\ng = 1\n", "group 2: Expected `object`, got `int`; a group has lists of strings"),
        ("[groups.g]\nmember = []\n", "group 1: key 1 is not known; a group has lists"),
        ("[principals.a]\nallow = []\nmembers = ['b']\n", "principal 1: key 2 is not known; a principal has lists"),
        ("[principals.a]\nallow = 'src/**'\n", "principal 1: allow: Expected `array`, got `str`"),
        ("[principals.a]\nallow = ['lib', 7]\n", "principal 1: item 2 of allow: Expected `str`, got `int`"),
        ("[principals.a]\nallow = ['lib', '!x']\n", "principal 1: item 2 of allow: ! makes no exception here"),
        ("[groups.f]\n[groups.g]\ndeny = ['']\n", "group 2: item 1 of deny: the pattern is empty"),
        ("[groups.g]\nmembers = ['a', ' ']\n", "group 1: item 2 of members: the name is blank"),
        (f"[groups.g]\nmembers = ['{'é' * 513}']\n", "group 1: item 1 of members: the name has over 1,024 bytes"),
        ("[groups.' ']\n", "group 1: the name is blank"),
        ("[principals.a]\n[principals.' ']\n", "principal 2: the name is blank"),
        (f"[principals.a]\nallow = {['a'] * (MAX_PATTERNS + 1)}\n", "4,097 patterns, over the limit of 4,096"),
        (f"[groups.g]\nmembers = {['a'] * (MAX_MEMBERS + 1)}\n", "over 65,536 members"),
    ],
)
def test_an_error_names_the_place(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        decode_policy(text.encode())
    message = str(raised.value)
    assert said in message
    assert "\n" not in message
    assert len(message) < 250


# No message of ours has the letter Ж.
_MARK = "ЖqЖ"
_odd = st.sampled_from(
    ['"', "'", "[", "]", "{", "}", "=", ".", ",", "\\", "\\x", "\\ud800", "#", "!", "\n", "\0", "\r", "9", ""]
)
_marked = st.tuples(_odd, _odd).map(_MARK.join)
_quoted = st.one_of(_marked, st.builds("{0}{1}{0}".format, st.sampled_from(['"', "'", '"""', "'"]), _marked))
_listed = st.one_of(_quoted, st.lists(_quoted, max_size=3).map(lambda items: f"[{', '.join(items)}]"))
_line = st.one_of(
    st.builds("[{}.{}]".format, st.sampled_from(["groups", "principals", _MARK]), _quoted),
    st.builds("{} = {}".format, st.one_of(st.sampled_from(["members", "allow", "deny"]), _quoted), _listed),
    st.builds("{} = {{{} = 1, {} = 2}}".format, _quoted, _quoted, _quoted),
)


@given(st.lists(_line, min_size=1, max_size=6).map("\n".join))
@example(f"[{_MARK}]\n[{_MARK}]\n")
@example(f"{_MARK} = 1\n{_MARK}.a = 1\n")
@example(f"a = {{{_MARK} = 1, {_MARK} = 2}}\n")
@example("a = Ж\n")
@example('a = "\\Ж"\n')
@example(f"[principals.a]\n{_MARK} = 1\n")
@example(f"[principals.{_MARK}]\nallow = ['!{_MARK}']\n")
@example(f"[principals.{_MARK}]\nallow = {{{_MARK} = 1}}\n")
@example(f"[groups.{_MARK}]\nmembers = ['{_MARK}', ' ']\n")
@example(f"[groups.{_MARK}]\nmembers = ['{_MARK * 300}']\n")
def test_an_error_repeats_nothing_of_the_file(text: str) -> None:
    assert "Ж" not in _message(text)


def _message(text: str) -> str:
    try:
        decode_policy(text.encode())
    except PolicyError as error:
        return "".join(traceback.format_exception(error, limit=0))
    return ""


def test_a_byte_that_is_not_utf8_is_named() -> None:
    with pytest.raises(PolicyError, match="byte 2 is not UTF-8"):
        decode_policy(b"# \xff\n")


def test_as_many_patterns_as_are_allowed_are_read() -> None:
    read = decode_policy(f"[principals.a]\nallow = {[f'f{number}' for number in range(MAX_PATTERNS)]}\n".encode())
    assert read.may_read("a")(f"f{MAX_PATTERNS - 1}")


def test_a_byte_order_mark_does_not_matter() -> None:
    assert decode_policy(b"\xef\xbb\xbf[principals.a]\nallow = ['**']\n").may_read("a")("b")
