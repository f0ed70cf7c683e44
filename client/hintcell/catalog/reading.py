"""One file as the parts that become documents: by its kind, or as the functions of Python source alone."""

from collections.abc import Callable, Mapping
from typing import Final

from hintcell.catalog import texts
from hintcell.catalog.decoding import text_of
from hintcell.catalog.kinds import MAX_WHOLE_BYTES, Form, Kind, is_binary, is_generated
from hintcell.catalog.languages import PYTHON, language_of_header
from hintcell.catalog.model import Part, Reason
from hintcell.catalog.source import TooSlowError, functions_of

_SPLIT: Final[Mapping[Form, Callable[[str], list[Part]]]] = {
    Form.MARKDOWN: texts.markdown,
    Form.RESTRUCTURED_TEXT: texts.restructured_text,
    Form.PLAIN_TEXT: texts.plain_text,
    Form.WHOLE: texts.whole,
}


def parts_of(content: bytes, kind: Kind, name: str) -> list[Part] | Reason:
    """The parts of a file (`name`: its own, without folders), at least one; or why there are none."""
    if is_binary(content):
        return Reason.BINARY_FILES
    if is_generated(content, kind):
        return Reason.GENERATED_FILES
    language = kind.language
    if language is not None:
        language = language_of_header(name, language, content)
        try:
            if functions := functions_of(text_of(content, language), language):
                return functions
        except TooSlowError:
            return Reason.SLOW_FILES
    if kind.form in {Form.FUNCTIONS, Form.WHOLE} and len(content) > MAX_WHOLE_BYTES:
        return Reason.LARGE_FILES
    return _SPLIT[Form.WHOLE if language else kind.form](text_of(content, language)) or Reason.EMPTY_FILES


def python_functions_of(content: bytes) -> list[Part] | Reason:
    """The functions of a Python file, at least one; or why there are none."""
    if is_binary(content):
        return Reason.BINARY_FILES
    try:
        return functions_of(text_of(content, PYTHON), PYTHON) or Reason.FILES_WITHOUT_FUNCTIONS
    except TooSlowError:
        return Reason.SLOW_FILES
