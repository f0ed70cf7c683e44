"""What a refusal names instead can be asked for as it is named, fits, and has what is said."""

import os
from collections.abc import Sequence

import pytest

from hintcell.catalog import Narrower, TooMuchError, build_from_directory, build_from_packages
from hintcell_worker.protocol import Limits
from tests.client.catalog.conftest import Tree

_F = "def f(): pass\n"
_LIMITS = Limits(3)


def _narrower(root: os.PathLike[str], globs: Sequence[str] = (), limits: Limits = _LIMITS) -> list[Narrower]:
    """What is named instead, each of which was taken and has what is said."""
    with pytest.raises(TooMuchError) as refusal:
        build_from_directory(root, limits=limits, globs=globs)
    for narrower in refusal.value.narrower:
        assert len(build_from_directory(root, limits=limits, globs=narrower.names).documents) == narrower.documents
    return list(refusal.value.narrower)


def test_folders_are_as_large_as_fit_and_the_largest_comes_first(tree: Tree) -> None:
    root = tree(
        {
            "small/a/1.py": _F,
            "small/b/1.py": _F,
            "large/1.py": _F,
            "large/in/1.py": _F * 3,
            "large/in/2.py": "",
            "large/other/x/1.py": _F,
            "1.py": _F,
        }
    )
    assert _narrower(root) == [
        Narrower(("large/in/**",), 3),
        Narrower(("small/**",), 2),
        Narrower(("/*",), 1),
        Narrower(("large/*",), 1),
        Narrower(("large/other/**",), 1),
    ]


def test_what_was_built_and_tests_come_last(tree: Tree) -> None:
    root = tree({"dist/1.py": _F * 3, "web/tests/1.py": _F * 2, "web/src/1.py": _F * 2, "lib/1.py": _F})
    assert [each.names[0] for each in _narrower(root)] == ["web/src/**", "lib/**", "dist/**", "web/tests/**"]


@pytest.mark.parametrize(
    "name", ["a b", "it's", "[id]", "b[", "!x", "#y", "back\\slash", "star*", "what?", "é", "*", "a\\*"]
)
def test_a_folder_of_any_name_that_can_be_typed_is_named(tree: Tree, name: str) -> None:
    root = tree({f"{name}/1.py": _F, f"{name}/in/1.py": _F * 3, f"{name}/in[2]/1.py": _F, "id/1.py": _F, "x.py": _F})
    assert sum(each.documents for each in _narrower(root)) == 7


@pytest.mark.parametrize("given", [(), ["*.py"], ["[ax]*/**"]])
def test_the_files_of_a_crowded_folder_are_named_one_by_one(tree: Tree, given: Sequence[str]) -> None:
    root = tree({"a/[1].py": _F * 2, "a/1.py": _F, "a/#2.py": _F, "a/in/1.py": _F, "a/in/2.py": _F * 4, "x/1.py": _F})
    found = _narrower(root, given)
    files = [each for each in found if each.names[0].startswith("/")]
    expected = [("/a/\\[1].py", 2), ("/a/#2.py", 1), ("/a/1.py", 1), ("/a/in/1.py", 1)]
    assert files == [Narrower((glob,), documents) for glob, documents in expected]


def test_a_name_that_cannot_be_typed_and_a_file_with_too_much_are_not_named(tree: Tree) -> None:
    files = {os.fsdecode(b"\xff/1.py"): _F, "line\nbreak/1.py": _F, "a/1.py": _F * 4, "b/1.py": _F}
    assert _narrower(tree(files)) == [Narrower(("b/**",), 1)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["*.py"], ["a/in/**/*.py", "a/*.py", "b/**/*.py"]),
        (["1.*", "2.py"], ["a/in/**/1.*", "a/1.*", "b/**/1.*"]),
        (["a/**"], ["a/in/**", "a/*"]),
        (["./a/**", "b/**"], ["a/in/**", "a/*", "b/**"]),
        (["a/**", "b/**", "!a/in/**"], []),
        (["!*.md"], []),
        (["**/1.py", "a/*"], []),
        (["a/in/**", "a/*"], []),
    ],
)
def test_globs_in_place_of_others_take_no_more_than_these(tree: Tree, given: list[str], expected: list[str]) -> None:
    files = {"a/1.py": _F * 2, "a/in/1.py": _F * 3, "b/1.py": _F, "a/1.md": "# a\n\nx\n", "a/3.md": "# b\n\nx\n"}
    found = _narrower(tree(files), given, Limits(4))
    assert [each.names[0] for each in found] == expected


def test_one_of_the_globs_may_be_a_string(tree: Tree) -> None:
    root = tree({"a/1.py": _F * 2, "b/1.py": _F * 2})
    assert [each.names for each in _narrower(root, "*.py")] == [("a/**/*.py",), ("b/**/*.py",)]


def test_a_folder_that_fits_has_room_for_identifiers_to_be_split(tree: Tree) -> None:
    text = f"def f(): return {'getId' * 100}\n"
    root = tree({"a/1.py": text, "b/1.py": _F})
    limits = Limits(max_text_bytes=len(text) + 5)
    assert _narrower(root, limits=limits) == [Narrower(("b/**",), 1)]


def test_parts_of_a_package_are_named_as_packages() -> None:
    limits = Limits(300)
    with pytest.raises(TooMuchError) as refusal:
        build_from_packages(["email", "xml"], limits=limits)
    assert {each.names for each in refusal.value.narrower} >= {("xml.sax",), ("email.mime",)}
    for narrower in refusal.value.narrower:
        assert len(build_from_packages(narrower.names, limits=limits).documents) == narrower.documents


def test_tests_are_named_if_without_them_the_rest_fits(tree: Tree) -> None:
    root = tree({"a.py": _F * 2, "test_a.py": _F * 2, "b.py": _F})
    for limits, fits in ((Limits(3), True), (Limits(2), False)):
        with pytest.raises(TooMuchError) as refusal:
            build_from_directory(root, limits=limits)
        assert refusal.value.fits_without_tests is fits
        assert ("include_tests=False" in str(refusal.value)) is fits
    assert len(build_from_directory(root, limits=Limits(3), include_tests=False).documents) == 3
    with pytest.raises(TooMuchError) as refusal:
        build_from_directory(root, limits=Limits(2), include_tests=False)
    assert not refusal.value.fits_without_tests
