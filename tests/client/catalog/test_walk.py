"""Which files of a folder are read, and how those that are not are counted."""

import os
from pathlib import Path

import pytest

from hintcell.catalog import CatalogError
from hintcell.catalog.files import Found
from hintcell.catalog.model import Reason
from hintcell.catalog.walk import globs_of, walk
from tests.client.catalog.conftest import Tree, refuse_to_open


def _walk(root: Path, *, include_tests: bool = True) -> Found:
    return walk(str(root), include_tests=include_tests, globs=None, may_read=None)


def _names(found: Found) -> list[str]:
    return [file.name for file in found.files]


def test_files_of_known_kinds_come_in_the_order_of_their_paths(tree: Tree) -> None:
    root = tree(dict.fromkeys(["b.py", "a/z.go", "a.md", "a-b/c.rs", "a/b/c.h", "B.txt", "x.png", "data.json"], ""))
    found = _walk(root)
    assert _names(found) == ["B.txt", "a-b/c.rs", "a.md", "a/b/c.h", "a/z.go", "b.py"]
    assert all(Path(file.path).is_file() for file in found.files)
    assert found.left_out == {Reason.OTHER_FILES: 2}


def test_other_peoples_folders_count_once_and_hidden_ones_and_caches_do_not(tree: Tree) -> None:
    root = tree(
        dict.fromkeys(
            [
                *(".hidden/a.py", "__pycache__/a.py"),
                *("web/node_modules/a.js", "web/node_modules/b/c.js", "vendor/a.go", "third_party/x/a.c"),
                *("env/pyvenv.cfg", "env/lib/a.py"),
                *("kept/a.py", "kept/.hidden.py", "kept/vendor.py"),
            ],
            "",
        )
    )
    found = _walk(root)
    assert _names(found) == ["kept/.hidden.py", "kept/a.py", "kept/vendor.py"]
    assert found.left_out == {Reason.VENDORED_FOLDERS: 4}


def test_the_root_is_walked_whatever_it_is_called(tmp_path: Path) -> None:
    root = tmp_path / ".venv" / "node_modules" / "tests"
    root.mkdir(parents=True)
    (root / "pyvenv.cfg").touch()
    (root / "a.py").touch()
    assert _names(_walk(root, include_tests=False)) == ["a.py", "pyvenv.cfg"]


def test_tests_are_left_out_on_request_and_counted(tree: Tree) -> None:
    tests = ["test_a.py", "a_test.go", "a.test.ts", "a.spec.js", "a_spec.rb", "ATest.java", "tests/b.py", "x/test/d.c"]
    others = ["a.py", "latest.py", "testing/e.py", "contest.java"]
    root = tree(dict.fromkeys([*tests, *others, "tests/data.bin"], ""))
    found = _walk(root, include_tests=False)
    assert _names(found) == sorted(others)
    assert found.left_out == {Reason.TEST_FILES: len(tests), Reason.OTHER_FILES: 1}
    assert len(_walk(root).files) == len(tests) + len(others)


def test_what_a_tool_wrote_is_told_by_its_name(tree: Tree) -> None:
    generated = ["a_pb2.py", "a.pb.go", "a.min.js", "Cargo.lock", "package-lock.json", "go.sum", "A.Designer.cs"]
    found = _walk(tree(dict.fromkeys([*generated, "min.js", "lock.py"], "")))
    assert _names(found) == ["lock.py", "min.js"]
    assert found.left_out == {Reason.GENERATED_FILES: len(generated)}


def test_links_are_never_followed_and_loops_end(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("x = 1")
    root = tree({"a/b.py": "", "elsewhere.bin": ""})
    (root / "a/up").symlink_to(root)
    (root / "self.py").symlink_to("self.py")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "data").symlink_to("elsewhere.bin")
    found = _walk(root)
    assert _names(found) == ["a/b.py"]
    assert found.left_out == {Reason.LINKS: 3, Reason.OTHER_FILES: 2}


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


def test_a_folder_so_deep_that_its_path_is_too_long_is_counted(tree: Tree) -> None:
    root = tree({"a.py": ""})
    step = "d" * 200
    at = os.open(root, os.O_RDONLY)
    for _ in range(22):
        os.mkdir(step, dir_fd=at)
        below = os.open(step, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    found = _walk(root)
    assert (_names(found), found.left_out) == (["a.py"], {Reason.UNREADABLE_FOLDERS: 1})


def test_who_may_read_is_asked_once_for_each_file_and_for_no_folder(tree: Tree) -> None:
    root = tree(dict.fromkeys(["a.py", "b/c.png", os.fsdecode(b"\xff/d.py"), "vendor/e.py", "b/.gitignore"], ""))
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return path == "a.py"

    found = walk(str(root), include_tests=True, globs=None, may_read=may_read)
    assert _names(found) == ["a.py"]
    assert not found.left_out
    assert sorted(asked) == ["a.py", "b/.gitignore", "b/c.png", "\udcff/d.py"]


def test_no_glob_is_no_choice() -> None:
    assert globs_of([]) is None


def test_globs_that_only_exclude_start_from_everything(tree: Tree) -> None:
    root = tree({"a.py": "", "b.go": "", "c/d.go": ""})
    found = walk(str(root), include_tests=True, globs=globs_of(["!*.go"]), may_read=None)
    assert [file.name for file in found.files] == ["a.py"]


def test_of_globs_the_last_that_matches_decides() -> None:
    for globs, matching, others in (
        (["src/*"], ["src/a.py"], ["src/b/c.py", "a.py"]),
        (["src/**/*"], ["src/a.py", "src/b/c.py"], ["a.py"]),
        (["*"], ["a.py", "src/a.py"], []),
        (["src"], ["src/a.py", "b/src/c/d.py"], ["a.py"]),
        (["*.py", "!src", "src/b"], ["a.py", "src/b/c.py"], ["src/a.py", "a.go"]),
        (["!src", "*.py"], ["src/a.py"], ["src/a.go", "a.go"]),
        ([r"\{a,b}.py", "{a}.py", "{{x}}/{y}.py"], ["{a,b}.py", "{a}.py", "{{x}}/{y}.py"], ["a.py"]),
    ):
        matches = globs_of(globs)
        assert matches is not None
        assert [path for path in matching + others if matches(path)] == matching


@pytest.mark.parametrize(
    ("glob", "said"),
    [
        ("[z-a]", "runs backwards"),
        (" ", "is empty"),
        ("#include", "a comment"),
        ("../lib/**", "relative to the folder"),
        ("src/*.{ts,js}", "write *.ts and *.js"),
        ("!{a,b}/**", "write *.ts and *.js"),
        ("/home/x/project", "the path of the folder"),
        ("/home/x/project/src/**", "the path of the folder"),
        ("!/home/x/project/src/**", "the path of the folder"),
    ],
)
def test_a_glob_that_cannot_have_been_meant_so_is_refused_in_one_line(glob: str, said: str) -> None:
    with pytest.raises(CatalogError) as refused:
        globs_of(["a", glob], "/home/x/project")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_glob_from_the_top_need_not_be_a_path_of_the_system() -> None:
    for glob, root in (("/home/x/projects/**", "/home/x/project"), ("/home/**", "/"), ("/home/x/project/a", None)):
        matches = globs_of([glob], root)
        assert matches is not None
        assert matches(glob.removeprefix("/").replace("**", "a"))


def test_what_an_ignore_file_has_that_is_no_pattern_is_passed_over(tree: Tree) -> None:
    root = tree({".gitignore": "[z-a]\nb.py\n", "a.py": "", "b.py": ""})
    assert [file.name for file in walk(str(root), include_tests=True, globs=None, may_read=None).files] == ["a.py"]
