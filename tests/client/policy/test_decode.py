"""What is wrong with a policy file is said in one line, with the place and what to do, and without a pattern."""

import pytest

from hintcell.policy import PolicyError
from hintcell.policy.decode import MAX_MEMBERS, MAX_PATTERNS, decode_policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[groups", "not valid TOML: "),
        ("a = " + "[" * 50_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "not valid TOML: "),
        ("[group.g]\n", "unknown field `group`; a policy has tables [groups.NAME] and [principals.NAME]"),
        ("groups = 1\n", "groups: Expected `object`, got `int`; a policy has tables"),
        ("[groups]\ng = 1\n", "groups.g: Expected `object`, got `int`; a group has lists of strings"),
        ("[groups.g]\nmember = []\n", "groups.g: Object contains unknown field `member`; a group has lists"),
        ("[principals.a]\nmembers = ['b']\n", "principals.a: Object contains unknown field `members`"),
        ("[principals.a]\nallow = 'src/**'\n", "principals.a.allow: Expected `array`, got `str`"),
        ("[principals.a]\nallow = ['lib', 7]\n", "principals.a.allow[1]: Expected `str`, got `int`"),
        ("[principals.a]\nallow = ['lib', '!secret-plan']\n", "principals.a.allow[1]: ! makes no exception here"),
        ("[groups.g]\ndeny = ['']\n", "groups.g.deny[0]: the pattern is empty"),
        ("[groups.g]\nmembers = ['a', ' ']\n", "groups.g.members[1]: the name is blank"),
        (f"[groups.g]\nmembers = ['{'é' * 513}']\n", "groups.g.members[0]: the name has over 1,024 bytes"),
        ("[principals.' ']\n", "principals: the name is blank"),
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
    assert "secret-plan" not in message
    assert len(message) < 250


def test_a_byte_that_is_not_utf8_is_named() -> None:
    with pytest.raises(PolicyError, match="byte 2 is not UTF-8"):
        decode_policy(b"# \xff\n")


def test_as_many_patterns_as_are_allowed_are_read() -> None:
    read = decode_policy(f"[principals.a]\nallow = {[f'f{number}' for number in range(MAX_PATTERNS)]}\n".encode())
    assert read.may_read("a")(f"f{MAX_PATTERNS - 1}")


def test_a_byte_order_mark_does_not_matter() -> None:
    assert decode_policy(b"\xef\xbb\xbf[principals.a]\nallow = ['**']\n").may_read("a")("b")
