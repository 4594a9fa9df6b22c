"""Durations: given as ``timedelta`` or as text ("5 minutes"), kept in whole milliseconds, the unit of event time."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from millpond.errors import TopologyError
from millpond.names import missing, public

Duration = timedelta | str
"""A length of time: ``timedelta(minutes=5)`` or ``"5 minutes"``."""

DAY_MS = 86_400_000
_UNITS_MS = {
    "millisecond": 1,
    "ms": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
}
_PART = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*(?:,|and\b)?", re.IGNORECASE)


def duration_ms(duration: Duration, what: str = "duration") -> int:
    """A duration in whole milliseconds.

    Parameters
    ----------
    duration : a ``timedelta``, or text such as "5 minutes", "1 hour 30 seconds", "-250 ms".
    what : its name in the error.

    >>> duration_ms("1 hour 30 seconds")
    3630000
    """
    if isinstance(duration, timedelta):
        whole, rest = divmod(duration, timedelta(milliseconds=1))
        if not rest:
            return whole
    elif isinstance(duration, str):
        parts = _PART.findall(duration)
        units = [_UNITS_MS.get(_singular(unit)) for _, unit in parts]
        if parts and None not in units and not _PART.sub("", duration).strip():
            return sum(int(number) * (unit or 0) for (number, _), unit in zip(parts, units, strict=True))
    raise TopologyError(
        f"The {what} is no duration of whole milliseconds: {duration!r:.80}.",
        hint="Give a timedelta or text: timedelta(minutes=5), '5 minutes', '250 ms', '30 days'.",
    )


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit if unit == "ms" else unit.removesuffix("s")


class Named(type):
    """Tells whoever writes `JoinWindows.ofTimeDifferenceAndGrace` what it is called here."""

    if not TYPE_CHECKING:  # for a type checker a name that is not there is a mistake

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls.__name__, public(cls), name)


def not_negative(ms: Any, what: str, made: str) -> int:
    """The length, if it is not negative.

    Parameters
    ----------
    made : the method that makes what the length is of, for the hint.
    """
    if not isinstance(ms, int) or isinstance(ms, bool):
        raise TopologyError(f"The {what} is no whole number of ms: {ms!r}.", hint=f"Durations are given to {made}.")
    if ms < 0:
        raise TopologyError(f"The {what} must not be negative: {ms} ms.", hint=f"Give 0 ms or more: {made}.")
    return int(ms)


def positive(ms: Any, what: str, made: str) -> int:
    """The length, if it is more than zero; `made` as of `not_negative`."""
    if isinstance(ms, int) and not isinstance(ms, bool) and ms <= 0:
        raise TopologyError(f"The {what} must be more than zero: {ms} ms.", hint=f"Give a duration: {made}.")
    return not_negative(ms, what, made)
