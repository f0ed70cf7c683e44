"""A manager's status as lines for people, which `status` prints once and `top` again and again.

Figures stand left and texts right: where a line has no room for the texts of every session, they go on a line of
their own, and nothing is cut off: a screen has them folded, else the terminal wraps them, so that they can be copied.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from rich.cells import cell_len
from rich.text import Text

from hintcell.cli.figures import NOTHING, age, counted, counts, mib, shown
from hintcell.cli.table import fold
from hintcell_manager.protocol import ManagerOptions, Memory, SessionStatus, Status

_GAP: Final = "  "
_TEXT_INDENT: Final = 4
_MIN_WIDTH: Final = 24
_TEXT_HEADINGS: Final = ("principal", "labels", "snapshot")
_STYLES: Final = {"running": "green", "ending": "red"}

LEGEND: Final = "Memory in MiB. RSS counts shared pages in every session; USS is what the end of a session frees."


class Column(msgspec.Struct, frozen=True):
    """A figure of each session.

    Attributes:
        heading: above it.
        cell: the figure as text.
        total_bytes: what to add up below it, if that makes sense.
        is_left: aligned to the left.
    """

    heading: str
    cell: Callable[[SessionStatus], str]
    total_bytes: Callable[[SessionStatus], int | None] | None = None
    is_left: bool = False


class Grid(NamedTuple):
    """Lines to print: the heading, those of each session, and the sums."""

    heading: Text
    rows: list[list[Text]]
    total: Text


def uss_bytes(session: SessionStatus) -> int | None:
    """The session's USS as read just now, else as last sampled."""
    return session.uss_bytes if session.memory.uss_bytes is None else session.memory.uss_bytes


def rss(session: SessionStatus) -> str:
    """The session's RSS in MiB, or why there is none: no process yet, gone, or denied."""
    memory = session.memory
    if memory.state == "measured":
        return mib(memory.rss_bytes)
    return memory.state if session.pid is not None else NOTHING


IDENTITY: Final = (
    Column("session", lambda session: shown(session.session_id), is_left=True),
    Column("state", lambda session: shown(session.state), is_left=True),
    Column("age", lambda session: age(session.age_s)),
)
RSS: Final = Column("RSS", rss, lambda session: session.memory.rss_bytes)
USS: Final = Column("USS", lambda session: mib(uss_bytes(session)), uss_bytes)
PEAK: Final = Column("peak", lambda session: mib(session.memory.peak_rss_bytes))


def grid(sessions: Sequence[SessionStatus], columns: Sequence[Column], width: int, *, shown_only: int | None) -> Grid:
    """The sessions with these figures, and sums of all; of a screen, rows of the first `shown_only`, else of all."""
    visible = sessions[:shown_only]
    table = [[column.cell(session) for column in columns] for session in visible]
    sums = [_sum(column, sessions) for column in columns]
    sums[0] = f"total of {len(sessions):,}"
    headings = [column.heading for column in columns]
    widths = [max(map(cell_len, cells)) for cells in zip(headings, sums, *table, strict=True)]
    texts = [_texts(session) for session in visible]
    text_widths = [max(map(cell_len, cells)) for cells in zip(_TEXT_HEADINGS, *texts, strict=True)]
    fits = sum(widths) + sum(text_widths) + len(_GAP) * (len(widths) + len(text_widths) - 1) <= width

    def figures(cells: Sequence[str]) -> str:
        return _GAP.join(_padded(*cell) for cell in zip(cells, widths, columns, strict=True))

    def beside(parts: Sequence[str]) -> str:
        padded = (part + " " * (wide - cell_len(part)) for part, wide in zip(parts, text_widths, strict=True))
        return (_GAP + _GAP.join(padded)).rstrip()

    rows: list[list[Text]] = []
    for session, cells, parts in zip(visible, table, texts, strict=True):
        line = Text(figures(cells) + (beside(parts) if fits else ""), no_wrap=True)
        line.highlight_words([cells[1]], _STYLES.get(session.state, "yellow"))
        rows.append([line] if fits else [line, *_below(parts, None if shown_only is None else width)])
    heading = Text(figures(headings) + (beside(_TEXT_HEADINGS) if fits else ""), style="dim", no_wrap=True)
    return Grid(heading, rows, Text(figures(sums).rstrip(), style="bold", no_wrap=True))


def manager_lines(status: Status) -> Iterator[Text]:
    """The manager, its template, what has happened since its start, and the options it was given."""
    yield Text(
        f"Manager   pid {status.pid}, up {age(status.uptime_s)}, RSS {_rss(status.memory)}, CPU {status.cpu_s:,.2f} s, "
        f"{counted(status.epoch, 'permission change')}"
    )
    yield Text(f"Template  {_template(status)}")
    yield Text(f"Opened    {status.opened:,} since the start")
    yield Text(f"Ended     {counts(status.ended)}")
    yield Text(f"Refused   {counts(status.refused)}")
    if given := _given(status.options):
        yield Text(f"Options   {given}")


def _template(status: Status) -> str:
    if status.template_pid is None or status.template_memory is None:
        return "none loaded"
    retired = f"; {status.retired_templates} retired" if status.retired_templates else ""
    return f"pid {status.template_pid}, RSS {_rss(status.template_memory)}{retired}"


def _rss(memory: Memory) -> str:
    return f"{mib(memory.rss_bytes)} MiB" if memory.state == "measured" else memory.state


def _given(options: ManagerOptions) -> str:
    """What differs from the defaults."""
    default = msgspec.structs.asdict(ManagerOptions())
    values = msgspec.structs.asdict(options)
    return ", ".join(
        f"{name}={'none' if value is None else value}" for name, value in values.items() if value != default[name]
    )


def _sum(column: Column, sessions: Sequence[SessionStatus]) -> str:
    if column.total_bytes is None:
        return ""
    known = [size for session in sessions if (size := column.total_bytes(session)) is not None]
    return mib(sum(known)) if known else NOTHING


def _padded(cell: str, width: int, column: Column) -> str:
    spaces = " " * (width - cell_len(cell))
    return cell + spaces if column.is_left else spaces + cell


def _texts(session: SessionStatus) -> tuple[str, str, str]:
    labels = ", ".join(map(shown, session.labels)) or NOTHING
    return shown(session.principal), labels, shown(session.snapshot_id)


def _below(parts: Sequence[str], width: int | None) -> Iterator[Text]:
    text = _GAP.join(parts)
    for line in [text] if width is None else fold(text, max(_MIN_WIDTH, width - _TEXT_INDENT)):
        yield Text(" " * _TEXT_INDENT + line, style="dim", no_wrap=True)
