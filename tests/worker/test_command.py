"""The command's flags, exit statuses and messages; what needs a process of its own is `test_process.py`'s."""

import pytest

from hintcell_worker import command
from hintcell_worker.conversation import Options
from hintcell_worker.protocol import Limits, RequestError


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        ([], Options()),
        (["--limit", "3"], Options(limit=3)),
        (["--limit=3"], Options(limit=3)),
        (["-limit", "3"], Options(limit=3)),
        (["-limit=3"], Options(limit=3)),
        (["--limit", "+3"], Options(limit=3)),
        (["--limit", "007"], Options(limit=7)),
        (["--limit", "1", "--limit", "2"], Options(limit=2)),
        (["--session", "--limit", "4096"], Options(session=True, limit=4096)),
        (["-session", "-identifier-hints"], Options(session=True, identifier_hints=True)),
        (
            ["--identifier-hints", "--limit", "1", "--cursor", "c-_"],
            Options(limit=1, identifier_hints=True, cursor="c-_"),
        ),
        (["-cursor", "c"], Options(cursor="c")),
        (
            ["--max-documents", "65536", "--max-text-bytes", "67108864", "-max-request-bytes=134217728"],
            Options(limits=Limits(65_536, 64 * 2**20, 128 * 2**20)),
        ),
    ],
)
def test_flags_are_read(argv: list[str], options: Options) -> None:
    assert command._parse(argv) == options


@pytest.mark.parametrize(
    "argv",
    [
        ["--limit"],
        ["--limit", ""],
        ["--limit", "x"],
        ["--limit", "1.0"],
        ["--limit", "1_0"],
        ["--limit", " 1"],
        ["--limit", "٣"],
        ["--limit", "0x10"],
        ["--limit", "9" * 5000],
        ["--limit", "-1"],
        ["--limit", "4097"],
        ["--lim", "1"],
        ["--sess", "--limit", "1"],
        ["--session"],
        ["--session=1"],
        ["--session", "--limit", "1", "--cursor", "c"],
        ["--cursor", "c"],
        ["--cursor"],
        ["--unknown"],
        ["file.json"],
        ["--identifier_hints"],
    ],
    ids=lambda argv: " ".join(argv)[:40],
)
def test_other_flags_are_refused_with_one_line_on_stderr(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RequestError):  # First, so that no flags that are accepted start a worker in this process.
        command._parse(argv).check()
    assert command.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hintcell-worker: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("separator", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b", "\x00"])
def test_a_message_is_one_printable_line_whatever_the_caller_wrote(
    separator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([f"first{separator}second"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert "first second" in line


def test_a_message_is_short_whatever_the_caller_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["x" * 100_000]) == 2
    assert len(capsys.readouterr().err) < 600


def test_help_names_every_flag_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert all(flag in out for flag in ("--session", "--limit", "--identifier-hints", "--cursor", "--max-text-bytes"))


@pytest.mark.parametrize("name", ["max-documents", "max-text-bytes", "max-request-bytes"])
@pytest.mark.parametrize("value", [0, -1, 2**40])
def test_a_limit_that_nobody_can_mean_is_refused(name: str, value: int) -> None:
    with pytest.raises(RequestError, match=f"{name} is {value}: use 1 to "):
        command._parse([f"--{name}", str(value)]).check()
