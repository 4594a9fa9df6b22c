"""The windows of aggregates: time (tumbling and hopping), sliding, session and unlimited windows.

Vocabulary, frozen and checked when made, with Kafka's checks and reasons. Lengths are whole milliseconds.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from watersmeet.errors import ConfigError, TopologyError, did_you_mean
from watersmeet.hints import answered, answering, missing_name, public

__all__ = [
    "DAY_MS",
    "BufferConfig",
    "CalendarWindows",
    "Duration",
    "EmitStrategy",
    "JoinWindows",
    "Previous",
    "SessionWindows",
    "SlidingWindows",
    "Suppressed",
    "TimeWindows",
    "UnlimitedWindows",
    "Windows",
    "check_seconds",
    "duration_ms",
    "previous",
]


# Durations: given as ``timedelta`` or as text ("5 minutes"), kept in whole milliseconds, the unit of event time.

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


def duration_ms(duration: Duration, subject: str = "duration") -> int:
    """A duration in whole milliseconds.

    Parameters
    ----------
    duration : a ``timedelta``, or text such as "5 minutes", "1 hour 30 seconds", "-250 ms".
    subject : its name in the error.

    >>> duration_ms("1 hour 30 seconds")
    3630000
    """
    if isinstance(duration, timedelta):
        milliseconds, remainder = divmod(duration, timedelta(milliseconds=1))
        if not remainder:
            return not_too_long(milliseconds, subject)
    elif isinstance(duration, str):
        parts = _PART.findall(duration)
        units = [_UNITS_MS.get(_singular(unit)) for _, unit in parts]
        if parts and None not in units and not _PART.sub("", duration).strip():
            milliseconds = sum(int(number) * (unit or 0) for (number, _), unit in zip(parts, units, strict=True))
            return not_too_long(milliseconds, subject)
    hint = "Give a timedelta or text: timedelta(minutes=5), '5 minutes', '250 ms', '30 days'."
    if subject == "window size" and re.search(r"\b(month|year)s?\b", str(duration).lower()):
        hint += f" Windows of the calendar: wm.CalendarWindows({duration!r:.40}, zone='Europe/Berlin')."
    raise TopologyError(f"The {subject} must be a duration of whole milliseconds, not {duration!r:.80}.", hint=hint)


def length_text(length_ms: int) -> str:
    """A length as `duration_ms` reads it.

    >>> length_text(3630000)
    '1 hour 30 seconds'
    >>> length_text(0)
    '0 ms'
    """
    parts, remainder = [], length_ms
    for unit in ("day", "hour", "minute", "second"):
        count, remainder = divmod(remainder, _UNITS_MS[unit])
        parts += [f"{count} {unit}{'s' * (count != 1)}"] * bool(count)
    return " ".join([*parts, *([f"{remainder} ms"] if remainder or not parts else [])])


def positive_ms(duration: Duration, option: str, subject: str, hint: str) -> int:
    """The duration of an option in whole milliseconds, if it is more than zero.

    Parameters
    ----------
    option : the option that it was given as.
    subject : what the option says, as `duration_ms` names it.
    hint : of the error for zero and less.
    """
    length = duration_ms(duration, subject)
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
            raise missing_name(cls.__name__, public(cls), name)


def not_negative(ms: Any, subject: str, example: str) -> int:
    """The length, if it is not negative.

    Parameters
    ----------
    example : the method that makes what the length is of, for the hint.
    """
    if not isinstance(ms, int) or isinstance(ms, bool):
        raise TopologyError(
            f"The {subject} must be a whole number of ms, not {ms!r}.", hint=f"Give the duration to {example}."
        )
    if ms < 0:
        raise TopologyError(f"The {subject} must not be negative: {ms} ms.", hint=f"Give 0 ms or more: {example}.")
    return not_too_long(int(ms), subject)


def not_too_long(ms: int, subject: str) -> int:
    """The length, if times with it added stay within 64 bits."""
    if abs(ms) > LONGEST_MS:
        raise TopologyError(
            f"The {subject} is too long: {ms} ms; {LONGEST_MS} ms are allowed.",
            hint="wm.UnlimitedWindows() is the window that never ends.",
        )
    return ms


def positive(ms: Any, subject: str, example: str) -> int:
    """The length, if it is more than zero; `example` as of `not_negative`."""
    if isinstance(ms, int) and not isinstance(ms, bool) and ms <= 0:
        raise TopologyError(f"The {subject} must be more than zero: {ms} ms.", hint=f"Give a duration: {example}.")
    return not_negative(ms, subject, example)


def check_seconds(timeout: object, call: str, *, required: bool = False) -> None:
    """Raise unless a timeout is a number of seconds, 0 or more.

    Parameters
    ----------
    timeout : as it was given.
    call : what waits.
    required : whether None is none.

    Raises
    ------
    ConfigError : it is none.
    """
    if timeout is None and not required:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise ConfigError(
            f"timeout= of {call} takes seconds, a number of 0 or more: timeout={timeout!r:.80}.", hint="timeout=2.5"
        )


# Windows by the calendar: days, weeks and months of a time zone.
#
# Vocabulary, frozen and checked when made.

_CALENDAR_WINDOWS_MADE = "CalendarWindows('1 day', zone='Europe/Berlin', offset='18 hours')"
_SHORTEST_DAYS = {"day": 1, "week": 7, "month": 28}
_LONGEST_DAYS = {"day": 1, "week": 7, "month": 31}
_LONGER_MS = DAY_MS // 2
"""How much longer a window may be for its zone's clocks: no zone has put its clocks back further at once since 1970."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@answering
@dataclass(frozen=True, init=False)
class CalendarWindows(metaclass=KafkaName):
    """A window for each day, week or month of a time zone, one behind the other.

    Where clocks are put forward or back a day has 23 or 25 hours (docs/semantics/windows.md).

    Parameters
    ----------
    period : "1 day", "1 week" or "1 month".
    zone : name of the time zone, as in the database of IANA: "Europe/Berlin".
    offset : when on its first day a window begins, by that day's clock, a duration ("18 hours"); less than the period.
    grace : how long late records are taken after a window's end, a duration.
    week_starts : of weeks, the first day.

    Raises
    ------
    TopologyError : no such period, zone or day, or the offset is not within the period.

    Examples
    --------
    From 18:00 to 18:00 in Berlin; a record may come an hour late:

    >>> CalendarWindows("1 day", zone="Europe/Berlin", offset="18 hours", grace="1 hour")
    CalendarWindows(period='day', zone='Europe/Berlin', offset_ms=64800000, grace_ms=3600000, week_starts='Monday')
    """

    period: str
    zone: str
    offset_ms: int
    grace_ms: int
    week_starts: str

    def __init__(
        self,
        period: str,
        *,
        zone: str = "UTC",
        offset: Duration = "0 ms",
        grace: Duration = "0 ms",
        week_starts: str = "Monday",
    ) -> None:
        fields = {
            "period": _period(period),
            "zone": _zone(zone),
            "offset_ms": not_negative(duration_ms(offset, "offset"), "offset", _CALENDAR_WINDOWS_MADE),
            "grace_ms": not_negative(duration_ms(grace, "grace"), "grace", _CALENDAR_WINDOWS_MADE),
            "week_starts": week_starts,
        }
        vars(self).update(fields)
        if self.offset_ms >= _SHORTEST_DAYS[self.period] * DAY_MS:
            raise TopologyError(
                f"offset must be shorter than one {self.period}: offset={offset!r:.80}.",
                hint=f"Give less than {_SHORTEST_DAYS[self.period]} days: {_CALENDAR_WINDOWS_MADE}.",
            )
        if week_starts not in WEEKDAYS:
            raise TopologyError(f"Unknown week_starts={week_starts!r:.80}.", hint=f"Take one of {', '.join(WEEKDAYS)}.")
        if self.period != "week" and week_starts != "Monday":
            raise TopologyError(
                f"week_starts={week_starts!r} is for weeks only, and period={period!r}.",
                hint="CalendarWindows('1 week', week_starts='Sunday').",
            )

    @property
    def longest_ms(self) -> int:
        """No window is longer, in ms."""
        return _LONGEST_DAYS[self.period] * DAY_MS + _LONGER_MS


def _period(text: Any) -> str:
    period = text.strip().removeprefix("1 ").lower() if isinstance(text, str) else None
    if period not in _SHORTEST_DAYS:
        raise TopologyError(
            f"Unknown period {text!r:.80}.",
            hint="Take '1 day', '1 week' or '1 month'; windows of other lengths are wm.TimeWindows.",
        )
    return period


def _zone(name: Any) -> str:
    try:
        return zoneinfo.ZoneInfo(name).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
        zones = sorted(zoneinfo.available_timezones())
        usual = "A name of the IANA database: zone='Europe/Berlin'."
        hint = did_you_mean(str(name).replace(" ", "_"), zones, usual, form="zone={!r}".format)
        raise TopologyError(f"Unknown time zone: zone={name!r:.80}.", hint=hint) from None


_OF_SIZE = "TimeWindows.of_size_and_grace('1 hour', '5 minutes')"
_OF_DIFFERENCE = "SlidingWindows.of_time_difference_and_grace('1 hour', '5 minutes')"
_OF_GAP = "SessionWindows.of_inactivity_gap_and_grace('30 minutes', '5 minutes')"
_START = "start_on(datetime(2026, 1, 31)), or ms since 1970, 0 or more"


@answering
@dataclass(frozen=True)
class TimeWindows(metaclass=KafkaName):
    """Windows of one size that begin every `advance`, from 1970 on: tumbling, or hopping where they overlap.

    A window holds records with start <= ts < start + size (docs/semantics/windows.md).

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
        moment: Any = start
        if isinstance(start, datetime):
            aware = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
            start = round(aware.timestamp() * 1_000)
        elif not isinstance(moment, int) or isinstance(moment, bool):
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
        on_close: Any = self.on_close
        if not isinstance(on_close, bool):
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


# Suppressed: which changes of a table are held back, for how long, and in how large a buffer (KIP-328).
#
# Vocabulary, frozen and checked when made.

WhenFull = Literal["emit", "shut down", "grow"]


@answering
@dataclass(frozen=True)
class BufferConfig(metaclass=KafkaName):
    """How much is held back at most, and what happens then.

    Parameters
    ----------
    most_records, most_bytes : limits of each partition's buffer; None: without.
    when_full : "emit" sends the oldest entries early, "shut down" stops the query; "grow": there is no limit.
    """

    most_records: int | None = None
    most_bytes: int | None = None
    when_full: WhenFull = "emit"

    def __post_init__(self) -> None:
        limit: Any
        for limit, unit in ((self.most_records, "records"), (self.most_bytes, "bytes")):
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
                raise TopologyError(
                    f"A buffer's limit of {unit} must be a whole number of 0 or more, not {limit!r}.",
                    hint="BufferConfig.max_records(1000), BufferConfig.max_bytes(64_000_000), or without a limit "
                    "BufferConfig.unbounded().",
                )
        if self.when_full not in get_args(WhenFull):
            raise TopologyError(
                f"Unknown when_full={self.when_full!r}.",
                hint="Take 'emit', 'shut down' or 'grow'; or emit_early_when_full(), shut_down_when_full().",
            )

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """As much as there is."""
        return cls(when_full="grow")

    @classmethod
    def max_records(cls, limit: int) -> BufferConfig:
        """At most so many records, then the oldest are sent early."""
        return cls(most_records=limit)

    @classmethod
    def max_bytes(cls, limit: int) -> BufferConfig:
        """At most so many bytes, then the oldest records are sent early."""
        return cls(most_bytes=limit)

    def with_max_records(self, limit: int) -> BufferConfig:
        """The same with a limit of records, too."""
        return replace(self, most_records=limit, when_full="emit" if self.when_full == "grow" else self.when_full)

    def with_max_bytes(self, limit: int) -> BufferConfig:
        """The same with a limit of bytes, too."""
        return replace(self, most_bytes=limit, when_full="emit" if self.when_full == "grow" else self.when_full)

    def with_no_bound(self) -> BufferConfig:
        """The same without a limit."""
        return BufferConfig.unbounded()

    def emit_early_when_full(self) -> BufferConfig:
        """The same; where it is full, the oldest are sent early."""
        return replace(self, when_full="emit")

    def shut_down_when_full(self) -> BufferConfig:
        """The same; where it is full, the query stops."""
        return replace(self, when_full="shut down")

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.when_full != "grow" and (self.most_records is not None or self.most_bytes is not None)

    @property
    def is_strict(self) -> bool:
        """Whether nothing is sent early."""
        return self.when_full != "emit"


@answering
@dataclass(frozen=True)
class Suppressed(metaclass=KafkaName):
    """What `KTable.suppress` holds back.

    Parameters
    ----------
    limit_ms : how long after the first change of a key that is held back; None: until its window closes.
    buffer : how much is held back at most.
    """

    limit_ms: int | None
    buffer: BufferConfig

    def __post_init__(self) -> None:
        if self.limit_ms is not None:
            not_negative(self.limit_ms, "time limit", "Suppressed.until_time_limit('1 hour', buffer)")
        _check_buffer(self.buffer)

    @classmethod
    def until_time_limit(cls, limit: Duration, buffer: BufferConfig) -> Suppressed:
        """Changes are held back for `limit` of stream time; of a key the last one is sent."""
        return cls(duration_ms(limit, "time limit"), buffer)

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig) -> Suppressed:
        """Of each window one result is sent, when window and grace have passed; of a windowed table only.

        Raises
        ------
        TopologyError : the buffer would send results early, which then are not the last ones.
        """
        _check_buffer(buffer)
        if not buffer.is_strict:
            raise TopologyError(
                f"A buffer that sends records early cannot hold final results back: {_buffer_text(buffer)}.",
                hint="Take BufferConfig.unbounded(), or shut_down_when_full() of the buffer.",
            )
        return cls(None, buffer)


def _check_buffer(buffer: Any) -> None:
    if isinstance(buffer, BufferConfig):
        return
    limit = f"BufferConfig.max_records({buffer})" if type(buffer) is int else "BufferConfig.max_records(1000)"
    raise TopologyError(
        f"buffer takes a BufferConfig, and not {buffer!r:.80}.", hint=f"Take BufferConfig.unbounded(), or {limit}."
    )


def _buffer_text(buffer: BufferConfig) -> str:
    if buffer.most_bytes is not None:
        return f"BufferConfig.max_bytes({buffer.most_bytes})"
    return f"BufferConfig.max_records({buffer.most_records})"


# JoinWindows: how far apart in time two records may be and still belong together.
#
# Vocabulary, frozen and checked when made.

_JOIN_WINDOWS_MADE = "JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute')"


@answering
@dataclass(frozen=True)
class JoinWindows(metaclass=KafkaName):
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
        bound: Any
        for bound, side in ((self.before_ms, "before"), (self.after_ms, "after")):
            not_negative(abs(bound) if isinstance(bound, int) else bound, side, _JOIN_WINDOWS_MADE)
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"The window ends before it begins: before {self.before_ms} ms, after {self.after_ms} ms.",
                hint="Give a longer before(...) or after(...): before + after must not be negative.",
            )
        not_negative(self.grace_ms, "grace", _JOIN_WINDOWS_MADE)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> JoinWindows:
        """Records at most `time_difference` apart; partners may be late by `grace`."""
        difference = not_negative(
            duration_ms(time_difference, "time difference"), "time difference", _JOIN_WINDOWS_MADE
        )
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
        difference = not_negative(
            duration_ms(time_difference, "time difference"), "time difference", _JOIN_WINDOWS_MADE
        )
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
                f"The grace of windows is fixed when they are made: {self!r}.",
                hint="Give it then: JoinWindows.of_time_difference_and_grace(difference, grace).",
            )
        return replace(self, grace_ms=duration_ms(grace, "grace"))

    @property
    def size_ms(self) -> int:
        """Length of the window without its grace."""
        return self.before_ms + self.after_ms


# Shifts: which window of the right side meets a window of the left one, where these are not the same.
#
# Vocabulary, frozen and checked when made.


@dataclass(frozen=True)
class Previous:
    """The window that lies `count` sizes earlier (tumbling), or `count` advances (hopping)."""

    count: int

    def __post_init__(self) -> None:
        count: Any = self.count
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise TopologyError(
                f"previous(count): count must be at least 1, and is {self.count!r}.",
                hint="previous(1) is the window before.",
            )


@answered
def previous(count: int) -> Previous:
    """The window that lies `count` windows earlier, as the shift of a join of tables by key and window.

    Parameters
    ----------
    count : how many sizes (tumbling windows), advances (hopping windows) or periods (calendar windows) earlier; at
        least 1.

    >>> previous(7)
    Previous(count=7)
    """
    return Previous(count)
