"""Numbers in texts, as people and language models write them."""

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

_COMMAS, _THIN = (
    rf"\d{{1,3}}(?:[{between}]\d{{3}})+(?!\d)" for between in (",", "\u00a0\u2009\u202f")
)
# "125 500" is one number, "12 500 250" and "125 500 000" are one, "100 200 300" are three.
_BLANKS = (
    r"(?<!(?<!\d)\d )(?<!(?<!\d)\d\d )(?<!(?<!\d)\d{3} )"  # all of a row, or nothing
    r"(?:\d{1,2}(?: \d{3})+|\d{3} \d{3}|\d{3}(?: \d{3})+ 000)(?!\d)(?! \d)"
)
_WHOLE = rf"(?:{_COMMAS}|{_THIN}|{_BLANKS}|\d+)"
_PLAIN = rf"(?:{_WHOLE}(?:\.\d+)?|(?<![\d.])\.\d+)(?:[eE][-+]?\d{{1,3}}(?!\w))?"
NUMBER = rf"(?:(?<!/)(?:\d+ )?{_PLAIN} ?/ ?0*[1-9]\d*(?![\d/]|\.\d)|{_PLAIN})"
"""Regular expression of a number without its sign: digits, in groups of three or not, decimals, an
exponent; or two of them as a fraction, with a whole number before it or not."""
_CURRENCY = r"(?:Rs\.?|US|EUR|USD|GBP|JPY|CNY|INR|CHF|CAD|AUD)"
_UNIT = (
    rf"(?:(?<![\\A-Za-z])(?!{_CURRENCY}\d)[A-Za-z][A-Za-z_^]*|(?<=[A-Za-z\d)}}])[_^])"
    r"(?:\{[-+]?)?\d[\d.,]*"
)
"""Letters, or what raises, that digits follow at once: names, units, powers; no currencies."""
_FOUND = re.compile(rf"{_UNIT}|(?P<number>{NUMBER})")
_SIGN = re.compile(r"(?P<before>[A-Za-z0-9)\]}%]?)(?P<apart>\s*)-(?P<blank> ?)(?:\\?[$€£¥])?$")
_AS_PLAIN = (
    (re.compile("[\u2212\u2013\ufe63\uff0d]"), "-"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<=\d)\s*\\[dt]?frac(?![A-Za-z])"), r" \\frac"),
    (re.compile(r"\\[dt]?frac\s*\{\s*(-?[\d.,]+)\s*\}\s*\{\s*(\d+)\s*\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)"), r"\1/\2"),
)
"""Signs and spellings of LaTeX, and what they are replaced by."""
_REACH = 40
"""Characters before a number in which its sign is looked for."""


class Number(NamedTuple):
    """A number in a text."""

    text: str  # with a sign, and without separators of groups
    value: Fraction


def numbers_in(text: str) -> Iterator[Number]:
    r"""Yield the numbers of a text.

    A minus is a sign unless a letter or digit stands before it. Commas and blanks separate groups
    of three digits only; three or more groups of three digits each with ordinary blanks between
    them are numbers of their own, unless the last is 000. Digits that follow a letter are a part
    of a name or unit. The first number after a dash that begins a line is positive: the line is
    one of a list.

    >>> [number.text for number in numbers_in("From 10-12 m2, -$1,000.50 or \\frac{3}{4}: 9e3")]
    ['10', '12', '-1000.50', '3/4', '9e3']
    """
    for pattern, plain in _AS_PLAIN:
        text = pattern.sub(plain, text)
    for found in _FOUND.finditer(text):
        if found["number"] is not None:
            sign = _is_negative(text[max(found.start() - _REACH, 0) : found.start()])
            yield _read(found["number"], sign)


def _is_negative(before: str) -> bool:
    """Return whether what stands before a number is a sign."""
    found = _SIGN.search(before)
    if found is None:
        return False
    if found["before"]:  # a range or difference, but "is -5"
        return bool(found["apart"]) and not found["blank"]
    return not (found["blank"] and "\n" in found["apart"])


def _read(text: str, negative: bool) -> Number:
    """Return a number without its sign as it counts."""
    *whole, number = re.split(r"(?<=\d) (?=\d+ ?/)", text, maxsplit=1) if "/" in text else [text]
    above, _, below = number.partition("/")
    parts = [re.sub(r"[^\d.eE+-]", "", part) for part in (*whole, above, below) if part]
    # By way of decimals: whole numbers of thousands of digits are not read from texts.
    *first, top, bottom = map(Fraction, map(Decimal, [*parts, *([] if below else ["1"])]))
    value = sum(first, top / bottom)
    sign = "-" if negative else ""
    shown = " ".join([*parts[: len(whole)], "/".join(parts[len(whole) :])])
    return Number(f"{sign}{shown}", -value if negative else value)
