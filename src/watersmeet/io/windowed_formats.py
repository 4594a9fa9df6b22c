"""Formats of windowed keys, as Kafka Streams' serializers of them write them."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format, FormatName, WrappingFormat
from watersmeet.names import answered
from watersmeet.windows.durations import Duration, duration_ms

_SIZE_HINT = 'wm.time_windowed("long", size="5 minutes"): the size of the windows, which the bytes do not tell.'


@dataclass(frozen=True)
class WindowedFormat(WrappingFormat):
    """Keys of windows; see `time_windowed` and `session_windowed`.

    Parameters
    ----------
    kind : "time_windowed" or "session_windowed".
    inner : the format of the key within.
    size_ms : of time windows; None: not known, and not needed to write them.
    """

    size_ms: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.inner, WindowedFormat):
            what = "The key within a windowed key is not windowed itself."
            raise TopologyError(what, given=str(self), hint='wm.time_windowed("long", size="5 minutes")')
        if self.size_ms is not None and self.size_ms < 1:
            raise TopologyError(
                f"size must be 1 ms or more: size={self.size_ms} ms.", given=f"size={self.size_ms} ms", hint=_SIZE_HINT
            )

    @property
    def placed_by(self) -> Format | None:
        """As of each format: all windows of a key lie in one partition."""
        return self.inner

    @property
    def field(self) -> str | None:
        """As of each format."""
        return "key"

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        """As of each format."""
        if self.kind == "time_windowed" and self.size_ms is None:
            return "Keys of time windows are read with the windows' size", f"{self} without a size", _SIZE_HINT
        return super().unreadable

    def __str__(self) -> str:
        return f"{self.kind}({self.inner}{'' if self.size_ms is None else f', {self.size_ms} ms'})"


@answered
def time_windowed(key: Format | FormatName, size: Duration | None = None) -> Format:
    """The format of keys of time windows: the key's bytes, and the window's start as 8 bytes big-endian.

    So Kafka Streams' `TimeWindowedSerializer` writes them. Here they are structs of `key`, `start` and `end` (times in
    ms), as windowed aggregates have them. A sink places a record by the key within, as Kafka Streams does.

    Parameters
    ----------
    key : the format of the key within.
    size : of the windows, to read them; windows of another size are refused. A sink needs none.

    Examples
    --------
    >>> str(time_windowed("long", size="5 minutes"))
    'time_windowed(long, 300000 ms)'
    """
    size_ms = None if size is None else duration_ms(size, "size")
    return WindowedFormat("time_windowed", inner=Format.of(key), size_ms=size_ms)


@answered
def session_windowed(key: Format | FormatName) -> Format:
    """The format of keys of sessions: the key's bytes, the session's end, and its start, as 8 bytes big-endian each.

    So Kafka Streams' `SessionWindowedSerializer` writes them; else as `time_windowed`.

    Parameters
    ----------
    key : the format of the key within.

    Examples
    --------
    >>> str(session_windowed("string"))
    'session_windowed(string)'
    """
    return WindowedFormat("session_windowed", inner=Format.of(key))
