"""Which functions a Python file has, with exactly its lines; and that no bytes lead to a traceback."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell.catalog import source as parsing
from hintcell.catalog.decoding import text_of
from hintcell.catalog.model import Part
from tests.client.catalog.sources import Module, modules


def functions_of(source: bytes) -> list[Part]:
    return parsing.functions_of(text_of(source, "python"), "python")


@given(modules())
def test_functions_are_those_at_module_and_class_level_with_exactly_their_lines(module: Module) -> None:
    assert functions_of(module.text.encode()) == module.expected()


@given(modules())
def test_a_byte_order_mark_and_the_declared_encoding_change_no_function(module: Module) -> None:
    expected = functions_of(module.text.encode())
    assert functions_of(b"\xef\xbb\xbf" + module.text.encode()) == expected
    declared = "# -*- coding: utf-7 -*-" + module.line_break + module.text
    if module.line_break != "\r":  # where Python looks for a declaration, a bare return does not end a line
        assert [(line - 1, name, text) for line, name, text in functions_of(declared.encode("utf-7"))] == expected


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@example(b"")
@example(b"\xff\xfe")
@example(b"\x7fELF\x02\x01\x01\x00\x00")
@example(b"def f(): pass\x00")
@example(b"\xef\xbb\xbf# coding: latin-1\ndef f(): pass")
@example(b"# coding: no-such-encoding\ndef f(): pass")
@example(b"# coding: rot13\ndef f(): pass")
@example(b"# coding: idna\ndef f(): pass")
@example(b"# coding: undefined\ndef f(): pass")
@example(b"# coding: unicode_escape\n'\\udc80'\ndef f(): pass")
@example(b"# coding: utf-16\ndef f(): pass")
@example(b"x = " + b"1" * 5000)
@example(b"\n".join(b" " * depth + b"if x:" for depth in range(200)))
def test_any_bytes_give_functions(source: bytes) -> None:
    for function in functions_of(source):
        assert function.name
        assert function.line >= 1
        assert function.text.encode()


@pytest.mark.parametrize("line_before", [b"", b"#!/usr/bin/python\n", b"# caf\xe9\n"])
@pytest.mark.parametrize("encoding", [b"no-such-encoding", b"rot13", b"idna", b"punycode", b"undefined", b"zip"])
def test_an_encoding_that_cannot_be_used_is_taken_as_utf8(line_before: bytes, encoding: bytes) -> None:
    source = line_before + b"# coding: " + encoding + b"\ndef f(): return 'gr\xc3\xb6\xdfe'\n"
    assert [function.text for function in functions_of(source)] == ["def f(): return 'grö\ufffde'"]


def test_an_encoding_that_takes_for_ever_is_not_used() -> None:
    # In Punycode, what is before the last hyphen stays as it is, and the hyphen goes.
    assert functions_of(b"# coding: punycode\ndef f(): pass  # -") == [Part(2, "f", "def f(): pass  # -")]


@pytest.mark.parametrize("source", ["(" * 100_000, "-" * 100_000 + "1", "a" + ".a" * 100_000, "a" + "()" * 100_000])
def test_nesting_of_any_depth_ends_nothing(source: str) -> None:
    try:
        assert functions_of(f"def f(): pass\n{source}\n".encode())[0] == Part(1, "f", "def f(): pass")
    except parsing.TooSlowError:
        assert not source.startswith("a.")


def test_functions_around_a_syntax_error_are_found() -> None:
    source = b"def f(): pass\n\nprint 'x'\nx = = 1\n\nclass A:\n    def g(self): pass\n    def (: \n\ndef h(): pass\n"
    assert {(function.line, function.name) for function in functions_of(source)} >= {(1, "f"), (7, "A.g"), (10, "h")}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"def f(): return 'gr\xc3\xb6\xc3\x9fe'", "def f(): return 'größe'"),
        (b"def f(): return 'gr\xf6\xdfe'", "def f(): return 'gr\ufffd\ufffde'"),
        (b"'caf\xe9'\ndef f(): return '\xe9'", "def f(): return '\ufffd'"),
        (b"\xef\xbb\xbf'caf\xe9'\ndef f(): return '\xe9'", "def f(): return '\ufffd'"),
        (b"# encodings: \xe9\ndef f(): return '\xe9'", "def f(): return '\ufffd'"),
        (b"# coding: latin-1\ndef f(): return 'gr\xf6\xdfe'", "def f(): return 'größe'"),
        (b"#!/usr/bin/python\n# vim: fileencoding=cp1252\ndef f(): return '\x80'", "def f(): return '€'"),
        (b"# coding: shift_jis\ndef f(): return '\x83\x5c'", "def f(): return 'ソ'"),
        (b"# coding: ascii\ndef f(): return '\xe9'", "def f(): return '\ufffd'"),
    ],
)
def test_texts_are_decoded_as_declared_and_else_as_utf8_with_replacement(source: bytes, text: str) -> None:
    assert [function.text for function in functions_of(source)] == [text]


def test_names_hold_every_enclosing_class_and_no_function() -> None:
    source = """
class A:
    def a(self):
        def inner(): ...
        class Local:
            def method(self): ...
    class B:
        async def b(self): ...
        @property
        def c(self): ...
        @c.setter
        def c(self, value): ...
"""
    assert [(function.line, function.name) for function in functions_of(source.encode())] == [
        (3, "A.a"),
        (8, "A.B.b"),
        (10, "A.B.c"),
        (12, "A.B.c"),
    ]


def test_comments_after_the_last_statement_are_outside_and_names_are_those_of_python() -> None:
    source = "def ﬁ():\n    pass  # inside\n    # outside\n\n    # outside\nx = 1\n"
    assert functions_of(source.encode()) == [Part(1, "fi", "def ﬁ():\n    pass  # inside")]
