"""JoinWindows: how far apart in time two records may be and still belong together.

Vocabulary, frozen and checked when made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.errors import TopologyError
from watersmeet.names import answering
from watersmeet.windows.durations import DAY_MS, Duration, KafkaName, duration_ms, not_negative

_MADE = "JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute')"


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
        given: Any
        for given, what in ((self.before_ms, "before"), (self.after_ms, "after")):
            not_negative(abs(given) if isinstance(given, int) else given, what, _MADE)
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"The window ends before it begins: before {self.before_ms} ms, after {self.after_ms} ms.",
                hint="Give a longer before(...) or after(...): before + after must not be negative.",
            )
        not_negative(self.grace_ms, "grace", _MADE)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> JoinWindows:
        """Records at most `time_difference` apart; partners may be late by `grace`."""
        difference = not_negative(duration_ms(time_difference, "time difference"), "time difference", _MADE)
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
        difference = not_negative(duration_ms(time_difference, "time difference"), "time difference", _MADE)
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
