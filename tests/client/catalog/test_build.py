"""Catalogs as their users see them: every file is in them or counted, and they always fit a request."""

import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from hintcell import HintcellError
from hintcell.catalog import (
    Catalog,
    CatalogError,
    Location,
    Narrower,
    Reason,
    TooMuchError,
    build_from_directory,
    build_from_packages,
)
from hintcell.catalog import files as files_module
from hintcell.catalog.files import MAX_FILE_BYTES
from hintcell.catalog.kinds import MAX_WHOLE_BYTES
from hintcell_worker.protocol import Document, Limits, Request, decode_request
from tests.client.catalog.conftest import Tree, refuse_to_open

_GOOD = "def f():\n    return 1\n"


def _ids(catalog: Catalog) -> list[str]:
    return [document.id for document in catalog.documents]


def test_a_catalog_holds_each_function_under_its_path_line_and_name(tree: Tree) -> None:
    root = tree({"b.py": _GOOD, "a/c.py": "import x\nclass A:\n    @x\n    def m(self): pass\n"})
    catalog = build_from_directory(root)
    assert catalog.documents == (
        Document("a/c.py:4:A.m", "    @x\n    def m(self): pass"),
        Document("a/c.py:2:(rest)", "class A:"),
        Document("b.py:1:f", "def f():\n    return 1"),
    )
    assert catalog.locations == {
        "a/c.py:4:A.m": Location("a/c.py", 4, "A.m"),
        "a/c.py:2:(rest)": Location("a/c.py", 2, "(rest)"),
        "b.py:1:f": Location("b.py", 1, "f"),
    }
    assert catalog.left_out == {}
    assert catalog.text_bytes == sum(len(document.text) for document in catalog.documents)


def test_the_standard_library_gives_texts_equal_to_the_source_lines_and_a_request_that_is_accepted() -> None:
    catalog = build_from_packages(["email", "json"])
    folder = Path(os.__file__).parent
    for document in catalog.documents:
        path, line, name = document.id.split(":")
        lines = (folder / path).read_bytes().decode().split("\n")
        text = document.text.split("\n")
        definition = int(line) - 1
        first = max(start for start in range(definition + 1) if lines[start] == text[0])
        assert lines[first : first + len(text)] == text
        assert f"def {name.rpartition('.')[2]}" in lines[definition]
    request = Request(catalog.snapshot_id, "x" * 8192, list(catalog.documents))
    decode_request(msgspec.json.encode(request), Limits(), identifier_hints=False)


def test_each_bad_file_is_counted_and_the_others_are_read(tree: Tree) -> None:
    root = tree(
        {
            "good.py": _GOOD,
            "binary.py": b"\x7fELF\x02\x01\x01\x00\x00\xff",
            "null.py": b"def f(): pass\x00",
            "syntax.py": "def f(:\n",
            "python2.py": "print 'x'\ndef f(): pass\n",
            "nested.py": "x = " + "-" * 65_000 + "1\n",
            "escape.py": "def f(): return '\\d'\n",
            "latin.py": b"def f(): return '\xe9'\n",
            "mark.py": b"\xef\xbb\xbfdef f(): pass\r\n",
            "empty.py": "",
            "blank.md": "\n \n",
            "constants.py": "x = 1\n",
            "data.bin": "",
            "large.py": b"#" * (MAX_FILE_BYTES + 1),
            "large.sql": b"--\n" * 30_000,
            "table.go": f"package p\nvar t = `{'x' * MAX_WHOLE_BYTES}`\nfunc f() {{}}",
            "message_pb2.py": _GOOD,
            os.fsdecode(b"caf\xe9.py"): _GOOD,
            "line\nbreak.py": _GOOD,
        }
    )
    os.mkfifo(root / "pipe.py")
    (root / "link.py").symlink_to("good.py")
    (root / "loop.py").symlink_to("loop.py")
    (root / "folder.py").mkdir()
    catalog = build_from_directory(root)
    assert _ids(catalog) == [
        r"caf\xe9.py:1:f",
        "constants.py:1:(file)",
        "escape.py:1:f",
        "good.py:1:f",
        "latin.py:1:f",
        r"line\nbreak.py:1:f",
        "mark.py:1:f",
        "python2.py:2:f",
        "python2.py:1:(rest)",
        "syntax.py:1:f",
        "table.go:3:f",
    ]
    assert catalog.left_out == {
        Reason.UNREADABLE_FILES: 1,
        Reason.OTHER_FILES: 1,
        Reason.LINKS: 2,
        Reason.GENERATED_FILES: 1,
        Reason.BINARY_FILES: 2,
        Reason.LARGE_FILES: 2,
        Reason.LARGE_RESTS: 1,
        Reason.SLOW_FILES: 1,
        Reason.EMPTY_FILES: 2,
    }


def test_files_of_every_language_and_texts_are_documents_side_by_side(tree: Tree) -> None:
    root = tree(
        {
            "a.go": "package a\n\nfunc (t *T) Get() int { return 1 }\n",
            "b.rs": "struct A;\n",
            "README": "Read me.\n",
            "c.md": "Before\n\n# One: two\n\ntext\n",
            "Dockerfile": "FROM scratch\n",
            "d.h": "class A {\n public:\n  int f() { return 1; }\n};\n",
        }
    )
    catalog = build_from_directory(root)
    assert catalog.documents == (
        Document("Dockerfile:1:(file)", "FROM scratch"),
        Document("README:1:(text)", "Read me."),
        Document("a.go:3:T.Get", "func (t *T) Get() int { return 1 }"),
        Document("b.rs:1:(file)", "struct A;"),
        Document("c.md:1:(text)", "Before"),
        Document("c.md:3:One two", "# One: two\n\ntext"),
        Document("d.h:3:A.f", "  int f() { return 1; }"),
        Document("d.h:1:(rest)", "class A {\n public:"),
    )
    assert catalog.left_out == {}


def test_of_packages_only_functions_of_python_are_taken(site: Tree) -> None:
    site(
        {
            "hc_p/__init__.py": "",
            "hc_p/a.py": _GOOD,
            "hc_p/b.go": "func f() {}",
            "hc_p/c.md": "# c",
            "hc_p/d.py": "x = 1",
        }
    )
    catalog = build_from_packages(["hc_p"])
    assert _ids(catalog) == ["hc_p/a.py:1:f"]
    assert catalog.left_out == {Reason.FILES_WITHOUT_FUNCTIONS: 2}
    assert catalog.snapshot_id.startswith("python:")


def test_what_may_not_be_read_is_never_opened_and_leaves_no_trace(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str | bytes] = {
        "open/a.py": _GOOD,
        "open/b.md": "# b\n",
        "open/c.bin": "",
        ".gitignore": "ignored*\n",
    }
    secret = "secret\udcff"
    hidden = [
        *("s.py", "s.md", "s.bin", "s_pb2.py", "test_s.py", ".gitignore", "ignored.py", "ignored/x.py", "vendor/x.py"),
        *("env/pyvenv.cfg", "link.py", "empty.py"),
    ]
    root = tree({**files, **{f"{secret}/{name}": "x = 1" for name in hidden}, f"{secret}/{'n' * 140}.py": _GOOD})
    (root / secret / "elsewhere").symlink_to(root)
    os.mkfifo(root / secret / "pipe.py")
    opening = files_module._open_below
    opened: list[str] = []

    def noting(root: str, inner: str, flags: int) -> int:
        opened.append(inner)
        return opening(root, inner, flags)

    monkeypatch.setattr(files_module, "_open_below", noting)
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return not path.startswith(secret)

    for options in ({}, {"globs": ["*.py", "*.md"]}, {"include_tests": False}):
        catalog = build_from_directory(root, may_read=may_read, **options)  # type: ignore[arg-type]
        assert f"{secret}/s.py" in asked
        assert f"{secret}/.gitignore" in opened
        assert not [inner for inner in opened if secret in inner and not inner.endswith(("/", ".gitignore"))]
        without = tree({})
        (without / secret).rename(without.parent / "aside")
        try:
            assert build_from_directory(without, may_read=may_read, **options) == catalog  # type: ignore[arg-type]
        finally:
            (without.parent / "aside").rename(without / secret)


def test_a_folder_that_a_link_replaces_on_the_way_leads_nowhere(tree: Tree, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "in").mkdir(parents=True)
    (outside / "in" / "b.py").write_text(_GOOD)
    root = tree({"a.py": _GOOD, "out/b.py": _GOOD, "out/in/b.py": _GOOD})

    def swap() -> None:
        (root / "out").rename(tmp_path / "aside")
        (root / "out").symlink_to(outside)

    def swap_before_listing(path: str) -> bool:
        if path == "a.py":
            swap()
        return True

    def swap_before_reading(done: int, _total: int) -> None:
        if done == 1:
            swap()

    catalog = build_from_directory(root, may_read=swap_before_listing)
    assert (_ids(catalog), catalog.left_out) == (["a.py:1:f"], {})
    (root / "out").unlink()
    (tmp_path / "aside").rename(root / "out")
    catalog = build_from_directory(root, progress=swap_before_reading)
    assert (_ids(catalog), catalog.left_out) == (["a.py:1:f"], {Reason.UNREADABLE_FILES: 2})


def test_what_is_left_out_is_told_by_name(tree: Tree) -> None:
    root = tree(
        {
            **dict.fromkeys(
                ["a.py", "b.py", "vendor/c.py", "env/pyvenv.cfg", "out/d.py", "e\n.xyz", "test_f.py"], _GOOD
            ),
            ".gitignore": "out\n",
            "g.min.js": "x",
            "h\n.md": "",
            "i.py": "def f(): pass\nif x:\n    def f(): pass\n",
            "j.js": "function f() {} function f() {}\n",
            f"{'n' * 140}.py": _GOOD,
        }
    )
    (root / "folder").symlink_to(root)
    (root / "file.py").symlink_to(root / "a.py")
    told: list[tuple[str, Reason]] = []
    limits = Limits(max_documents=1)
    catalog = build_from_directory(root, limits=limits, fit=True, include_tests=False, tell=lambda *of: told.append(of))
    assert sorted(told, key=lambda of: (of[0], of[1].name)) == [
        (".gitignore", Reason.OTHER_FILES),
        ("b.py:1", Reason.OVER_LIMITS),
        ("e\\n.xyz", Reason.OTHER_FILES),
        ("env/", Reason.VENDORED_FOLDERS),
        ("file.py", Reason.LINKS),
        ("folder/", Reason.LINKS),
        ("g.min.js", Reason.GENERATED_FILES),
        ("h\\n.md", Reason.EMPTY_FILES),
        ("i.py:1", Reason.OVER_LIMITS),
        ("i.py:2", Reason.OVER_LIMITS),  # its rest
        ("i.py:3", Reason.OVER_LIMITS),
        ("j.js:1", Reason.OVER_LIMITS),
        ("j.js:1", Reason.TAKEN_IDS),
        (f"{'n' * 140}.py:1", Reason.LONG_IDS),
        ("out/", Reason.IGNORED),
        ("test_f.py", Reason.TEST_FILES),
        ("vendor/", Reason.VENDORED_FOLDERS),
    ]
    assert Counter(reason for _, reason in told) == catalog.left_out
    told.clear()
    build_from_directory(root, may_read=lambda path: path in ("a.py", "e\n.xyz"), tell=lambda *of: told.append(of))
    assert told == [("e\\n.xyz", Reason.OTHER_FILES)]


def test_only_files_that_match_a_glob_are_read(tree: Tree) -> None:
    root = tree(dict.fromkeys(["src/a.py", "src/b/c.py", "docs/d.py", "e.py", "src/f.xyz"], _GOOD))
    for globs, expected in (
        (["src/**"], ["src/a.py:1:f", "src/b/c.py:1:f"]),
        (["./src/*.py", "e.py"], ["e.py:1:f", "src/a.py:1:f"]),
        (["*.py", "!src"], ["docs/d.py:1:f", "e.py:1:f"]),
        (["/e.py"], ["e.py:1:f"]),
    ):
        catalog = build_from_directory(root, globs=globs)
        assert _ids(catalog) == expected
        assert sum(catalog.left_out.values()) == 5 - len(expected)
        assert set(catalog.left_out) <= {Reason.OUTSIDE_GLOBS, Reason.OTHER_FILES}
    assert build_from_directory(root, globs="src/**") == build_from_directory(root, globs=["src/**"])
    with pytest.raises(CatalogError, match=r"^no file below '.*' matches 'no/\*\*' or '\*.c' \(files outside .* 5\): "):
        build_from_directory(root, globs=["no/**", "*.c"])
    with pytest.raises(CatalogError, match=r"^nothing to search below .* \(.* files of other kinds: 1\): name another"):
        build_from_directory(tree({"x.bin": ""}), globs=["*.bin"])
    with pytest.raises(CatalogError, match=r"^a glob is empty: "):
        build_from_directory(root, globs=["!"])


def test_an_unreadable_file_is_counted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"a.py": _GOOD, "b.py": _GOOD})
    refuse_to_open(monkeypatch, "a.py")
    catalog = build_from_directory(root)
    assert _ids(catalog) == ["b.py:1:f"]
    assert catalog.left_out == {Reason.UNREADABLE_FILES: 1}


def test_ids_too_long_are_cut_and_what_cannot_be_told_apart_is_counted(tree: Tree) -> None:
    deep = "d" * 60 + "/" + "e" * 60
    root = tree(
        {
            f"a/{deep}/m.py": _GOOD,
            f"b/{deep}/m.py": _GOOD + "\ndef g(): pass\n",
            "n" * 130 + ".py": _GOOD,
            r"same\xff.py": _GOOD,
            os.fsdecode(b"same\xff.py"): _GOOD,
        }
    )
    catalog = build_from_directory(root)
    cut = "…/" + "e" * 60 + "/m.py"
    assert sorted(_ids(catalog)) == sorted([f"{cut}:1:f", f"{cut}:4:g", r"same\xff.py:1:f"])
    assert catalog.left_out == {Reason.LONG_IDS: 1, Reason.TAKEN_IDS: 2}


def test_a_snapshot_id_changes_with_ids_and_texts_and_with_nothing_else(tree: Tree) -> None:
    root = tree({"a.py": _GOOD, "b.py": _GOOD})
    first = build_from_directory(root)
    assert build_from_directory(f"{root}/") == first
    tree({"c.py": "", "b.py": _GOOD + "\n\n", "d.bin": "x"})
    assert build_from_directory(root).snapshot_id == first.snapshot_id
    (root / "b.py").rename(root / "d.py")
    renamed = build_from_directory(root)
    tree({"d.py": _GOOD.replace("1", "2")})
    changed = build_from_directory(root)
    assert len({first.snapshot_id, renamed.snapshot_id, changed.snapshot_id}) == 3
    assert all(catalog.snapshot_id.startswith("files:") for catalog in (first, renamed, changed))
    assert all(len(catalog.snapshot_id.encode()) == 38 for catalog in (first, renamed, changed))


def test_a_catalog_at_each_limit_is_built_and_one_over_it_refused(tree: Tree) -> None:
    root = tree({f"m{number}.py": _GOOD for number in range(10)})
    text_bytes = 10 * len(_GOOD.strip())
    assert len(build_from_directory(root, limits=Limits(10, text_bytes)).documents) == 10
    with pytest.raises(TooMuchError, match=r"10 documents \(1 over the limit of 9\): take a part of it: "):
        build_from_directory(root, limits=Limits(9, text_bytes))
    with pytest.raises(TooMuchError, match=rf"{text_bytes} bytes of text \(1 over the limit of {text_bytes - 1}\)"):
        build_from_directory(root, limits=Limits(10, text_bytes - 1))


def test_too_much_is_refused_with_the_counts_and_the_ways_out(tree: Tree) -> None:
    root = tree({"a/b/1.py": _GOOD * 2, "a/c/1.py": _GOOD, os.fsdecode(b"\xff/1.py"): _GOOD, "x.py": _GOOD})
    with pytest.raises(TooMuchError) as refusal:
        build_from_directory(root, limits=Limits(4, 50))
    assert str(refusal.value) == (
        "too much for one snapshot: 5 documents (1 over the limit of 4) and 105 bytes of text (55 over the limit of "
        "50): take a part of it: 'a/b/**' (has 2), '/*' (has 1), 'a/c/**' (has 1); raise the limits: "
        "max_documents=5, max_text_bytes=110; take only what fits: fit=True"
    )
    assert refusal.value.narrower[0] == Narrower(("a/b/**",), 2)
    assert refusal.value.raised == {"max_documents": 5, "max_text_bytes": 110}
    assert len(build_from_directory(root, limits=Limits(5, 105)).documents) == 5
    with pytest.raises(TooMuchError, match=r"4 functions \(1 over the limit of 3\): raise the limits: "):
        build_from_packages(["bisect"], limits=Limits(3))


def test_what_fits_is_taken_and_the_rest_is_counted(tree: Tree) -> None:
    root = tree({f"m{number}.py": "def a(): pass\ndef b(): pass\n" for number in range(5)})
    catalog = build_from_directory(root, limits=Limits(7), fit=True)
    assert _ids(catalog) == [
        *("m0.py:1:a", "m0.py:2:b", "m1.py:1:a", "m1.py:2:b", "m2.py:1:a", "m3.py:1:a", "m4.py:1:a"),
    ]
    assert catalog.left_out == {Reason.OVER_LIMITS: 3}
    assert build_from_directory(root, limits=Limits(10), fit=True) == build_from_directory(root)


def test_packages_take_turns_and_keep_the_order_in_which_they_were_named() -> None:
    catalog = build_from_packages(["http", "email", "bisect"], limits=Limits(60), fit=True)
    counts = Counter(document.id.split("/")[0].split(".")[0] for document in catalog.documents)
    assert list(counts) == ["http", "email", "bisect"]
    assert counts["bisect"] == 4
    assert abs(counts["http"] - counts["email"]) <= 1
    assert sum(counts.values()) == 60


def test_a_part_named_beside_its_package_is_taken_once() -> None:
    assert build_from_packages(["email.mime", "email"]) == build_from_packages(["email", "email", "email.mime"])
    with pytest.raises(CatalogError, match="'email.nowhere'"):
        build_from_packages(["email", "email.nowhere"])


def test_one_name_may_stand_for_a_list_of_one() -> None:
    assert build_from_packages("bisect") == build_from_packages(["bisect"])


def test_progress_goes_from_none_to_all_files(tree: Tree) -> None:
    root = tree({"a.py": _GOOD, "b.py": "def f(:", "c.py": ""})
    seen: list[tuple[int, int]] = []
    build_from_directory(root, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_nothing_found_is_an_error_that_says_what_was_left_out(tree: Tree) -> None:
    root = tree({"a.pb.go": "", "b.py": "", "tests/c.py": _GOOD})
    with pytest.raises(CatalogError) as refusal:
        build_from_directory(root, include_tests=False)
    assert str(refusal.value) == (
        f"nothing to search below '{root}' (test files: 1, generated files: 1, empty files: 1): name another folder"
    )
    with pytest.raises(CatalogError, match="documents over the limits: 1"):
        build_from_directory(root / "tests", limits=Limits(max_text_bytes=3), fit=True)
    with pytest.raises(CatalogError, match=r"^no Python function to search in this \(files without functions: 1\): "):
        build_from_packages(["this"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", r"^there is no folder '.*nowhere': check the path$"),
        ("a.py", r"^'.*a\.py' is not a folder: name the folder that holds the source$"),
        ("a\0b", r"^the folder '.*' cannot be listed \(.*embedded null.*\): check its permissions$"),
        ("n" * 300, r"^the folder '.*' cannot be listed \(File name too long\): check its permissions$"),
        ("line\nbreak", r"^there is no folder '.*line\\nbreak': check the path$"),
    ],
)
def test_a_root_that_cannot_be_listed_is_an_error_of_one_line(tree: Tree, name: str, message: str) -> None:
    root = tree({"a.py": _GOOD})
    with pytest.raises(CatalogError, match=message):
        build_from_directory(root / name)


def test_no_name_at_all_is_an_error() -> None:
    with pytest.raises(CatalogError, match="name at least one"):
        build_from_packages([])


def test_its_error_is_caught_with_all_others_of_hintcell() -> None:
    with pytest.raises(HintcellError, match="name at least one"):
        build_from_packages([])


def test_nothing_is_logged_or_printed(
    tree: Tree, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    build_from_directory(tree({"a.py": _GOOD, "b.py": "def f(:", "c.py": "def f(): return '\\d'"}))
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_building_loads_no_package_that_it_reads_and_no_scientific_library() -> None:
    code = (
        "import sys\n"
        "from hintcell.catalog import build_from_packages\n"
        "assert not [name for name in sys.modules if name.startswith('tree_sitter_')]\n"
        "build_from_packages(['numpy.fft', 'scipy.fft', 'sklearn.tree', 'wave'])\n"
        "grammars = {name.partition('.')[0] for name in sys.modules if name.startswith('tree_sitter_')}\n"
        "assert grammars == {'tree_sitter_python'}\n"
        "assert not {'numpy', 'scipy', 'sklearn', 'wave'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
