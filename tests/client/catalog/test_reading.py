"""Whatever a file is called and holds, it is in the catalog or counted, under ids that a request takes."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hintcell.catalog import build_from_directory
from hintcell.catalog.kinds import kind_of
from hintcell.catalog.model import Reason
from hintcell.catalog.reading import parts_of, python_functions_of
from hintcell_worker.protocol import Limits, Request, decode_request

_SUFFIXES = "py go js ts tsx java c h cpp rs cs rb php md rst txt sql html json".split()
_names = st.builds(
    lambda stem, suffix: os.fsdecode(stem.replace(b"/", b"-").replace(b"\0", b"-") + b"." + suffix.encode()),
    st.binary(min_size=1, max_size=100),
    st.sampled_from(_SUFFIXES),
)
_pieces = st.sampled_from(
    [
        *("def f(): pass", "func f() {}", "function f() {}", "class A {", "int f() { return 1; }", "}", "fn f() {}"),
        *(
            "def f",
            "end",
            "<?php",
            "# A",
            "## A: b",
            "====",
            "---",
            "```",
            "text",
            "\r\n",
            "\r",
            "\n",
            "\n\n",
            "\u2028",
        ),
        *("/** doc */", "@d", "\x0c", "\ud800", "é", "template <class T>", "namespace a::b {", "if x:", "    "),
    ]
)
_texts = st.lists(_pieces, max_size=20).map(lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass"))


@given(st.dictionaries(_names, _texts | st.binary(max_size=60), min_size=1, max_size=4))
@example({"a.md": b"# A\n# A\n"})
@settings(deadline=None)
def test_a_catalog_of_any_files_is_a_request_that_is_accepted(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root: Path = tmp_path_factory.mktemp("any")
    for name, content in files.items():
        (root / name).write_bytes(content)
    (root / "0.py").write_text("def f(): pass")  # there is always something to take
    catalog = build_from_directory(root)
    read = {location.path for location in catalog.locations.values()}
    assert len(read) + sum(catalog.left_out.values()) >= len({*files, "0.py"})
    assert [*catalog.locations] == [document.id for document in catalog.documents]
    for document, location in zip(catalog.documents, catalog.locations.values(), strict=True):
        assert document.id.rsplit(":", 2)[1:] == [str(location.line), location.name]
        assert document.text.strip()
    request = Request(catalog.snapshot_id, "q", list(catalog.documents))
    decode_request(msgspec.json.encode(request), Limits(), identifier_hints=False)


@given(st.sampled_from(_SUFFIXES[:-1]), _texts | st.binary(max_size=60))
def test_a_file_has_parts_or_a_reason(suffix: str, content: bytes) -> None:
    kind = kind_of(f"a.{suffix}")
    assert kind is not None
    for parts in (parts_of(content, kind, f"a.{suffix}"), python_functions_of(content)):
        assert parts
        for part in parts:
            assert isinstance(part, Reason) or (part.line > 0 and part.name and part.text.encode())
