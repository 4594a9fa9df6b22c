"""Durations: given as ``timedelta`` or as text ("5 minutes"), kept in whole milliseconds, the unit of event time."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from watersmeet.errors import TopologyError
from watersmeet.names import missing, public

Duration = timedelta | str
"""A length of time: ``timedelta(minutes=5)`` or ``"5 minutes"``."""

DAY_MS = 86_400_000
LONGEST_MS = 2**60 - 1
"""The longest duration, and the latest timestamp, in ms: what the sums of some of them leave in 64 bits."""
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
            return not_too_long(whole, what)
    elif isinstance(duration, str):
        parts = _PART.findall(duration)
        units = [_UNITS_MS.get(_singular(unit)) for _, unit in parts]
        if parts and None not in units and not _PART.sub("", duration).strip():
            whole = sum(int(number) * (unit or 0) for (number, _), unit in zip(parts, units, strict=True))
            return not_too_long(whole, what)
    raise TopologyError(
        f"The {what} must be a duration of whole milliseconds, not {duration!r:.80}.",
        hint="Give a timedelta or text: timedelta(minutes=5), '5 minutes', '250 ms', '30 days'.",
    )


def positive_ms(duration: Duration, option: str, what: str, hint: str) -> int:
    """The duration of an option in whole milliseconds, if it is more than zero.

    Parameters
    ----------
    option : the option that it was given as.
    what : what the option says, as `duration_ms` names it.
    hint : of the error for zero and less.
    """
    length = duration_ms(duration, what)
    if length < 1:
        raise TopologyError(f"{option} must be more than zero: {option}={duration!r:.80}.", hint=hint)
    return length


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit if unit == "ms" else unit.removesuffix("s")


class KafkaName(type):
    """Answers `JoinWindows.ofTimeDifferenceAndGrace` with its name here."""

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
        raise TopologyError(
            f"The {what} must be a whole number of ms, not {ms!r}.", hint=f"Give the duration to {made}."
        )
    if ms < 0:
        raise TopologyError(f"The {what} must not be negative: {ms} ms.", hint=f"Give 0 ms or more: {made}.")
    return not_too_long(int(ms), what)


def not_too_long(ms: int, what: str) -> int:
    """The length, if times with it added stay within 64 bits."""
    if abs(ms) > LONGEST_MS:
        raise TopologyError(
            f"The {what} is too long: {ms} ms; {LONGEST_MS} ms are allowed.",
            hint="wm.UnlimitedWindows() is the window that never ends.",
        )
    return ms


def positive(ms: Any, what: str, made: str) -> int:
    """The length, if it is more than zero; `made` as of `not_negative`."""
    if isinstance(ms, int) and not isinstance(ms, bool) and ms <= 0:
        raise TopologyError(f"The {what} must be more than zero: {ms} ms.", hint=f"Give a duration: {made}.")
    return not_negative(ms, what, made)
