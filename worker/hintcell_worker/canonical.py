"""Canonical JSON: the one byte form in which the protocol writes and hashes values.

Covers strings (which characters are escaped, and how) and numbers (ECMAScript's choice between plain and
exponent notation). Keys keep the order of their struct. Does not cover reading JSON.
"""

from collections.abc import Iterator, Sequence

import msgspec

# Escaped everywhere, so that a response can stand inside HTML or JavaScript. None of these bytes occurs in
# JSON outside a string, so replacing them in the whole encoded text touches strings only.
_HTML_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
)
# Looked for only where their first byte is: to find one byte is far cheaper than to find three.
_LINE_ESCAPES = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_LINE_FIRST_BYTE = b"\xe2"
_ENCODER = msgspec.json.Encoder()

# Values of a list that are encoded at once: few enough to stay in a processor's cache until they are used.
_VALUES_AT_ONCE = 64


def encode(value: object) -> bytes:
    """Canonical JSON of `value` without spaces. Floats must have been put through `number`."""
    encoded = _ENCODER.encode(value)
    for character, escape in _HTML_ESCAPES:
        encoded = encoded.replace(character, escape)
    if _LINE_FIRST_BYTE in encoded:
        for character, escape in _LINE_ESCAPES:
            encoded = encoded.replace(character, escape)
    return encoded


def encode_in_parts(values: Sequence[object]) -> Iterator[bytes | memoryview]:
    """What `encode` makes of a list of these values, in parts."""
    yield b"["
    for start in range(0, len(values), _VALUES_AT_ONCE):
        if start:
            yield b","
        yield memoryview(encode(values[start : start + _VALUES_AT_ONCE]))[1:-1]
    yield b"]"


def indent(encoded: bytes) -> bytes:
    """The same value as `encoded`, over several lines and indented by two spaces."""
    return msgspec.json.format(encoded, indent=2)


def number(value: float) -> msgspec.Raw:
    """The shortest digits that read back as `value`, ready to be encoded.

    Without exponent for 1e-6 <= |value| < 1e21, else with one and no padding; integers without a point
    (ECMA-262, Number::toString, save that the exponent's sign is kept: `1e+21`, `9.5e-7`).
    """
    return msgspec.Raw(_digits(value))


def numbers(values: Sequence[float]) -> msgspec.Raw:
    """A list of each value's `number`, ready to be encoded."""
    encoded = _ENCODER.encode(values)
    if b"e" in encoded:  # The encoder has rules of its own for when to use an exponent, and when it does they differ.
        return msgspec.Raw(_ENCODER.encode([number(value) for value in values]))
    # Shortest digits end in a zero after the point only if there are no others.
    return msgspec.Raw(encoded.replace(b".0,", b",").replace(b".0]", b"]"))


def _digits(value: float) -> str:
    shortest = repr(value)
    mantissa, _, exponent = shortest.partition("e")
    if not exponent:
        return shortest.removesuffix(".0")
    power = int(exponent)
    if power < -6 or power >= 21:
        return f"{mantissa.removesuffix('.0')}e{power:+d}"
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{whole}{fraction}"
    return f"{sign}{whole}{fraction.ljust(power, '0')}"
