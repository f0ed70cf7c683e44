"""Plain readings of DESIGN.md, to hold the worker's code against: one code point, one document, one place at a
time, with nothing but the standard library, and no thought of speed."""

import hashlib
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from unicodedata import category


def lower(text: str) -> str:
    """Every code point on its own, by the simple mapping: `str.lower` of one code point, save for U+0130."""
    return "".join("i" if character == "İ" else character.lower() for character in text)


def words(text: str) -> list[str]:
    """Maximal runs of letters and decimal digits after lower-casing."""
    found = [""]
    for character in lower(text):
        if category(character).startswith("L") or category(character) == "Nd":
            found[-1] += character
        else:
            found.append("")
    return [word for word in found if word]


def split_identifiers(text: str) -> str:
    """A space before Lu after Ll or Nd, and before Lu after Lu and before Ll."""
    kinds = ["", *map(category, text), ""]
    parts = []
    for character, before, kind, after in zip(text, kinds, kinds[1:], kinds[2:], strict=False):
        starts_a_part = kind == "Lu" and (before in ("Ll", "Nd") or (before == "Lu" and after == "Ll"))
        parts.append(f" {character}" if starts_a_part else character)
    return "".join(parts)


def bm25(query_words: Sequence[str], texts: Sequence[str], log: Callable[[float], float]) -> list[float]:
    """The formula as DESIGN.md prints it; the logarithm has tests of its own."""
    documents = [words(text) for text in texts]
    average = sum(map(len, documents)) / len(documents) or 1.0
    scores = []
    for document in documents:
        score = 0.0
        for word in sorted(set(query_words), key=str.encode):
            df = sum(word in other for other in documents)
            tf = document.count(word)
            idf = log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            score += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(document) / average))
        scores.append(score)
    return scores


def best_first(scores: Sequence[float]) -> list[int]:
    """Positions by falling score; equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda position: -scores[position])


def alternate(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Place by place, the next candidate not yet taken of the list whose turn it is, else of the other."""
    taken: list[Any] = []
    for place in range(len({*first, *second})):
        mine, other = (first, second) if place % 2 == 0 else (second, first)
        taken.append(next(candidate for candidate in [*mine, *other] if candidate not in taken))
    return taken


def number(value: float) -> str:
    """The shortest digits that read back as `value` >= 0, in the protocol's notation."""
    shortest = Decimal(repr(value))
    if value == 0 or 1e-6 <= value < 1e21:
        digits = f"{shortest:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    _, figures, exponent = shortest.normalize().as_tuple()
    first, rest = str(figures[0]), "".join(map(str, figures[1:]))
    return f"{first}{'.' if rest else ''}{rest}e{int(exponent) + len(rest):+d}"


def json_text(value: object, indent: int | None = None) -> str:
    """Canonical JSON of anything without floats."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def ranking_sha256(request: object, identifiers: bool, policy: str, order: list[int], scores: list[float]) -> str:
    """The digest of a ranking; `request` has its keys in the protocol's order."""
    line = (
        f'{{"Version":"riido-hints-page-v1","Request":{json_text(request)},"ModelHash":"",'
        f'"Identifiers":{json_text(identifiers)},"Policy":{json_text(policy)},"Order":{json_text(order)},'
        f'"Scores":[{",".join(map(number, scores))}]}}\n'
    )
    return hashlib.sha256(line.encode()).hexdigest()
