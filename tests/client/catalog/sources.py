"""Made-up Python modules whose functions are known, for properties."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

# Parts of a line that a careless splitter takes for the end of one.
_NOT_BREAKS = ["", "\f", "\v", "\x1c", "\x85", "\u2028", "é€𝐀"]
_BREAKS = ["\n", "\r\n", "\r"]


@dataclass
class Module:
    """Source lines, and of each function that counts: first line, line of `def`, last line (from 1) and name."""

    line_break: str
    lines: list[str] = field(default_factory=list[str])
    functions: list[tuple[int, int, int, str]] = field(default_factory=list[tuple[int, int, int, str]])

    @property
    def text(self) -> str:
        return self.line_break.join(self.lines)

    def expected(self) -> list[tuple[int, str, str]]:
        return [
            (line, name, self.line_break.join(self.lines[first - 1 : last]))
            for first, line, last, name in self.functions
        ]


@st.composite
def modules(draw: st.DrawFn) -> Module:
    module = Module(draw(st.sampled_from(_BREAKS)))
    _block(draw, module, depth=0, qualifier="", in_function=False)
    if draw(st.booleans()):
        module.lines.append("")
    return module


def _block(draw: st.DrawFn, module: Module, *, depth: int, qualifier: str, in_function: bool) -> None:
    indent = "    " * depth
    module.lines.append(f"{indent}x = 0  # {draw(st.sampled_from(_NOT_BREAKS))}")
    for number in range(draw(st.integers(0, 3 if depth < 3 else 0))):
        kind = draw(st.sampled_from(["def", "class", "block", "text", "blank"]))
        if kind == "def":
            _function(draw, module, depth=depth, name=f"{qualifier}f{number}", in_function=in_function)
        elif kind == "class":
            module.lines += [*_decorator(draw, indent), f"{indent}class C{number}:"]
            _block(draw, module, depth=depth + 1, qualifier=f"{qualifier}C{number}.", in_function=in_function)
        elif kind == "block":
            _compound(draw, module, depth=depth, qualifier=qualifier, in_function=in_function)
        elif kind == "text":
            module.lines += [f'{indent}"""', "def not_one():", '    pass"""']
        else:
            module.lines += ["", f"{indent}# def nothing(): pass"]


def _function(draw: st.DrawFn, module: Module, *, depth: int, name: str, in_function: bool) -> None:
    indent = "    " * depth
    first = len(module.lines) + 1
    module.lines += _decorator(draw, indent) + _decorator(draw, indent)
    line = len(module.lines) + 1
    start = f"{indent}{draw(st.sampled_from(['', 'async ']))}def {name.rpartition('.')[2]}"
    if draw(st.booleans()):
        module.lines.append(f"{start}(): pass  # {draw(st.sampled_from(_NOT_BREAKS))}")
    else:
        module.lines += [f"{start}(", f"{indent}):"]
        _block(draw, module, depth=depth + 1, qualifier="", in_function=True)
        module.lines.append(f"{indent}    return")
    if not in_function:
        module.functions.append((first, line, len(module.lines), name))


def _compound(draw: st.DrawFn, module: Module, *, depth: int, qualifier: str, in_function: bool) -> None:
    indent = "    " * depth
    match draw(st.sampled_from(["if x:", "while x:", "for x in y:", "with x:", "try:", "try*", "match"])):
        case "match":
            module.lines += [f"{indent}match x:", f"{indent}    case 1:"]
            _block(draw, module, depth=depth + 2, qualifier=qualifier, in_function=in_function)
            return
        case "try:" | "try*" as header:
            parts = ["try:", "except* E:" if header == "try*" else "except E:", "else:", "finally:"]
        case "with x:":
            parts = ["with x:"]
        case header:
            parts = [header, "else:"]
    for part in parts:
        module.lines.append(indent + part)
        _block(draw, module, depth=depth + 1, qualifier=qualifier, in_function=in_function)


def _decorator(draw: st.DrawFn, indent: str) -> list[str]:
    return draw(
        st.sampled_from(
            [
                [],
                [f"{indent}@d"],
                [f"{indent}@d(", "'@', 1)"],
                [f"{indent}@(", "# @", "", f"{indent}d)"],
                [f"{indent}@\\", "d"],
                [f"{indent}@(", "(d", "@ d) @ d)"],
            ]
        )
    )
