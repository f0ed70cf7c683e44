"""report.html: one page with every figure, table and plot of a run, that needs nothing else.

Plots are SVG inside the page, their text text. What is black in them takes the page's colour, so that they read in
light and dark. Drawing needs matplotlib; without it the page says so and has everything else.
"""

import html
import io
import re
from typing import TYPE_CHECKING, Final, Literal

from bench.goals import measured
from bench.results import Figure, Goal, Machine, Part, Plot, Run, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two colours that nothing else has, put in while drawing and replaced afterwards.
_INK: Final = "#010203"
_GRID: Final = "#040506"
# Of the same lightness, halfway between a white and a black page, and told apart by the colour-blind (after Okabe
# and Ito, 2008); the marks differ as well.
_COLOURS: Final = ("#3987c9", "#d9822b", "#2a9d75", "#b36ac2", "#c75b5b", "#8a8a2e", "#7a7a85", "#4fa3b5")
_MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
# Three, so that a ninth line has the first colour and another dash.
_DASHES: Final = ("-", "--", ":")
# Lines with more points than this have no marks.
_MARKED_POINTS: Final = 24
# A logarithmic axis that spans more than this many times its start is labelled at the decades alone.
_MANY: Final = 2_000

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1e21; --page: #fff; --line: #d5d8dc; --soft: #666b72; --yes: #1a7f4b;
  --no: #b3261e; --grid: #8884; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e5e8; --page: #16181b; --line: #3a3f45; --soft: #9aa0a8;
  --yes: #5cc98d; --no: #ff8a80; } }
body { color: var(--ink); background: var(--page); font: 16px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p.note, figcaption, dl, nav { color: var(--soft); font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dd { margin: 0; }
a { color: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 14rem; }
.prose td { text-align: left; white-space: normal; }
th { font-weight: 600; } td.yes { color: var(--yes); } td.no { color: var(--no); font-weight: 600; }
tr.missed td:first-child { font-weight: 600; }
figure { margin: 1.5rem 0; } details { margin: 1.5rem 0; } summary { cursor: pointer;
  font-weight: 600; }
svg { width: 100%; height: auto; max-width: 52rem; display: block; }
svg text { font-family: system-ui, sans-serif; }
"""


def page(run: Run) -> str:
    """The whole page."""
    parts = "\n".join(_part(part) for part in run.parts)
    links = " · ".join(f'<a href="#{_text(part.name)}">{_text(part.name)}</a>' for part in run.parts)
    effort = "" if run.effort >= 1 else f"<p><strong>Made with {run.effort:.0%} of the rounds: a trial.</strong></p>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>hintcell, measured {_text(run.date[:10])}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>hintcell, measured</h1>
{effort}
{_machine(run)}
<nav>{links}</nav>
<h2 id="goals">The figures to reach</h2>
{_goals(run)}
{parts}
</body>
</html>
"""


def number(value: float, unit: str) -> str:
    """A figure in three or four digits, with its unit."""
    size = abs(value)
    digits = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2 if size >= 1 else 3
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}".rstrip() if unit != "×" else f"{text}×"


def _machine(run: Run) -> str:
    machine: Machine = run.machine
    facts = {
        "Date": run.date,
        "Commit": run.commit or "unknown",
        "Cores": f"{machine.cores} × {machine.cpu}",
        "Memory": f"{machine.memory_bytes / 2**30:.1f} GiB",
        "Kernel": machine.kernel,
        "Python": machine.python,
        "Libraries": ", ".join(f"{name} {version}" for name, version in machine.libraries.items())
        + f", SQLite {machine.sqlite}",
        "Time": f"{run.took_s:.0f} s",
    }
    if others := {part.name: part.others for part in run.parts if part.others is not None}:
        busiest = max(others, key=lambda name: others[name])
        facts["Beside it"] = f"at most {others[busiest]:.2f} cores were busy with anything else (during “{busiest}”)"
    return "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_text(fact)}</dd>" for name, fact in facts.items()) + "</dl>"


def _goals(run: Run) -> str:
    rows = "\n".join(_goal_row(goal, figure) for goal, figure in measured(run))
    return _scrolled(
        "<tr><th>figure</th><th>measured</th><th>quartiles</th><th>n</th><th>goal</th><th></th></tr>\n" + rows
    )


def _goal_row(goal: Goal, figure: Figure | None) -> str:
    bound = f"{goal.sense} {number(goal.bound, goal.unit)}"
    name = f"{goal.row}. {goal.name}"
    if figure is None:
        return _row([name, "–", "", "", bound], '<td class="no">not measured</td>', missed=True)
    verdict = '<td class="yes">holds</td>' if figure.holds else '<td class="no">missed</td>'
    return _row([name, *_measured_cells(figure), bound], verdict, missed=not figure.holds)


def _measured_cells(figure: Figure) -> list[str]:
    quartiles = ""
    if figure.low is not None and figure.high is not None:
        quartiles = f"{number(figure.low, '')} – {number(figure.high, '')}"
    return [number(figure.value, figure.unit), quartiles, f"{figure.n:,}"]


def _row(cells: list[str], after: str = "", *, missed: bool = False) -> str:
    inside = "".join(f"<td>{_text(cell)}</td>" for cell in cells)
    return f'<tr class="missed">{inside}{after}</tr>' if missed else f"<tr>{inside}{after}</tr>"


def _part(part: Part) -> str:
    lines = [f'<h2 id="{_text(part.name)}">{_text(part.name)}</h2>', f"<p>{_text(part.about)}</p>"]
    if part.failure:
        lines.append(f"<p><strong>Not measured: {_text(part.failure)}.</strong></p>")
    lines += [_plot(plot, f"{part.name}-{place}") for place, plot in enumerate(part.plots)]
    lines += [_table(table) for table in part.tables]
    if part.figures:
        rows = [_row([figure.name.removeprefix(f"{part.name}: "), *_measured_cells(figure)]) for figure in part.figures]
        heading = "<tr><th>figure</th><th>measured</th><th>quartiles</th><th>n</th></tr>"
        table = _scrolled("\n".join([heading, *rows]))
        lines.append(f"<details><summary>All {len(rows)} figures</summary>\n{table}\n</details>")
    lines.append(f'<p class="note">This part took {part.took_s:.0f} s.</p>')
    return "\n".join(lines)


def _table(table: Table) -> str:
    heading = "<tr>" + "".join(f"<th>{_text(cell)}</th>" for cell in table.heading) + "</tr>"
    rows = [_row(list(row)) for row in table.rows]
    kind = "" if any(table.heading[1:]) else "prose"  # Columns without a name hold words, and no figures.
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return f"<h3>{_text(table.title)}</h3>\n" + _scrolled("\n".join([heading, *rows]), kind) + note


def _plot(plot: Plot, name: str) -> str:
    try:
        drawn = _drawn(plot, name)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        drawn = "<p>Not drawn: matplotlib is not installed (pip install -e '.[bench]').</p>"
    note = f"<figcaption>{_text(plot.note)}</figcaption>" if plot.note else ""
    return f"<figure><h3>{_text(plot.title)}</h3>\n{drawn}\n{note}</figure>"


def _drawn(plot: Plot, name: str) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    style: dict[str, object] = {
        "svg.fonttype": "none",  # Text stays text, in the page's font.
        "svg.hashsalt": name,  # Names of shapes must not be those of another plot of the page.
        "font.size": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _INK,
        "axes.labelcolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "text.color": _INK,
        "grid.color": _GRID,
        "legend.frameon": False,
    }
    with mpl.rc_context(style):
        drawing = Drawing(figsize=(8.5, 4.4), layout="constrained")
        drawing.patch.set_alpha(0)
        axes = drawing.add_subplot()
        axes.patch.set_alpha(0)
        for place, series in enumerate(plot.series):
            few = len(series.x) <= _MARKED_POINTS
            axes.plot(
                series.x,
                series.y,
                color=_COLOURS[place % len(_COLOURS)],
                marker=_MARKS[place % len(_MARKS)] if few or not series.joined else "",
                linestyle=_DASHES[place % len(_DASHES)] if series.joined else "",
                markersize=5,
                label=series.name,
            )
        for is_log, axis in ((plot.x_log, "x"), (plot.y_log, "y")):
            if is_log:
                _make_logarithmic(axes, axis)
        if not plot.y_log:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        axes.grid(visible=True, linewidth=0.6)
        # Beside the lines, where it covers none.
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
        written = io.StringIO()
        drawing.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _embedded(written.getvalue(), plot.title)


def _make_logarithmic(axes: "Axes", name: Literal["x", "y"]) -> None:
    """Logarithmic, with plain numbers at 1, 2 and 5 of each decade, or where there are many, at 1 alone."""
    from matplotlib.ticker import LogLocator, NullFormatter

    (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if name == "x" else axes.yaxis
    low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _MANY else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.set_minor_formatter(NullFormatter())


def _embedded(svg: str, title: str) -> str:
    """The SVG element alone, of any width, in the page's colours."""
    svg = svg[svg.index("<svg") :]
    head, end, rest = svg.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    svg = f'{head} role="img" aria-label="{html.escape(title)}"{end}{rest}'
    return svg.replace(_INK, "currentColor").replace(_GRID, "var(--grid)").strip()


def _scrolled(rows: str, kind: str = "") -> str:
    return f'<div class="scroll"><table class="{kind}">\n{rows}\n</table></div>'


def _text(text: str) -> str:
    return html.escape(text)
