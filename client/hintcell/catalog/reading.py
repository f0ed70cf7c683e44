"""One file as the parts that become documents: by its kind, or as the functions of Python source alone."""

from collections.abc import Callable, Mapping
from typing import Final

from hintcell.catalog import texts
from hintcell.catalog.decoding import text_of
from hintcell.catalog.kinds import MAX_WHOLE_BYTES, Form, Kind, is_binary, is_generated
from hintcell.catalog.languages import PYTHON, language_of_header
from hintcell.catalog.model import Outcome, Part, Reason
from hintcell.catalog.source import TooSlowError, functions_of, parse
from hintcell_worker.protocol import utf8_length

_SPLIT: Final[Mapping[Form, Callable[[str], list[Part]]]] = {
    Form.MARKDOWN: texts.markdown,
    Form.RESTRUCTURED_TEXT: texts.restructured_text,
    Form.PLAIN_TEXT: texts.plain_text,
    Form.WHOLE: texts.whole,
}


def parts_of(content: bytes, kind: Kind, name: str) -> Outcome:
    """The parts of a file (`name`: its own, without folders), and why others are missing; never neither."""
    if is_binary(content):
        return [Reason.BINARY_FILES]
    if is_generated(content, kind):
        return [Reason.GENERATED_FILES]
    language = kind.language
    if language is not None:
        language = language_of_header(name, language, content)
        try:
            functions, rest = parse(text_of(content, language), language)
        except TooSlowError:
            return [Reason.SLOW_FILES]
        if functions:
            return [*functions, *map(_rest, rest)]
    if kind.form in {Form.FUNCTIONS, Form.WHOLE} and len(content) > MAX_WHOLE_BYTES:
        return [Reason.LARGE_FILES]
    return [*_SPLIT[Form.WHOLE if language else kind.form](text_of(content, language))] or [Reason.EMPTY_FILES]


def _rest(part: Part) -> Part | Reason:
    return part if utf8_length(part.text) <= MAX_WHOLE_BYTES else Reason.LARGE_RESTS


def python_functions_of(content: bytes) -> Outcome:
    """The functions of a Python file, at least one; or why there are none."""
    if is_binary(content):
        return [Reason.BINARY_FILES]
    try:
        return [*functions_of(text_of(content, PYTHON), PYTHON)] or [Reason.FILES_WITHOUT_FUNCTIONS]
    except TooSlowError:
        return [Reason.SLOW_FILES]
