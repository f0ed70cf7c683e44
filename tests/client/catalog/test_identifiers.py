"""Ids are valid, printable UTF-8 of 1 to 128 bytes, and a cut one keeps as much of the path's end as fits."""

import os

from hypothesis import example, given
from hypothesis import strategies as st

from hintcell.catalog.identifiers import identifier, plain_name, printable

_folder_names = st.binary(min_size=1, max_size=60).map(lambda name: name.replace(b"/", b"-").replace(b"\0", b"-"))
_paths = st.lists(_folder_names, min_size=1, max_size=8).map(lambda parts: os.fsdecode(b"/".join(parts)))
_lines = st.integers(1, 10**7)
_names = st.from_regex(r"[a-zé_]{1,40}(\.[a-zé_]{1,40}){0,3}", fullmatch=True)


@given(_paths, _lines, _names)
@example("a\udcff\n/b.py", 1, "f")
def test_an_id_is_printable_and_valid_utf8_of_at_most_128_bytes(path: str, line: int, name: str) -> None:
    found = identifier(path, line, name)
    if found is not None:
        assert 1 <= len(found.encode()) <= 128
        assert found.isprintable()
        assert found.endswith(f":{line}:{name}")


@given(_paths, _lines, _names)
def test_an_id_is_whole_or_the_longest_tail_of_folders_that_fits(path: str, line: int, name: str) -> None:
    parts = printable(path).split("/")
    tails = ["/".join(parts), *("…/" + "/".join(parts[start:]) for start in range(1, len(parts)))]
    fitting = (candidate for tail in tails if len((candidate := f"{tail}:{line}:{name}").encode()) <= 128)
    assert identifier(path, line, name) == next(fitting, None)


def test_ids_of_every_length_around_the_limit() -> None:
    for length in range(100, 140):
        path = "folder/" + "m" * (length - len("folder/.py:1:f")) + ".py"
        whole = f"{path}:1:f"
        assert len(whole) == length
        if length <= 128:
            assert identifier(path, 1, "f") == whole
        elif length <= 128 + len("folder/") - len("…/".encode()):
            assert identifier(path, 1, "f") == "…/" + whole.removeprefix("folder/")
        else:
            assert identifier(path, 1, "f") is None


@given(_paths)
def test_a_printable_path_has_no_control_character_and_keeps_its_folders(path: str) -> None:
    shown = printable(path)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert shown.count("/") == path.count("/")


def test_bytes_that_are_not_utf8_and_unprintable_characters_are_escaped_apart() -> None:
    assert printable(os.fsdecode(b"caf\xe9/\xc3\xa9\x1b[2J\n.py")) == r"caf\xe9/é\x1b[2J\n.py"
    assert printable("a\u202eb\u2028.py") == r"a\u202eb\u2028.py"
    assert printable("größe/ソ 1.py") == "größe/ソ 1.py"


@given(st.text(max_size=100))
@example("::")
@example("")
def test_a_plain_name_can_be_told_from_the_line_before_it(name: str) -> None:
    plain = plain_name(name)
    assert 1 <= len(plain) <= 60
    assert plain.isprintable()
    assert ":" not in plain
    assert plain == plain.strip()


def test_plain_names_are_as_in_the_source_but_for_colons_quotes_and_length() -> None:
    assert plain_name("a::b::c") == "a.b.c"
    assert plain_name("'quoted: name'") == "quoted name"
    assert plain_name("#hidden?") == "#hidden?"
    assert plain_name("two\n  words") == "two words"
    assert plain_name("x" * 60) == "x" * 60
    assert plain_name("x" * 61) == "x" * 59 + "…"
    assert plain_name(" . ") == "_"
