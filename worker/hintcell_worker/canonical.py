"""Canonical JSON: the one byte form in which the protocol writes and hashes values.

Covers strings (which characters are escaped, and how) and numbers (ECMAScript's choice between plain and
exponent notation). Keys keep the order of their struct. Does not cover reading JSON.
"""

import msgspec

# Escaped everywhere, so that a response can stand inside HTML or JavaScript. None of these bytes occurs in
# JSON outside a string, so replacing them in the whole encoded text touches strings only.
_HTML_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_ENCODER = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Canonical JSON of `value` without spaces. Floats must have been put through `number`."""
    encoded = _ENCODER.encode(value)
    for character, escape in _HTML_ESCAPES:
        encoded = encoded.replace(character, escape)
    return encoded


def indent(encoded: bytes) -> bytes:
    """The same value as `encoded`, over several lines and indented by two spaces."""
    return msgspec.json.format(encoded, indent=2)


def number(value: float) -> msgspec.Raw:
    """The shortest digits that read back as `value`, ready to be encoded.

    Without exponent for 1e-6 <= |value| < 1e21, else with one and no padding; integers without a point
    (ECMA-262, Number::toString, save that the exponent's sign is kept: `1e+21`, `9.5e-7`).
    """
    return msgspec.Raw(_digits(value))


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
