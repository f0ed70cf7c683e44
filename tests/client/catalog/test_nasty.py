"""A repository with everything that goes wrong: counted, left out or read, and never a traceback."""

import os
from pathlib import Path

import pytest

from hintcell.catalog import Cache, Reason, TooMuchError, build_from_directory
from hintcell_worker.protocol import Limits

_MANY = 20_000
_LIMITS = Limits(100_000, 2**26, 2**28)
_TEXTS = {
    "py": "def f{0}():\n    return {0}\n",
    "go": "package p\n\nfunc F{0}() int {{ return {0} }}\n",
    "ts": "export const f{0} = () => {0};\n",
    "c": "int f{0}(void) {{ return {0}; }}\n",
    "md": "# Heading {0}\n\ntext\n",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nasty")
    suffixes = list(_TEXTS)
    for number in range(_MANY):
        suffix = suffixes[number % len(suffixes)]
        if number % 200 == 0:
            folder = root / "many" / f"d{number // 200}"
            folder.mkdir(parents=True)
        (folder / f"f{number}.{suffix}").write_text(_TEXTS[suffix].format(number))
    for name, content in {
        "binary.py": b"\x7fELF\x02\x01\x01\x00\x00\xff",
        "crlf.rb": b"# doc\r\ndef f\r\n  1\r\nend\r\n",
        "mark.go": b"\xef\xbb\xbfpackage p\n\nfunc F() {}\n",
        "latin1.java": b'class A { /* caf\xe9 */ void m() { String s = "\xe9"; } }\n',
        "latin1.py": b"# coding: latin-1\ndef f(): return '\xe9'\n",
        "notebook.ipynb": b'{"cells": []}',
        "picture.png": b"\x89PNG\r\n\x1a\n\0",
        "empty.rs": b"",
        "utf16.txt": "text".encode("utf-16"),
        "broken.cpp": b"class A { int f() { return 1; } ;;; }}}} template <",
        "bad\nname.py": b"def f(): pass\n",
    }.items():
        (root / name).write_bytes(content)
    (root / os.fsdecode(b"\xff\xfe.py")).write_text("def f(): pass\n")
    (root / "loop").symlink_to(root)
    (root / "loop.py").symlink_to("loop.py")
    (root / "dangling.go").symlink_to("nowhere")
    with (root / "huge.c").open("wb") as stream:
        stream.truncate(50 * 2**20)
    os.mkfifo(root / "pipe.c")
    (root / "unreadable.py").write_text("def f(): pass\n")
    (root / "unreadable.py").chmod(0)
    return root


def test_every_file_is_read_or_counted(repository: Path) -> None:
    seen: list[tuple[int, int]] = []
    cache = Cache()
    catalog = build_from_directory(
        repository, limits=_LIMITS, cache=cache, progress=lambda done, total: seen.append((done, total))
    )
    by_id = {document.id: document.text for document in catalog.documents}
    assert sum(path.startswith("many/") for path in by_id) == _MANY
    expected = {
        r"\xff\xfe.py:1:f": "def f(): pass",
        r"bad\nname.py:1:f": "def f(): pass",
        "broken.cpp:1:A.f": "class A { int f() { return 1; } ;;; }}}} template <",
        "crlf.rb:2:f": "# doc\r\ndef f\r\n  1\r\nend",
        "latin1.java:1:A.m": 'class A { /* caf\ufffd */ void m() { String s = "\ufffd"; } }',
        "latin1.py:2:f": "def f(): return 'é'",
        "latin1.py:1:(rest)": "# coding: latin-1",
        "mark.go:3:F": "func F() {}",
    }
    unreadable = 1
    if os.geteuid() == 0:  # to root, every file is readable
        expected["unreadable.py:1:f"] = "def f(): pass"
        unreadable = 0
    assert {name: text for name, text in by_id.items() if not name.startswith("many/")} == expected
    assert catalog.left_out == {
        Reason.UNREADABLE_FILES: 1 + unreadable,  # the pipe
        Reason.OTHER_FILES: 2,
        Reason.LINKS: 3,
        Reason.BINARY_FILES: 2,
        Reason.LARGE_FILES: 1,
        Reason.EMPTY_FILES: 1,
    }
    assert seen == [(done, len(seen) - 1) for done in range(len(seen))]
    assert build_from_directory(repository, limits=_LIMITS, cache=cache) == catalog


def test_the_usual_limits_refuse_it_with_the_ways_out(repository: Path) -> None:
    with pytest.raises(TooMuchError, match=r"20,00\d documents \(15,91\d over the limit of 4,096\)") as refusal:
        build_from_directory(repository)
    assert sum(narrower.documents for narrower in refusal.value.narrower) >= _MANY
    assert refusal.value.narrower[0].names[0].startswith("many/")
    assert refusal.value.raised.keys() == {"max_documents"}
