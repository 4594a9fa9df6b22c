"""The windows of aggregates: time (tumbling and hopping), sliding, session and unlimited windows.

Vocabulary, frozen and checked when made, with Kafka's checks and reasons. Lengths are whole milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from watersmeet.errors import TopologyError
from watersmeet.names import answering
from watersmeet.windows.calendar_windows import CalendarWindows
from watersmeet.windows.durations import Duration, KafkaName, duration_ms, not_negative, positive

_OF_SIZE = "TimeWindows.of_size_and_grace('1 hour', '5 minutes')"
_OF_DIFFERENCE = "SlidingWindows.of_time_difference_and_grace('1 hour', '5 minutes')"
_OF_GAP = "SessionWindows.of_inactivity_gap_and_grace('30 minutes', '5 minutes')"
_START = "start_on(datetime(2026, 1, 31)), or ms since 1970, 0 or more"


@answering
@dataclass(frozen=True)
class TimeWindows(metaclass=KafkaName):
    """Windows of one size that begin every `advance`, from 1970 on: tumbling, or hopping where they overlap.

    A window holds records with start <= ts < start + size (docs/semantics, section 13).

    Parameters
    ----------
    size_ms, advance_ms : length of a window, and how far apart two begin; ms.
    grace_ms : how long late records are taken after a window's end; ms.

    >>> TimeWindows.of_size_and_grace("5 minutes", "1 minute").advance_by("1 minute")
    TimeWindows(size_ms=300000, advance_ms=60000, grace_ms=60000)
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        positive(self.size_ms, "window size", _OF_SIZE)
        not_negative(self.grace_ms, "grace", _OF_SIZE)
        not_negative(self.advance_ms, "advance", "advance_by('1 minute')")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"The advance of windows must be more than zero and at most their size of {self.size_ms} ms: "
                f"{self.advance_ms} ms.",
                hint="Give at most the size: windows that leave gaps would lose records. Tumbling windows need no "
                "advance_by.",
            )

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Tumbling windows; records may be late by `grace`."""
        length = duration_ms(size, "window size")
        return cls(positive(length, "window size", _OF_SIZE), length, duration_ms(grace, "grace"))

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        """Tumbling windows; no record is taken once its window's end has passed."""
        return cls.of_size_and_grace(size, "0 ms")

    def advance_by(self, advance: Duration) -> TimeWindows:
        """The same windows, one beginning every `advance`: hopping."""
        return replace(self, advance_ms=duration_ms(advance, "advance"))


@answering
@dataclass(frozen=True)
class SlidingWindows(metaclass=KafkaName):
    """A window for each set of records at most `difference` apart, both ends included (KIP-450).

    Parameters
    ----------
    difference_ms : how far apart two records of a window may be; ms. Kafka Streams takes 0 when a topology is built
        and fails at the first record; here it is refused.
    grace_ms : how long late records are taken after a window's end; ms.
    """

    difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        positive(self.difference_ms, "time difference", _OF_DIFFERENCE)
        not_negative(self.grace_ms, "grace", _OF_DIFFERENCE)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> SlidingWindows:
        """Windows of records at most `time_difference` apart; records may be late by `grace`."""
        return cls(duration_ms(time_difference, "time difference"), duration_ms(grace, "grace"))

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> SlidingWindows:
        """The same; no record is taken once its window's end has passed."""
        return cls.of_time_difference_and_grace(time_difference, "0 ms")


@answering
@dataclass(frozen=True)
class SessionWindows(metaclass=KafkaName):
    """A window for each stretch of records without a gap of inactivity, both ends included (KIP-94).

    Parameters
    ----------
    gap_ms : records further apart than this belong to two sessions; ms.
    grace_ms : how long late records are taken after a session's end; ms.
    """

    gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        positive(self.gap_ms, "inactivity gap", _OF_GAP)
        not_negative(self.grace_ms, "grace", _OF_GAP)

    @classmethod
    def of_inactivity_gap_and_grace(cls, inactivity_gap: Duration, grace: Duration) -> SessionWindows:
        """Sessions that end after `inactivity_gap`; records may be late by `grace`."""
        return cls(duration_ms(inactivity_gap, "inactivity gap"), duration_ms(grace, "grace"))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap: Duration) -> SessionWindows:
        """The same; no record is taken once its session is closed."""
        return cls.of_inactivity_gap_and_grace(inactivity_gap, "0 ms")


@answering
@dataclass(frozen=True)
class UnlimitedWindows(metaclass=KafkaName):
    """One window that begins at a moment and never ends; records before it are in none.

    Parameters
    ----------
    start_ms : when it begins; ms since 1970.
    """

    start_ms: int = 0

    def __post_init__(self) -> None:
        not_negative(self.start_ms, "start", _START)

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """The window that begins in 1970."""
        return cls()

    def start_on(self, start: datetime | int) -> UnlimitedWindows:
        """The same window with another beginning: a datetime (UTC, where it has no time zone), or ms since 1970."""
        given: Any = start
        if isinstance(start, datetime):
            aware = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
            start = round(aware.timestamp() * 1_000)
        elif not isinstance(given, int) or isinstance(given, bool):
            raise TopologyError(f"start must be a datetime or a number of ms: start={start!r}.", hint=f"{_START}.")
        return replace(self, start_ms=start)


Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows | CalendarWindows
"""What `windowed_by` takes."""


@answering
@dataclass(frozen=True)
class EmitStrategy(metaclass=KafkaName):
    """When a windowed aggregate sends results (KIP-825): at each update, or once a window has closed."""

    on_close: bool

    def __post_init__(self) -> None:
        given: Any = self.on_close
        if not isinstance(given, bool):
            raise TopologyError(
                f"EmitStrategy is made by its methods, and not from {self.on_close!r}.",
                hint="EmitStrategy.on_window_close() or EmitStrategy.on_window_update().",
            )

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Each update gives a result: the default."""
        return cls(on_close=False)

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """One result, when window and grace have passed."""
        return cls(on_close=True)
