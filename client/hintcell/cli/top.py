"""`hintcell top`: what a manager holds, again and again, until `q` or Ctrl-C."""

import sys
import time
from collections.abc import Callable
from typing import Final, Unpack

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hintcell.cli.figures import NOTHING, age, counted, counts, mib, sparkline
from hintcell.cli.keyboard import Keyboard
from hintcell.cli.managers import Where, connected, manager_options
from hintcell.cli.output import console, until_interrupted, writing
from hintcell.cli.overview import IDENTITY, LEGEND, PEAK, RSS, USS, Column, grid, uss_bytes
from hintcell.cli.parameters import SECONDS, above_zero
from hintcell_manager.protocol import SessionStatus, Status

# PSS makes the kernel walk every page of every session while the manager waits: not at every refresh.
_PSS_INTERVAL_S: Final = 10.0
_HISTORY_CELLS: Final = 16
# Fewer sessions than this are no list: a terminal as low as that shows what it can.
_MIN_ROWS: Final = 1


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=str,
    metavar=SECONDS.metavar,
    default="1",
    show_default=True,
    callback=above_zero(SECONDS, none=False),
    help="Between two refreshes.",
)
@manager_options
def command(*, interval_s: float, **where: Unpack[Where]) -> None:
    """Watch a manager's sessions: memory with its history, CPU, and the ends of the last minute.

    `q` or Ctrl-C ends it. Off a terminal it prints what it would show, once.
    """
    out = console()
    with until_interrupted(), connected(where) as manager:
        view = View(out, lambda full: manager.status(full_memory=full, history=True))
        if not sys.stdout.isatty() or out.is_dumb_terminal:
            with writing():
                for line in view.frame(None):
                    out.print(line, soft_wrap=True)
                out.file.flush()
            return
        with writing(), Keyboard() as keyboard, Live(console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(Group(*view.frame(out.height)), refresh=True)
                if keyboard.is_pressed("q", interval_s):
                    return


class View:
    """What is shown, and the figures of the last refresh that the next one needs."""

    def __init__(
        self, out: Console, ask: Callable[[bool], Status], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Show what `ask` tells, which takes whether to read PSS, for a terminal like `out`."""
        self._console = out
        self._ask = ask
        self._clock = clock
        self._full_at: float | None = None
        self._pss_bytes: dict[str, int | None] = {}
        # Of each session, by its id: its age and the processor time it had used by then.
        self._used: dict[str, tuple[float, float]] = {}
        self._manager_used = (0.0, 0.0)
        self._percent: dict[str, float | None] = {}

    def frame(self, height: int | None) -> list[Text]:
        """The lines as of now, at most `height`; None is as many as there are."""
        now = self._clock()
        full = self._full_at is None or now - self._full_at >= _PSS_INTERVAL_S
        status = self._ask(full)
        if full:
            self._full_at = now
            self._pss_bytes = {session.session_id: session.memory.pss_bytes for session in status.sessions}
        manager_percent = self._note(status)
        lines = self._summary(status, manager_percent)
        if not status.sessions:
            return [*lines, Text(), Text("No session is open.")][:height]
        # What a session's end would free is what one looks for first.
        ordered = sorted(status.sessions, key=lambda session: (-(uss_bytes(session) or 0), session.session_id))
        # The blank line, the heading, the sums, what is left out, and the legend.
        room = None if height is None else max(_MIN_ROWS, height - len(lines) - 5)
        heading, rows, total = grid(ordered, self._columns(), self._console.width, shown_only=room)
        while room is not None and len(rows) > _MIN_ROWS and sum(map(len, rows)) > room:
            rows.pop()
        hidden = len(ordered) - len(rows)
        lines += [Text(), heading, *(line for row in rows for line in row)]
        if hidden:
            lines.append(Text(f"and {hidden:,} more with less USS", style="dim"))
        return [*lines, total, Text(LEGEND, style="dim", no_wrap=True)][:height]

    def _columns(self) -> list[Column]:
        return [
            *IDENTITY,
            RSS,
            Column("PSS", lambda session: mib(self._pss(session)), self._pss),
            USS,
            PEAK,
            Column("history", self._history, is_left=True),
            Column("CPU %", self._cpu),
        ]

    def _summary(self, status: Status, manager_percent: float | None) -> list[Text]:
        cpu = NOTHING if manager_percent is None else f"{manager_percent:.1f}"
        template = "none" if status.template_memory is None else f"{mib(status.template_memory.rss_bytes)} MiB"
        return [
            Text(
                f"{counted(len(status.sessions), 'session')}, {status.opened:,} opened; manager {status.pid}: up "
                f"{age(status.uptime_s)}, RSS {mib(status.memory.rss_bytes)} MiB, CPU {cpu} %; template: {template}",
                style="bold",
                no_wrap=True,
            ),
            Text(f"Ends of the last minute: {counts(status.recent_ends)}", no_wrap=True),
        ]

    def _note(self, status: Status) -> float | None:
        """Reckon each session's share of a processor since the last refresh, and return the manager's."""
        used = {
            session.session_id: (session.age_s, session.cpu_s)
            for session in status.sessions
            if session.cpu_s is not None
        }
        # Of one that is new here: since its start.
        self._percent = {name: _percent(self._used.get(name, (0.0, 0.0)), now) for name, now in used.items()}
        self._used = used
        manager = (status.uptime_s, status.cpu_s)
        percent = _percent(self._manager_used, manager)
        self._manager_used = manager
        return percent

    def _pss(self, session: SessionStatus) -> int | None:
        return self._pss_bytes.get(session.session_id)

    def _history(self, session: SessionStatus) -> str:
        return sparkline(session.history, _HISTORY_CELLS, ascii_only=self._console.options.ascii_only)

    def _cpu(self, session: SessionStatus) -> str:
        percent = self._percent.get(session.session_id)
        return NOTHING if percent is None else f"{percent:.1f}"


def _percent(before: tuple[float, float], now: tuple[float, float]) -> float | None:
    """The share of one processor between two pairs of a clock and the processor time used by then, in percent."""
    passed_s, used_s = now[0] - before[0], now[1] - before[1]
    return 100 * max(0.0, used_s) / passed_s if passed_s > 0 else None
