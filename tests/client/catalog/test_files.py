"""Which files a walk finds, in which order, what it passes over and what it counts."""

import os
from pathlib import Path

import pytest

from hintcell.catalog import files
from hintcell.catalog.files import Found, SourceFile, TooLargeError, find_files, read_file
from hintcell.catalog.model import Reason
from tests.client.catalog.conftest import Tree, refuse_to_open


def _walk(root: Path, *, include_tests: bool = True, follow_file_links: bool = False) -> Found:
    return find_files(str(root), (".py",), include_tests=include_tests, follow_file_links=follow_file_links)


def _names(found: Found) -> list[str]:
    return [file.name for file in found.files]


def test_files_come_in_the_order_of_their_paths_with_the_prefix(tree: Tree) -> None:
    root = tree(dict.fromkeys(["b.py", "a/z.py", "a.py", "a-b/c.py", "a/b/c.py", "B.py", "readme.md", "c.pyi"], ""))
    expected = ["B.py", "a-b/c.py", "a.py", "a/b/c.py", "a/z.py", "b.py"]
    assert _names(_walk(root)) == expected
    found = find_files(str(root), (".py",), prefix="top/", include_tests=True)
    assert _names(found) == [f"top/{name}" for name in expected]
    assert all(Path(file.path).is_file() for file in found.files)


def test_hidden_folders_caches_node_modules_and_environments_are_passed_over(tree: Tree) -> None:
    root = tree(
        dict.fromkeys(
            [
                ".git/a.py",
                "__pycache__/a.py",
                "web/node_modules/a.py",
                "env/pyvenv.cfg",
                "env/lib/a.py",
                "kept/a.py",
                "kept/.hidden.py",
            ],
            "",
        )
    )
    found = _walk(root)
    assert _names(found) == ["kept/.hidden.py", "kept/a.py"]
    assert not found.left_out


def test_the_root_is_walked_whatever_it_is_called(tmp_path: Path) -> None:
    root = tmp_path / ".venv" / "tests"
    root.mkdir(parents=True)
    (root / "pyvenv.cfg").touch()
    (root / "a.py").touch()
    assert _names(_walk(root, include_tests=False)) == ["a.py"]


def test_tests_are_left_out_on_request_and_counted(tree: Tree) -> None:
    names = ["a.py", "test_a.py", "a_test.py", "tests/b.py", "tests/deep/c.py", "tests/data.txt", "x/test/test_d.py"]
    root = tree(dict.fromkeys([*names, "testing/e.py"], ""))
    found = _walk(root, include_tests=False)
    assert _names(found) == ["a.py", "a_test.py", "testing/e.py"]
    assert found.left_out == {Reason.TEST_FILES: 4}
    assert len(_walk(root).files) == 7


def test_links_to_folders_are_never_followed_and_loops_end(tree: Tree) -> None:
    root = tree({"a/b.py": "", "elsewhere.txt": ""})
    (root / "a/up").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "data").symlink_to("elsewhere.txt")
    for follow_file_links in (False, True):
        found = _walk(root, follow_file_links=follow_file_links)
        assert _names(found) == ["a/b.py"]
        assert found.left_out == {Reason.LINKS: 1}


def test_links_to_files_are_followed_only_on_request(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("x = 1")
    root = tree({})
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    found = _walk(root)
    assert (found.files, found.left_out) == ([], {Reason.LINKS: 1})
    found = _walk(root, follow_file_links=True)
    assert [read_file(file) for file in found.files] == [b"x = 1"]
    assert not found.left_out


def test_a_file_that_became_a_link_since_is_not_read(tree: Tree, tmp_path: Path) -> None:
    root = tree({"a.py": ""})
    [file] = _walk(root).files
    (tmp_path / "secret").write_text("x")
    (root / "a.py").unlink()
    (root / "a.py").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        read_file(file)


def test_names_that_are_not_utf8_are_found_and_can_be_read(tree: Tree) -> None:
    name = os.fsdecode(b"caf\xe9/\xff.py")
    [file] = _walk(tree({name: "x = 1"})).files
    assert file.name == name
    assert read_file(file) == b"x = 1"


def test_a_folder_that_cannot_be_listed_is_counted_but_an_unlistable_root_is_an_error(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"a/x.py": "", "b/x.py": ""})
    refuse_to_open(monkeypatch, "a")
    found = _walk(root)
    assert _names(found) == ["b/x.py"]
    assert found.left_out == {Reason.UNREADABLE_FOLDERS: 1}
    with pytest.raises(PermissionError):
        _walk(root / "a")
    with pytest.raises(FileNotFoundError):
        _walk(root / "nowhere")
    with pytest.raises(NotADirectoryError):
        _walk(root / "b/x.py")


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    [file] = _walk(tmp_path).files
    with pytest.raises(OSError, match="not a regular file"):
        read_file(file)


def test_a_file_is_read_up_to_the_limit_and_refused_above(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"#" * files.MAX_FILE_BYTES)
    assert len(read_file(SourceFile(str(path.parent), path.name, "a.py"))) == files.MAX_FILE_BYTES
    with path.open("ab") as stream:
        stream.write(b"#")
    with pytest.raises(TooLargeError):
        read_file(SourceFile(str(path.parent), path.name, "a.py"))
