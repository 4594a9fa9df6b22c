"""A question to a table: a ticket of Arrow Flight, the query of an HTTP address, a call of the Python client.

All of them are this one value, and its JSON is the ticket that docs/serve.md describes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet._spark.serving.stores import from_json, to_json
from watersmeet.errors import ConfigError

LONGEST_WAIT = 60.0
"""Seconds that an answer may be waited for, at most."""
MOST_KEYS = 10_000
_ORDERED = ("from_", "to", "after", "limit")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class TableQuestion:
    """A question to a table; keys are as JSON has them in topics.

    Parameters
    ----------
    table : its name.
    keys : of these keys alone; None: of all.
    from_, to : of keys from one to another, both included, in order; None: without end.
    window : of windows that begin between two times, in ms, both included.
    as_of : of a versioned table, what was valid at this time, in ms; None: the latest.
    versions : of a versioned table, all versions.
    limit : rows at most, in order of the keys; None: all, in any order.
    after : key and window or version of the row behind which the answer begins: `next` of the answer before.
    at_least : wait for this batch, or a later one.
    batch : of just this batch, one of the last.
    timeout : seconds to wait at most.
    """

    table: str
    keys: tuple[Any, ...] | None = None
    from_: Any = None
    to: Any = None
    window: tuple[int, int] | None = None
    as_of: int | None = None
    versions: bool = False
    limit: int | None = None
    after: tuple[Any, ...] | None = None
    at_least: int | None = None
    batch: int | None = None
    timeout: float = 10.0

    def __post_init__(self) -> None:
        given = [name.strip("_") for name in _ORDERED if getattr(self, name) is not None]
        if self.keys is not None and given:
            raise ConfigError(
                f"keys={list(self.keys)!r:.80} cannot be given with {', '.join(given)}.",
                hint="Leave one of them out: a question has single keys, or a range of them.",
            )
        if self.versions and self.as_of is not None:
            raise ConfigError(
                f"versions=True cannot be given with as_of={self.as_of!r}: a time has one version.",
                hint="Leave one of them out.",
            )
        if self.at_least is not None and self.batch is not None:
            raise ConfigError(
                f"at_least={self.at_least} and batch={self.batch} cannot be given together: both name a batch.",
                hint="Leave one of them out.",
            )

    @property
    def is_ordered(self) -> bool:
        """Whether the answer's rows are in order of the keys."""
        return any(getattr(self, name) is not None for name in _ORDERED)

    @property
    def wait(self) -> float:
        """Seconds to wait at most."""
        return min(self.timeout, LONGEST_WAIT)

    def ticket(self) -> bytes:
        """The ticket's JSON, without what is left at its default."""
        said = {f.name.strip("_"): getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {f.name.strip("_"): f.default for f in dataclasses.fields(self)}
        if self.window is not None:
            said["window"] = {"from": self.window[0], "to": self.window[1]}
        return to_json({name: value for name, value in said.items() if value != plain[name]}).encode()


def read_of(ticket: bytes) -> TableQuestion:
    """The question of a ticket.

    Raises
    ------
    ConfigError : it is none.
    """
    said = said_by(ticket)
    if "key" in said:
        said["keys"] = [*said.get("keys", ()), said.pop("key")]
    given: dict[str, Any] = {}
    for name, value in said.items():
        known = _KNOWN.get(name)
        if known is None:
            raise _no_ticket(f"The option {name!r:.80}", f"Names are {', '.join(['key', *_KNOWN])}.")
        if value is not None:
            given["from_" if name == "from" else name] = known(name, value)
    if "table" not in given:
        raise _no_ticket(to_json(said)[:200], 'The table is missing: {"table": "open-orders"}.')
    return TableQuestion(**given)


def said_by(ticket: bytes) -> dict[str, Any]:
    """The object that a ticket is.

    Raises
    ------
    ConfigError : it is none.
    """
    try:
        said = from_json(ticket)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        shown = ticket[:200].decode("utf-8", "replace")
        raise _no_ticket(shown, 'A ticket is a JSON object: {"table": "open-orders", "key": 42}.')
    return said


def millis(name: str, value: Any) -> int:
    """A time in ms since 1970: as a number, or as ISO 8601, in UTC where it names no zone.

    Raises
    ------
    ConfigError : it is none.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        if re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        try:
            found = dt.datetime.fromisoformat(value)
        except ValueError:
            found = None
        if found is not None:
            aware = found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
            return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    raise _no_ticket(f"{name}={value!r}"[:200], "A time is ms since 1970, or ISO 8601.")


def whole(name: str, value: Any) -> int:
    """A number of a batch or of rows, as a number or as text.

    Raises
    ------
    ConfigError : it is none.
    """
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 62:
        raise _no_ticket(f"{name}={value!r}"[:200], "It is a whole number.")
    return value


def _limit(name: str, value: Any) -> int:
    found = whole(name, value)
    if found < 1:
        raise _no_ticket(f"{name}={found}", "It is 1 or more.")
    return found


def seconds(name: str, value: Any) -> float:
    """A time to wait.

    Raises
    ------
    ConfigError : it is none.
    """
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found < float("inf"):
        raise _no_ticket(f"{name}={value!r}"[:200], "It is a number of seconds.")
    return found


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _no_ticket(f"{name}={value!r}"[:200], "It is true or false.")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _no_ticket(f"{name}={value!r}"[:200], "It is text.")
    return value


def _keys(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_KEYS:
        raise _no_ticket(f"{name}={value!r}"[:200], f"It is a list, of {MOST_KEYS} at most.")
    return tuple(value)


def _window(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, Mapping) or not set(value) <= {"from", "to"}:
        raise _no_ticket(f"{name}={value!r}"[:200], 'It is an object: {"from": 0, "to": "2026-01-01T00:00:00Z"}.')
    low, high = value.get("from"), value.get("to")
    return (
        -(1 << 62) if low is None else millis("window.from", low),
        (1 << 62) if high is None else millis("window.to", high),
    )


def _any(name: str, value: Any) -> Any:
    return value


_KNOWN = {
    "table": _text,
    "keys": _keys,
    "from": _any,
    "to": _any,
    "window": _window,
    "as_of": millis,
    "versions": _flag,
    "limit": _limit,
    "after": _keys,
    "at_least": whole,
    "batch": whole,
    "timeout": seconds,
}


def _no_ticket(given: str, hint: str) -> ConfigError:
    return ConfigError(f"{given} cannot be asked of a table.", hint=hint)
