"""Installed packages are found without being imported, in whatever form they are installed."""

import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from hintcell.catalog.files import Found
from hintcell.catalog.model import CatalogError, Reason
from hintcell.catalog.packages import find_package
from tests.client.catalog.conftest import Tree

_EXPLOSIVE = "raise SystemExit('imported')"


def _names(name: str, *, include_tests: bool = False) -> list[str]:
    return [file.name for file in find_package(name, include_tests=include_tests).files]


def test_a_package_is_listed_from_its_own_name_on_without_its_tests(site: Tree) -> None:
    site({f"hc_a/{name}.py": _EXPLOSIVE for name in ("__init__", "b", "sub/__init__", "sub/c", "sub/tests/test_c")})
    found = find_package("hc_a", include_tests=False)
    without_tests = ["hc_a/__init__.py", "hc_a/b.py", "hc_a/sub/__init__.py", "hc_a/sub/c.py"]
    assert [file.name for file in found.files] == without_tests
    assert found.left_out == {Reason.TEST_FILES: 1}
    assert _names("hc_a", include_tests=True) == [*without_tests, "hc_a/sub/tests/test_c.py"]


def test_dots_lead_to_folders_and_files_without_importing_the_parents(site: Tree) -> None:
    site({f"hc_a/{name}.py": _EXPLOSIVE for name in ("__init__", "b", "sub/__init__", "sub/c")})
    assert _names("hc_a.sub") == ["hc_a/sub/__init__.py", "hc_a/sub/c.py"]
    assert _names("hc_a.sub.c") == ["hc_a/sub/c.py"]
    assert _names("hc_a.b") == ["hc_a/b.py"]


@pytest.mark.parametrize(("with_init", "expected"), [(True, "hc_a/b/__init__.py"), (False, "hc_a/b.py")])
def test_of_a_folder_and_a_module_the_one_that_python_imports_is_taken(
    site: Tree, with_init: bool, expected: str
) -> None:
    site({"hc_a/__init__.py": "", "hc_a/b.py": "", f"hc_a/b/{'__init__' if with_init else 'data'}.py": ""})
    assert _names("hc_a.b") == [expected]


def test_a_single_module_is_one_file(site: Tree) -> None:
    site({"hc_single.py": _EXPLOSIVE})
    assert _names("hc_single") == ["hc_single.py"]


def test_a_module_inside_the_interpreter_is_read_from_its_file() -> None:
    assert _names("os") == ["os.py"]


def test_a_namespace_package_is_all_its_folders_and_the_first_file_of_a_name(
    site: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site({"hc_space/a.py": "", "hc_space/b.py": ""})
    second = tmp_path / "second"
    (second / "hc_space").mkdir(parents=True)
    for name in ("b", "c"):
        (second / f"hc_space/{name}.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(second)])
    found = find_package("hc_space", include_tests=False)
    assert [(file.name, Path(file.path).is_relative_to(second)) for file in found.files] == [
        ("hc_space/a.py", False),
        ("hc_space/b.py", False),
        ("hc_space/c.py", True),
    ]


def test_files_that_an_installer_linked_are_read(site: Tree, tmp_path: Path) -> None:
    (tmp_path / "cache.py").touch()
    root = site({"hc_a/__init__.py": ""})
    (root / "hc_a/linked.py").symlink_to(tmp_path / "cache.py")
    assert _names("hc_a") == ["hc_a/__init__.py", "hc_a/linked.py"]


@pytest.mark.parametrize("name", ["hc_none", "hc_none.sub", "", ".", "..", "a..b", "../etc", "a b\n", "a\0b"])
def test_a_name_that_is_not_installed_is_an_error_of_one_line(name: str) -> None:
    with pytest.raises(CatalogError, match=r"^no package '.*' is installed here") as refusal:
        find_package(name, include_tests=True)
    assert "\n" not in str(refusal.value)


def test_the_name_of_a_distribution_leads_to_its_package() -> None:
    with pytest.raises(CatalogError, match=r"^'scikit-learn' is the name of a distribution: .* 'sklearn'$"):
        find_package("scikit-learn", include_tests=True)


@pytest.mark.parametrize("module", [None, ModuleType("hc_made_up")])
def test_a_module_that_came_from_nowhere_is_not_installed(
    module: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hc_made_up", module)
    with pytest.raises(CatalogError, match="no package 'hc_made_up' is installed here"):
        find_package("hc_made_up", include_tests=True)


@pytest.mark.parametrize("name", ["sys", "msgspec._core", "hc_a.nowhere", "hc_a.b.c", "hc_compiled", "hc_empty"])
def test_a_package_without_python_source_is_an_error(site: Tree, name: str) -> None:
    site({"hc_a/__init__.py": "", "hc_a/b.py": "", "hc_compiled.pyc": b"", "hc_empty/data.txt": ""})
    with pytest.raises(CatalogError, match=rf"^'{name}' has no Python source here: "):
        find_package(name, include_tests=True)


def test_a_package_that_holds_tests_alone_says_so(site: Tree) -> None:
    site({"hc_a/test_b.py": ""})
    with pytest.raises(CatalogError, match=r"^'hc_a' has no Python source here \(test files: 1\): "):
        find_package("hc_a", include_tests=False)


def test_a_package_in_a_zip_archive_has_no_source_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("hc_zipped/__init__.py", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "archive.zip"), *sys.path])
    with pytest.raises(CatalogError, match="has no Python source here"):
        find_package("hc_zipped", include_tests=True)


def test_a_folder_that_cannot_be_listed_is_counted(site: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    site({"hc_a/__init__.py": ""})

    def refuse(*_: object, **__: object) -> Found:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hintcell.catalog.packages.find_files", refuse)
    with pytest.raises(CatalogError, match="unreadable folders: 1"):
        find_package("hc_a", include_tests=True)
