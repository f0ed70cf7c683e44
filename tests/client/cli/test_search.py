"""`hintcell search` up to its process: options, order, and what is printed. The client is a fake."""

import io
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from hintcell import HintcellError, ManagerUnavailable, OpenRefused, SessionEnded
from hintcell.catalog.limits import split_length
from hintcell.cli import search
from hintcell.cli.group import commands
from hintcell_worker.protocol import (
    MAX_QUERY_BYTES,
    POLICY_IDENTIFIERS,
    POLICY_IDENTIFIERS_OUT_OF_SCOPE,
    Limits,
)
from tests.client.cli.fakes import FakeClient, put_in_place

_RANKING = [("a/b.py:3:f", 12.345), ("c.py:10:C.g", 2.0), ("d.py:1:h", 0.5), ("e.py:1:i", 0.0), ("e.py:9:j", 0.0)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("def read(): pass\n")
    (tmp_path / "test_a.py").write_text("def test_read(): pass\n")
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, client: FakeClient, *arguments: str) -> Result:
    put_in_place(monkeypatch, client)
    return CliRunner().invoke(commands, ["search", "read", *arguments])


def test_a_page_is_a_table_with_what_there_is_to_know_below(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result = call(monkeypatch, FakeClient(_RANKING), "--root", str(root), "--limit", "2")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "rank  score  where     name",
        "   1  12.35  a/b.py:3  f",
        "   2   2.00  c.py:10   C.g",
        "",
        "1-2 of 5 results; policy bm25_complete",
        "Session 5e55, pid 4711",
        "More: --limit 4, or --all-pages",
    ]


def test_all_pages_end_where_no_function_matches_any_more(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result = call(monkeypatch, FakeClient(_RANKING), "--root", str(root), "--limit", "2", "--all-pages")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:4]] == ["1", "2", "3"]
    assert result.stdout.count("rank  score") == 1
    assert "e.py" not in result.stdout
    assert "Nothing else has a word of the query.\n1-3 of 5 results" in result.stdout
    assert "More:" not in result.stdout


def test_with_parts_of_names_a_score_of_0_is_no_reason_to_leave_out(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    client = FakeClient(_RANKING, policy=POLICY_IDENTIFIERS)
    result = call(monkeypatch, client, "--root", str(root), "--limit", "2", "--all-pages", "--identifier-hints")
    assert client.opened["identifier_hints"] is True
    assert "1-5 of 5 results" in result.stdout


def test_json_lines_hold_every_candidate_and_nothing_else(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result = call(monkeypatch, FakeClient(_RANKING), "--root", str(root), "--limit", "2", "--json", "--all-pages")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["candidate_id"], line["bm25_score"]) for line in lines] == _RANKING
    assert [line["inspection_rank"] for line in lines] == [1, 2, 3, 4, 5]
    assert (lines[1]["path"], lines[1]["line"], lines[1]["name"]) == ("c.py", 10, "C.g")
    assert result.stderr == ""


def test_without_all_pages_json_is_one_page(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result = call(monkeypatch, FakeClient(_RANKING), "--root", str(root), "--limit", "2", "--json")
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("policy", "flags", "said"),
    [
        ("bm25_complete", [], "try others, or --identifier-hints"),
        (POLICY_IDENTIFIERS_OUT_OF_SCOPE, ["--identifier-hints"], "try others."),
        (POLICY_IDENTIFIERS, ["--identifier-hints"], "every score is 0"),
    ],
)
def test_that_nothing_matches_is_said_with_what_to_try(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: str, flags: list[str], said: str
) -> None:
    ranking = [(name, 0.0) for name, _ in _RANKING]
    result = call(monkeypatch, FakeClient(ranking, policy=policy), "--root", str(root), *flags)
    assert result.exit_code == 0
    assert said in result.stdout
    assert not result.stdout.startswith("\n")
    assert f"policy {policy}" in result.stdout
    json_result = call(monkeypatch, FakeClient(ranking, policy=policy), "--root", str(root), "--json", *flags)
    assert len(json_result.stdout.splitlines()) == len(ranking)
    lines = {"bm25_complete": 1, POLICY_IDENTIFIERS_OUT_OF_SCOPE: 2, POLICY_IDENTIFIERS: 0}
    assert json_result.stderr.count("\n") == lines[policy]


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            "100",
            "the texts have 104 bytes, 4 over the limit of 100: this is the order without --identifier-hints; add ",
        ),
        ("104", "The query has no word, or over 8,192 bytes once its names are split: this is the order without"),
    ],
)
def test_that_names_were_not_split_is_said_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: list[str], limit: str, said: str
) -> None:
    (tmp_path / "a.py").write_text(f"def get(): return '{'getId' * 14}'\n")
    client = FakeClient(_RANKING, policy=POLICY_IDENTIFIERS_OUT_OF_SCOPE)
    arguments = ["--root", str(tmp_path), "--identifier-hints", "--max-text-bytes", limit, *flags]
    result = call(monkeypatch, client, *arguments)
    assert said in (result.stderr if flags else result.stdout)
    assert ("--max-text-bytes 110, or --fit" in result.output) == (limit == "100")


@pytest.mark.parametrize(
    ("limit", "said"),
    [("2", "More: --limit 4, or --all-pages"), ("4", "More: --limit 5, or"), ("4096", "More: --all-pages")],
)
def test_a_longer_page_is_offered_up_to_the_longest(
    monkeypatch: pytest.MonkeyPatch, root: Path, limit: str, said: str
) -> None:
    ranking = [(f"a.py:{line}:f", 1.0) for line in range(1, 5_000 if limit == "4096" else 6)]
    assert said in call(monkeypatch, FakeClient(ranking), "--root", str(root), "--limit", limit).stdout


def test_in_a_pipe_no_line_is_broken_on_any_page(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    ranking = [("a.py:1:f", 2.0), (f"{'deep/' * 30}a.py:1:{'long' * 50}", 1.0), ("b.py:1:g", 0.5)]
    result = call(monkeypatch, FakeClient(ranking), "--root", str(root), "--limit", "1", "--all-pages")
    assert [line.split()[2:] for line in result.stdout.splitlines()[1:4]] == [
        ["a.py:1", "f"],
        [f"{'deep/' * 30}a.py:1", "long" * 50],
        ["b.py:1", "g"],
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_on_a_terminal_nothing_is_wider_than_it(monkeypatch: pytest.MonkeyPatch, root: Path, width: int) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(search, "console", lambda: Console(file=screen, width=width, force_terminal=False))
    name = "a_function_with_a_name_that_is_rather_long"
    client = FakeClient([(f"package/folder/sub_folder/module.py:1234:{name}", 1.0)])
    assert call(monkeypatch, client, "--root", str(root)).exit_code == 0
    lines = screen.getvalue().splitlines()
    where = "package/folder/sub_folder/module.py:1234"
    assert all(len(line) <= width or line.strip() == where for line in lines)
    assert where in screen.getvalue()
    assert ("rank  score" in lines[0]) == (width >= 80)


def test_the_grant_is_taken_before_anything_is_read(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    def on_grant() -> None:
        (root / "b.py").write_text("def write(): pass\n")

    client = FakeClient(_RANKING, on_grant=on_grant)
    assert call(monkeypatch, client, "--root", str(root), "--principal", "alice").exit_code == 0
    assert [document.id for document in client.documents] == [
        "a.py:1:read",
        "b.py:1:write",
        "test_a.py:1:test_read",
    ]
    assert client.grants[0].principal == "alice"
    assert client.grants[0].labels == (f"folder:{root}",)
    assert client.opened["grant"] is client.grants[0]


def test_packages_are_labels_by_their_top_level_names(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient(_RANKING)
    assert call(monkeypatch, client, "--package", "json.decoder", "--package", "click").exit_code == 0
    assert client.grants[0].labels == ("package:click", "package:json")
    assert {document.id.partition("/")[0] for document in client.documents} == {"click", "json"}


def test_tests_can_be_left_out(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    client = FakeClient(_RANKING)
    result = call(monkeypatch, client, "--root", str(root), "--no-tests")
    assert [document.id for document in client.documents] == ["a.py:1:read"]
    assert "Left out: test files: 1" in result.stdout


def test_a_directory_is_where_the_manager_is_looked_for(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    client = FakeClient(_RANKING)
    call(monkeypatch, client, "--root", str(root), "--directory", "/run/hintcell")
    assert client.directory == "/run/hintcell"


def test_the_principal_is_the_login_name_or_the_uid(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    client = FakeClient(_RANKING)
    monkeypatch.setenv("LOGNAME", "bob")
    call(monkeypatch, client, "--root", str(root))

    def no_name() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", no_name)
    call(monkeypatch, client, "--root", str(root))
    assert client.grants[0].principal == "bob"
    assert client.grants[1].principal.startswith("uid:")


@pytest.mark.parametrize(
    "error",
    [
        ManagerUnavailable("no manager serves /x: start one"),
        OpenRefused("permission_changed", "permissions changed since the grant"),
        SessionEnded("crashed", "two\nlines"),
        HintcellError("anything else"),
    ],
)
def test_an_error_is_one_line_and_status_1(monkeypatch: pytest.MonkeyPatch, root: Path, error: HintcellError) -> None:
    result = call(monkeypatch, FakeClient(fails=error), "--root", str(root), "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("hintcell: ")
    assert result.stderr.endswith(" ".join(str(error).split()) + "\n")
    assert result.stderr.count("\n") == 1


def test_one_document_too_many_says_so_and_names_the_ways_out(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    count = Limits().max_documents - 1
    (root / "b.py").write_text("".join(f"def f{number}(): pass\n" for number in range(count)))
    result = call(monkeypatch, FakeClient(_RANKING), "--root", str(root))
    assert result.exit_code == 1
    assert result.stderr == (
        "hintcell: too much for one snapshot: 4,097 documents (1 over the limit of 4,096): search one part at a "
        "time: --glob /b.py (has 4,095), --glob /test_a.py (has 1), --glob /a.py (has 1); raise the limits: "
        "--max-documents 4100; leave tests out: --no-tests; or take only what fits: --fit\n"
    )
    client = FakeClient(_RANKING)
    assert call(monkeypatch, client, "--root", str(root), "--fit").exit_code == 0
    assert len(client.documents) == Limits().max_documents


def _ways_out(message: str) -> list[list[str]]:
    """Each that a refusal names, as the arguments that a shell makes of it."""
    said = message.partition("): ")[2]
    return [shlex.split(way) for way in re.findall(r"(?<=[:,] )--[a-z].*?(?= \(has|; |$)", said)]


@pytest.mark.parametrize("flags", [[], ["--identifier-hints"], ["--glob", "*.py"]])
def test_every_way_out_that_is_named_works_as_it_is_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: list[str]
) -> None:
    for name in ("it's here", "[id]", "dist", "x/y", "x/z", "x", "."):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "a.py").write_text("def getUserName(): return '{userNameOfUser}'\n" * 9)
    (tmp_path / "test_a.py").write_text("def getUserName(): pass\n" * 50)
    limits = ["--max-documents", "65", "--max-text-bytes", "3500"]
    arguments = ["--root", str(tmp_path), *limits, *flags]
    refusal = call(monkeypatch, FakeClient(_RANKING), *arguments)
    assert refusal.exit_code == 1
    assert ("in place of your --glob" in refusal.stderr) == ("--glob" in flags)
    ways = _ways_out(refusal.stderr)
    assert [way[0] for way in ways] == [*(["--glob"] * 5), "--max-documents", "--no-tests", "--fit"]
    for way in ways:
        client = FakeClient(_RANKING)
        in_place = ["--root", str(tmp_path), *limits] if way[0] == "--glob" else arguments
        assert call(monkeypatch, client, *in_place, *way).exit_code == 0, way
        limit = client.opened["limits"]
        assert isinstance(limit, Limits)
        assert split_length(client.documents) <= limit.max_text_bytes or way == ["--fit"] != flags


def test_globs_choose_the_files(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    client = FakeClient(_RANKING)
    result = call(monkeypatch, client, "--root", str(root), "--glob", "*.py", "--glob", "!test_*")
    assert [document.id for document in client.documents] == ["a.py:1:read"]
    assert "Left out: files outside the globs: 1" in result.stdout


def test_too_many_functions_of_packages_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = call(monkeypatch, FakeClient(_RANKING), "--package", "bisect", "--max-documents", "3")
    assert result.stderr == (
        "hintcell: too much for one snapshot: 4 functions (1 over the limit of 3): name fewer packages, or parts of "
        "them: --package scipy.stats; raise the limits: --max-documents 4; or take only what fits: --fit\n"
    )


def test_what_fits_leaves_room_for_names_to_be_split(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    text = "".join(f"def f{number}():\n    '{'x' * 9_000}'\n" for number in range(100))
    for name in ("b.py", "c.py", "d.py"):
        (root / name).write_text(text)
    sizes: list[int] = []
    for flags in (["--fit"], ["--fit", "--identifier-hints"]):
        client = FakeClient(_RANKING)
        call(monkeypatch, client, "--root", str(root), *flags)
        sizes.append(sum(len(document.text) for document in client.documents))
    limit = Limits().max_text_bytes
    assert limit * 99 // 100 < sizes[0] <= limit
    assert split_length(client.documents) <= limit


def test_a_folder_without_anything_to_read_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = call(monkeypatch, FakeClient(), "--root", str(tmp_path))
    assert result.exit_code == 1
    assert "nothing to search" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["  "], "it is blank"),
        (["é" * (MAX_QUERY_BYTES // 2) + "x"], "8,193 bytes, 1 over the limit of 8,192"),
        (["\udcff"], "not valid UTF-8"),
        (["read", "config"], "quote it"),
        (["x", "--principal", " "], "name who will read"),
        (["x", "--principal", "\udcff"], "not valid UTF-8"),
        (["x", "--limit", "0"], "1<=x<=4096"),
        (["x", "--limit", "4097"], "1<=x<=4096"),
        (["x", "--root", "/nowhere/at/all"], "does not exist"),
        (["x", "--root", __file__], "is a file: name its folder, and the file with --glob test_search.py"),
        (["x", "--root", ".", "--package", "json"], "exclude each other"),
        (["x", "--glob", "*.py", "--package", "json"], "exclude each other"),
        (["--left-out", "--package", "json"], "exclude each other"),
        ([], "Missing argument 'QUERY'"),
    ],
)
def test_a_wrong_call_starts_nothing(monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    client = FakeClient(_RANKING)
    put_in_place(monkeypatch, client)
    result = CliRunner().invoke(commands, ["search", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert client.grants == []


def test_the_longest_query_is_taken(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    client = FakeClient(_RANKING)
    put_in_place(monkeypatch, client)
    query = "é" * (MAX_QUERY_BYTES // 2)
    assert CliRunner().invoke(commands, ["search", query, "--root", str(root)]).exit_code == 0
    assert client.opened["query"] == query


def test_limits_are_raised_for_the_catalog_and_for_the_session(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    count = Limits().max_documents
    (root / "b.py").write_text("".join(f"def f{number}(): pass\n" for number in range(count)))
    client = FakeClient(_RANKING)
    raised = ("--max-documents", "5000", "--max-text-bytes", "4MiB")
    assert call(monkeypatch, client, "--root", str(root), *raised).exit_code == 0
    assert len(client.documents) > count
    assert client.opened["limits"] == Limits(5_000, 4 * 2**20)


def test_a_limit_beyond_what_a_worker_takes_is_refused(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result = call(monkeypatch, FakeClient(_RANKING), "--root", str(root), "--max-text-bytes", "2GiB")
    assert result.exit_code == 2
    assert "--max-text-bytes is 2147483648: use 1 to 1073741824" in result.stderr


@pytest.fixture
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("etc") / "policy.toml"
    path.write_text('[principals.alice]\nallow = ["**"]\ndeny = ["test_*"]\n[principals.bob]\ndeny = ["a.py"]\n')
    return path


def test_under_a_policy_only_what_it_allows_is_read_or_counted(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: Path
) -> None:
    client = FakeClient(_RANKING)
    arguments = ["--root", str(root), "--policy", str(policy), "--principal", "alice", "--no-tests"]
    result = call(monkeypatch, client, *arguments)
    assert [document.id for document in client.documents] == ["a.py:1:read"]
    assert "Left out" not in result.stdout
    assert client.grants[0].labels == (f"folder:{root}", "hintcell:policy")


def test_the_grant_is_taken_before_the_policy_is_read(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: Path
) -> None:
    client = FakeClient(_RANKING, on_grant=lambda: policy.write_text('[principals.alice]\nallow = ["test_*"]\n'))
    arguments = ["--root", str(root), "--policy", str(policy), "--principal", "alice"]
    assert call(monkeypatch, client, *arguments).exit_code == 0
    assert [document.id for document in client.documents] == ["test_a.py:1:test_read"]


@pytest.mark.parametrize("principal", ["mallory", "bob"])
def test_who_may_read_nothing_hears_so_and_nothing_of_what_there_is(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: Path, principal: str
) -> None:
    arguments = ["--root", str(root), "--policy", str(policy), "--principal", principal]
    outputs: list[str] = []
    for _ in range(2):
        client = FakeClient(_RANKING)
        result = call(monkeypatch, client, *arguments)
        assert (result.exit_code, client.opened) == (1, {})
        outputs.append(result.output)
        (root / "a.py").unlink(missing_ok=True)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith(f"hintcell: the policy lets {principal} read nothing: ")


def test_who_may_read_other_files_only_does_not_hear_of_these(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: Path
) -> None:
    policy.write_text('[principals.alice]\nallow = ["other/**"]\n')
    arguments = ["--root", str(root), "--policy", str(policy), "--principal", "alice", "--no-tests"]
    (root / "loop").symlink_to(root)
    (root / "link.py").symlink_to("a.py")
    full = call(monkeypatch, FakeClient(_RANKING), *arguments)
    for entry in list(root.iterdir()):
        entry.unlink()
    empty = call(monkeypatch, FakeClient(_RANKING), *arguments)
    assert (full.exit_code, full.output) == (empty.exit_code, empty.output) == (1, empty.output)


def test_a_policy_that_cannot_be_read_is_told_and_nothing_is_searched(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: Path
) -> None:
    policy.write_text('[principals.alice]\nallow = ["!a.py"]\n')
    client = FakeClient(_RANKING)
    result = call(monkeypatch, client, "--root", str(root), "--policy", str(policy), "--principal", "alice")
    assert (result.exit_code, client.opened) == (1, {})
    assert result.stderr.startswith(f"hintcell: the policy '{policy}': principal 1: item 1 of allow: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("query", [[], ["read"]])
def test_what_is_left_out_is_printed_and_nothing_is_searched(
    monkeypatch: pytest.MonkeyPatch, root: Path, policy: Path, query: list[str]
) -> None:
    policy.write_text('[principals.alice]\nallow = ["*a.py"]\n')
    (root / "denied.bin").touch()
    (root / "elsewhere").symlink_to(root)
    arguments = [*query, "--left-out", "--root", str(root), "--no-tests"]
    client = FakeClient(_RANKING)
    put_in_place(monkeypatch, client)
    result = CliRunner().invoke(commands, ["search", *arguments])
    lines = ["denied.bin\tfiles of other kinds", "elsewhere/\tlinks not followed", "test_a.py\ttest files"]
    assert (result.exit_code, sorted(result.stdout.splitlines()), result.stderr) == (0, lines, "")
    result = CliRunner().invoke(commands, ["search", *arguments, "--policy", str(policy), "--principal", "alice"])
    assert (result.exit_code, result.output) == (0, "test_a.py\ttest files\n")
    assert client.grants == []


def test_when_everything_is_left_out_that_is_printed_too(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    result = call(monkeypatch, FakeClient(), "--left-out", "--root", str(root), "--glob", "*.go")
    assert sorted(result.stdout.splitlines()) == [f"{name}\tfiles outside the globs" for name in ("a.py", "test_a.py")]
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_packages_have_no_policy(monkeypatch: pytest.MonkeyPatch, policy: Path) -> None:
    client = FakeClient(_RANKING)
    result = call(monkeypatch, client, "--package", "json", "--policy", str(policy))
    assert (result.exit_code, client.grants) == (2, [])
    assert "--package and --policy exclude each other" in result.stderr
