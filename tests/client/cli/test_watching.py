"""`status`, `top`, `events` and `revoke` up to the manager, which is a fake."""

import datetime
import json

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from hintcell import ManagerUnavailable
from hintcell.cli import Interrupted, managers
from hintcell.cli.events import event_line
from hintcell.cli.group import commands
from hintcell.cli.overview import IDENTITY, RSS, USS, grid, manager_lines
from hintcell.cli.top import View
from hintcell_manager.protocol import ChangeReport, EndedSession, ManagerEvent, ManagerOptions, Memory, Sample, Status
from tests.client.cli.statuses import MIB, FakeManager, session, status


def call(monkeypatch: pytest.MonkeyPatch, manager: FakeManager, *arguments: str) -> Result:
    monkeypatch.setattr(managers, "Client", manager)
    monkeypatch.setattr(managers, "RemoteManager", manager)
    return CliRunner().invoke(commands, arguments)


def test_a_status_is_a_table_with_sums_and_the_manager_below(monkeypatch: pytest.MonkeyPatch) -> None:
    told = status(
        session(labels=("repo:api", "team:core")),
        session("77", state="starting", principal="bob", labels=(), pid=None, memory=Memory("gone"), uss_bytes=None),
        options=ManagerOptions(max_sessions=3, ranking_deadline_s=None),
    )
    result = call(monkeypatch, FakeManager(told), "status")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "session     state     age   RSS  USS  peak  CPU s  principal  labels               snapshot",
        "5e55        running   10s  60.0  8.0  70.0   0.50  alice      repo:api, team:core  api@1",
        "77          starting  10s     -    -     -   0.50  bob        -                    api@1",
        "total of 2                 60.0  8.0",
        "Memory in MiB. RSS counts shared pages in every session; USS is what the end of a session frees.",
        "",
        "Manager   pid 99, up 1m40s, RSS 30.0 MiB, CPU 1.00 s, 3 permission changes",
        "Template  pid 100, RSS 50.0 MiB",
        "Opened    5 since the start",
        "Ended     crashed 2, completed 1",
        "Refused   none",
        "Options   ranking_deadline_s=none, max_sessions=3",
    ]


def test_a_full_status_has_pss_and_the_newest_uss(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = FakeManager(status(session(memory=Memory("measured", 60 * MIB, 70 * MIB, 20 * MIB, 9 * MIB))))
    result = call(monkeypatch, manager, "status", "--full")
    assert result.stdout.splitlines()[1].split()[3:7] == ["60.0", "20.0", "9.0", "70.0"]
    assert manager.asked == [{"full_memory": True, "history": False}]


def test_gone_denied_and_zero_are_three_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    told = status(*(session(memory=memory) for memory in (Memory("gone"), Memory("denied"), Memory("measured", 0, 0))))
    lines = call(monkeypatch, FakeManager(told), "status").stdout.splitlines()
    assert [line.split()[3] for line in lines[1:4]] == ["gone", "denied", "0.0"]


def test_a_status_without_sessions_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, FakeManager(), "status").stdout.startswith("No session is open.\n")


def test_a_status_in_json_is_the_manager_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = FakeManager(status(session(principal="\x9b[31m")))
    result = call(monkeypatch, manager, "status", "--json", "--full")
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout)["sessions"][0]["principal"] == "\x9b[31m"
    assert "\x9b" not in result.stdout
    assert manager.asked == [{"full_memory": True, "history": True}]


@pytest.mark.parametrize("name", ["status", "top"])
def test_foreign_text_neither_steers_the_terminal_nor_is_markup(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    told = status(session(principal="\x1b[2J[red]a[/]", labels=("\n\x07",), snapshot_id="\x9b:smile:"))
    out = call(monkeypatch, FakeManager(told), name).stdout
    assert r"\x1b[2J[red]a[/]" in out
    assert r"\n\x07" in out
    assert r"\x9b:smile:" in out
    assert all(line.isprintable() for line in out.splitlines())


def test_on_a_narrow_terminal_texts_go_below_the_figures_and_nothing_is_cut_off() -> None:
    one = session(snapshot_id="s" * 100, principal="ä" * 30)
    for width in (30, 60, 79):
        heading, rows, total = grid([one], [*IDENTITY, RSS, USS], width, shown_only=1)
        assert "principal" not in heading.plain
        assert max(line.cell_len for line in [heading, *rows[0][1:], total]) <= max(width, heading.cell_len)
        text = "".join(line.plain[4:] for line in rows[0][1:])
        assert text == f"{'ä' * 30}  repo:api  {'s' * 100}"


def test_what_a_terminal_wraps_is_not_folded_so_that_it_can_be_copied() -> None:
    one = session(snapshot_id="s" * 100, labels=(f"folder:{'/deep' * 20}",))
    _, rows, _ = grid([one], [*IDENTITY, RSS, USS], 80, shown_only=None)
    assert [line.plain for line in rows[0][1:]] == [f"    alice  folder:{'/deep' * 20}  {'s' * 100}"]


def test_one_is_not_many() -> None:
    lines = [line.plain for line in manager_lines(msgspec.structs.replace(status(), epoch=1))]
    assert lines[0].endswith(", 1 permission change")


def test_top_off_a_terminal_prints_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    told = status(session(history=(Sample(0, 1, 1), Sample(1, 2, 2))), recent_ends={"idle_timeout": 2})
    result = call(monkeypatch, FakeManager(told), "top")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1 session, 5 opened; manager 99: up 1m40s, RSS 30.0 MiB, CPU 1.0 %; template: 50.0 MiB",
        "Ends of the last minute: idle_timeout 2",
        "",
        "session     state    age   RSS  PSS  USS  peak  history  CPU %  principal  labels    snapshot",
        "5e55        running  10s  60.0    -  8.0  70.0  ▄█         5.0  alice      repo:api  api@1",
        "total of 1                60.0    -  8.0",
        "Memory in MiB. RSS counts shared pages in every session; USS is what the end of a session frees.",
    ]


class _Script:
    """A clock, and a manager with a status for each time it is asked."""

    def __init__(self, *told: Status) -> None:
        self.now = 0.0
        self.full: list[bool] = []
        self._told = iter(told)

    def __call__(self, full: bool) -> Status:
        self.full.append(full)
        return next(self._told)


def view(script: _Script, width: int = 200) -> View:
    return View(Console(width=width), script, clock=lambda: script.now)


def test_top_reckons_cpu_between_refreshes_by_the_manager_s_own_clock() -> None:
    script = _Script(
        status(session(age_s=10, cpu_s=1.0), uptime_s=100, cpu_s=1.0),
        status(session(age_s=12, cpu_s=2.0), session("new", age_s=1, cpu_s=0.9), uptime_s=102, cpu_s=1.5),
    )
    top = view(script)
    assert "  10.0  alice" in top.frame(None)[4].plain
    lines = [line.plain for line in top.frame(None)]
    assert "CPU 25.0 %" in lines[0]
    assert "  50.0  alice" in lines[4]
    assert "  90.0  alice" in lines[5]


def test_top_reads_pss_rarely_and_keeps_showing_it() -> None:
    full = session(memory=Memory("measured", 60 * MIB, 70 * MIB, 20 * MIB, 9 * MIB))
    script = _Script(status(full), status(session()), status(full))
    top = view(script)
    top.frame(None)
    script.now = 5.0
    assert " 20.0 " in top.frame(None)[4].plain
    script.now = 10.0
    top.frame(None)
    assert script.full == [True, False, True]


@pytest.mark.parametrize("height", [3, 9, 10, 24])
@pytest.mark.parametrize("width", [60, 200])
def test_top_shows_as_many_as_fit_those_with_the_most_uss_first(height: int, width: int) -> None:
    told = status(*(session(f"s{number:02}", uss_bytes=number * MIB) for number in range(40)))
    lines = [line.plain for line in view(_Script(told), width).frame(height)]
    assert len(lines) <= height
    shown = [line.split()[0] for line in lines if line.startswith("s") and not line.startswith("session")]
    assert shown == [f"s{39 - number:02}" for number in range(len(shown))]
    if height >= 9:
        assert f"and {40 - len(shown)} more with less USS" in lines
        assert any(line.startswith("total of 40") for line in lines)


def test_an_event_is_a_line() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5).astimezone().timestamp()
    for event, text in (
        (ManagerEvent("opened", at, "5e55", "alice", pid=7), "opened              5e55  alice  pid 7"),
        (
            ManagerEvent("ended", at, "5e55", "a\n", reason="idle_timeout", pid=7, took_s=65.0, peak_rss_bytes=MIB),
            r"ended               5e55  a\n  idle_timeout  after 1m05s  peak 1.0 MiB  pid 7",
        ),
        (
            ManagerEvent("refused", at, principal="bob", reason="memory_budget"),
            "refused             bob  memory_budget",
        ),
        (
            ManagerEvent("permission_changed", at, count=1, took_s=0.002),
            "permission_changed  1 session ended  in 2.0 ms",
        ),
        (ManagerEvent("template", at, reason="ready", pid=8), "template            ready  pid 8"),
    ):
        assert event_line(event) == f"2026-01-02 03:04:05  {text}"


def test_events_end_with_the_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = FakeManager(events=[ManagerEvent("template", 0.0, reason="ready"), ManagerEvent("opened", 1.0, "5e55")])
    result = call(monkeypatch, manager, "events", "--json")
    assert result.exit_code == 0
    assert [json.loads(line)["kind"] for line in result.stdout.splitlines()] == ["template", "opened"]
    assert result.stderr == "hintcell: the manager has ended\n"


def test_ctrl_c_ends_events_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    result = call(monkeypatch, FakeManager(events=[Interrupted()]), "events")
    assert (result.exit_code, result.output.strip()) == (130, "")


def test_a_revocation_tells_what_it_ended_and_how_long_each_took_to_die(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ChangeReport(1, (EndedSession("5e55", 7, 0.0021), EndedSession("77", None, 0.0)), 0.003)
    manager = FakeManager(report=report)
    result = call(monkeypatch, manager, "revoke", "--principal", "alice", "--label", "a", "--label", "b")
    assert result.stdout.splitlines() == [
        "5e55  pid 7  dead after 2.1 ms",
        "77  had no process yet",
        "2 sessions ended in 3.0 ms; matching grants from before are refused",
    ]
    assert manager.asked == [
        {"principal": "alice", "labels": ("a", "b"), "snapshot_id": None, "session_id": None, "everyone": False}
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["revoke"],
        ["revoke", "--everyone", "--principal", "a"],
        ["revoke", "--everyone", "--label", "a"],
        ["revoke", "--everyone", "--manager", "tcp://127.0.0.1:1"],
        ["revoke", "--everyone", "--manager", "127.0.0.1:1", "--key", __file__, "--manager-key", __file__],
        ["status", "--key", __file__],
        ["status", "--manager", "tcp://127.0.0.1:1", "--directory", "d"],
        ["status", "--manager", "tcp://127.0.0.1:1", "--key", __file__],
        ["top", "--interval", "0"],
        ["top", "--interval", "none"],
    ],
)
def test_what_does_not_go_together_is_a_wrong_call(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    manager = FakeManager()
    result = call(monkeypatch, manager, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert manager.asked == []


@pytest.mark.parametrize("arguments", [["status"], ["top"], ["events"], ["revoke", "--everyone"]])
def test_a_manager_that_is_not_there_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    def client(*_: object) -> None:
        raise ManagerUnavailable("no manager serves it")

    monkeypatch.setattr(managers, "Client", client)
    result = CliRunner().invoke(commands, arguments)
    assert (result.exit_code, result.stderr) == (1, "hintcell: no manager serves it\n")
