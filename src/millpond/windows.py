"""Windows: how far apart in time two records may be and still belong together.

Vocabulary, frozen and checked when made; imported by the handles and the plan. Durations are given as
``timedelta`` or as text ("5 minutes") and kept in whole milliseconds, the unit of event time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
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
        f"The {what} is no duration of whole milliseconds.",
        given=repr(duration),
        hint='Give a timedelta or text: timedelta(minutes=5), "5 minutes", "250 ms".',
    )


def _singular(unit: str) -> str:
    unit = unit.lower()
    return unit if unit == "ms" else unit.removesuffix("s")


class _Named(type):
    """Tells whoever writes `JoinWindows.ofTimeDifferenceAndGrace` what it is called here."""

    if not TYPE_CHECKING:  # for a type checker a name that is not there is a mistake

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls.__name__, public(cls), name)


@dataclass(frozen=True)
class JoinWindows(metaclass=_Named):
    """Which records of two streams meet: right.ts in [left.ts - before, left.ts + after], both ends included.

    Made by `of_time_difference_and_grace` or `of_time_difference_with_no_grace`; `before` and `after` then
    change one end. Equality looks at the two ends and the grace.

    Parameters
    ----------
    before_ms, after_ms : how far the right record may lie before and after the left one; one may be negative.
    grace_ms : how long, after the window has passed, late partners are waited for.
    eager : made by the deprecated `of`: unmatched results of left and outer joins come at once.

    >>> JoinWindows.of_time_difference_and_grace("5 minutes", "1 minute").after("0 ms")
    JoinWindows(before_ms=300000, after_ms=0, grace_ms=60000, eager=False)
    """

    before_ms: int
    after_ms: int
    grace_ms: int
    eager: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                "The window ends before it begins.",
                given=f"before {self.before_ms} ms, after {self.after_ms} ms",
                hint="before + after must not be negative.",
            )
        _not_negative(self.grace_ms, "grace")

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> JoinWindows:
        """Records at most `time_difference` apart; partners may be late by `grace`."""
        difference = _not_negative(duration_ms(time_difference, "time difference"), "time difference")
        return cls(difference, difference, duration_ms(grace, "grace"))

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> JoinWindows:
        """Records at most `time_difference` apart; no partner is waited for once its window has passed."""
        return cls.of_time_difference_and_grace(time_difference, "0 ms")

    @classmethod
    def of(cls, time_difference: Duration) -> JoinWindows:
        """Deprecated, as in Kafka Streams: unmatched results come at once, a match may follow ("spurious").

        The grace is what is left of 24 hours, unless `grace` changes it.
        """
        difference = _not_negative(duration_ms(time_difference, "time difference"), "time difference")
        return cls(difference, difference, max(DAY_MS - 2 * difference, 0), eager=True)

    def before(self, time_difference: Duration) -> JoinWindows:
        """The same window with another beginning: right.ts at least left.ts - `time_difference`."""
        return replace(self, before_ms=duration_ms(time_difference, "time difference"))

    def after(self, time_difference: Duration) -> JoinWindows:
        """The same window with another end: right.ts at most left.ts + `time_difference`."""
        return replace(self, after_ms=duration_ms(time_difference, "time difference"))

    def grace(self, grace: Duration) -> JoinWindows:
        """Another grace, for windows made by the deprecated `of` only."""
        if not self.eager:
            raise TopologyError(
                "The grace of these windows is fixed when they are made.",
                given=repr(self),
                hint="Give it there: JoinWindows.of_time_difference_and_grace(difference, grace).",
            )
        return replace(self, grace_ms=duration_ms(grace, "grace"))

    @property
    def size_ms(self) -> int:
        """Length of the window without its grace."""
        return self.before_ms + self.after_ms


def _not_negative(ms: int, what: str) -> int:
    if ms < 0:
        raise TopologyError(f"The {what} must not be negative.", given=f"{ms} ms")
    return ms
