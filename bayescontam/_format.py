"""Numbers, probabilities and intervals as text, for the terminal and for pages."""

import math


def number(value: object, digits: int = 3) -> str:
    """Return a number with `digits` decimals and a true minus; "–" where there is none.

    >>> number(0.65678), number(-0.5, 2), number(float("nan")), number(-0.0001)
    ('0.657', '−0.50', '–', '0.000')
    """
    known = _float(value)
    if math.isnan(known):
        return "–"
    if math.isinf(known):
        return "∞" if known > 0 else "−∞"
    text = f"{known:,.{digits}f}"
    return text.lstrip("-") if not float(text.replace(",", "")) else text.replace("-", "−")


def raw(value: object) -> str:
    """Return a number as a script reads it, to sort by; empty where there is none.

    >>> raw(0.123456789), raw(-2), raw(float("nan")), raw(float("inf"))
    ('0.123457', '-2', '', 'Infinity')
    """
    known = _float(value)
    if math.isnan(known):
        return ""
    return f"{known:.6g}" if math.isfinite(known) else f"{'-' if known < 0 else ''}Infinity"


def probability(value: object) -> str:
    """Return a probability that never claims certainty.

    >>> probability(0.5), probability(1.0), probability(0.0)
    ('0.500', '> 0.999', '< 0.001')
    """
    known = _float(value)
    if known < 0.001:
        return "< 0.001"
    return "> 0.999" if known > 0.999 else number(known)


def percent(value: object) -> str:
    """Return a share as a percentage, in which none and all are exact.

    >>> percent(0.0517), percent(0.000312), percent(0.99996), percent(1.0), percent(1e-9)
    ('5.2 %', '0.03 %', '> 99.9 %', '100.0 %', '< 0.001 %')
    """
    known = _float(value)
    if 0 < known < 0.0005:
        return f"{100 * known:.1g} %" if known >= 0.00001 else "< 0.001 %"
    if 0.9995 <= known < 1:
        return "> 99.9 %"
    text = number(known * 100, 1)
    return text if text == "–" else f"{text} %"


def level_text(level: float) -> str:
    """Return the probability of intervals.

    >>> level_text(0.95), level_text(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * level:g} %"


def interval(low: object, high: object, digits: int = 3) -> str:
    """Return an interval; empty where it has no width, for constants, or is not known.

    >>> interval(0.5861, 0.6556), interval(-0.0001, 0.1), interval(0.0, 0.0)
    ('[0.586, 0.656]', '[−0.000, 0.100]', '')
    """
    if _float(low) == _float(high) or math.isnan(_float(low)):
        return ""
    return f"[{_bound(low, digits)}, {_bound(high, digits)}]"


def _bound(value: object, digits: int) -> str:
    """Keep the sign of what rounds to zero: it says whether the interval excludes zero."""
    text = number(value, digits)
    return f"−{text}" if _float(value) < 0 and not text.startswith("−") else text


def from_half(slope: object) -> float:
    """Return the accuracy that a slope in log-odds makes of one half.

    >>> from_half(0.0), round(from_half(2.0), 2)
    (0.5, 0.88)
    """
    return 0.5 * (1 + math.tanh(_float(slope) / 2))


def measured(value: object) -> str:
    """Return a value of a check: counts and large numbers whole, others to three or four decimals.

    >>> measured(0.0), measured(5482.238), measured(90.732), measured(1.00165), measured(0.4757)
    ('0', '5,482', '91', '1.0016', '0.476')
    """
    known = _float(value)
    if math.isfinite(known) and (known == int(known) or abs(known) >= 20):
        return number(known, 0)
    return number(known, 4 if 0.99 < abs(known) < 1.1 else 3)


def place(value: object) -> str:
    """Return a rank: whole, or with a half where models share one; "–" where there is none.

    >>> place(3.0), place(2.5), place(float("nan"))
    ('3', '2.5', '–')
    """
    known = _float(value)
    return "–" if math.isnan(known) else f"{known:g}"


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
