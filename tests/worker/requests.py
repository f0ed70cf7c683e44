"""Requests to test with: one small valid one to change, and strategies for catalogs under each policy."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from hintcell_worker.conversation import Options
from hintcell_worker.protocol import (
    POLICY_BASELINE,
    POLICY_HINTS,
    POLICY_IDENTIFIERS,
    POLICY_IDENTIFIERS_OUT_OF_SCOPE,
    Limits,
)
from tests.worker import plain

# Latin, Greek with both small sigmas, Turkish, Cyrillic, CJK, Hangul (composed and not), Thai, Devanagari, Arabic,
# Hebrew, Georgian and Cherokee (whose cases are odd), Deseret, full width; title-case letters, modifier letters,
# mathematical letters and digits; Roman numerals, superscripts, fractions, marks, controls, format characters, spaces.
MIXED_CHARACTERS = (
    "abzABZ059_-.éÉßẞﬁΑΣσςΐİIıiЖжЙй東京カナﾊﾝー한글ᄒ\u1161กำไ๑๒हिन्दी१العرب١٢עברაᲐႠꭰᎠ𐐀𐐨Ａａ０"
    'ǅǈǋǲʰªº𝐀𝑎𝟘𝟙Ⅷⅷ²³¼\u0301\u0307\u20dd\x00\x1f\x7f\x85\u200d\ufeff \t\n\u00a0\u2028<>&"\\'
)
_PIECES = (
    "parse parseRequest ParseHTTPRequest HTTPServerID2 page2Token utf8 cursor CURSOR next_cursor Größe größe ΣΟΦΟΣ "
    "σοφος İstanbul istanbul 東京 한글 x² Ⅷ __init__ <html> a b c aB"
).split()

mixed_texts = st.text(st.sampled_from(MIXED_CHARACTERS), max_size=30)
_texts = st.lists(st.sampled_from(_PIECES), max_size=12).map(" ".join) | mixed_texts
_names = st.text(st.sampled_from(MIXED_CHARACTERS), min_size=1, max_size=8).filter(lambda name: not name.isspace())
_queries = _texts.filter(lambda query: bool(plain.words(query)))
_queries_without_words = st.text(st.sampled_from("?!_²Ⅷ\u0301"), min_size=1, max_size=4)

POLICIES = (POLICY_BASELINE, POLICY_IDENTIFIERS, POLICY_HINTS, POLICY_IDENTIFIERS_OUT_OF_SCOPE)


class Ask(NamedTuple):
    """A request, and the options that put it under a certain policy."""

    request: dict[str, Any]
    options: Options


def small_request(**changes: object) -> dict[str, Any]:
    """A valid request of three documents, with these fields put in its place."""
    documents = [{"id": f"d{position}", "text": "parse the request " * position} for position in range(3)]
    return {"snapshot_id": "s1", "query": "parse", "documents": documents} | changes


def encode(request: object) -> bytes:
    """The request as it is sent, in one line and with its newline."""
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"


@st.composite
def asks(draw: st.DrawFn, policy: str) -> Ask:
    """Requests that are ranked under `policy`."""
    ids = draw(st.lists(_names, min_size=1, max_size=12, unique=True))
    documents = [{"id": name, "text": draw(_texts)} for name in ids]
    request: dict[str, Any] = {"snapshot_id": draw(_names), "query": draw(_queries), "documents": documents}
    if policy == POLICY_HINTS:
        hinted = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
        request["hints"] = {"snapshot_id": request["snapshot_id"], "query": request["query"], "candidate_ids": hinted}
    if policy == POLICY_IDENTIFIERS_OUT_OF_SCOPE:
        if draw(st.booleans()):
            request["query"] = draw(_queries_without_words)
        else:
            documents[0]["text"] += "aB"
            text_bytes = sum(len(document["text"].encode()) for document in documents)
            return Ask(request, Options(identifier_hints=True, limits=Limits(max_text_bytes=text_bytes)))
    return Ask(request, Options(identifier_hints=policy in (POLICY_IDENTIFIERS, POLICY_IDENTIFIERS_OUT_OF_SCOPE)))
