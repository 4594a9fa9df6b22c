"""TestRecord, TestInputTopic, TestOutputTopic: Kafka Streams' names for `TopologyTestDriver.pipe` and `read`.

Nothing is kept here but the time of the next record: every record goes through the driver's own two methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from watersmeet.errors import TopologyError
from watersmeet.hints import answering, answering_as, refusing

Header = tuple[str, bytes | None]
_MISSING: Any = object()


@answering_as(None)
@refusing("[...]", "loop", "len")
@dataclass(frozen=True)
class TestRecord:
    """One record of an output.

    Parameters
    ----------
    key, value : as Spark collects them (a struct is a Row).
    ts : event time in ms.
    headers : of the record that caused it; None where the topology keeps none.
    step : piping sequence number, within the case, of the record that caused it.
    position : its place in the order of all results, over all outputs.
    partition : the one that the output's partitioner gives it; None where there is no partitioner, or it gives none.
    """

    __test__ = False  # pytest is not to collect it

    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...] | None = None
    step: int = field(default=-1, compare=False)
    position: tuple[int | bytes, ...] = field(default=(), compare=False, repr=False)
    partition: int | None = field(default=None, repr=False)


class Driver(Protocol):
    """The driver, as its topics use it."""

    def pipe(
        self, input: str, key: Any, value: Any, *, ts: int, headers: Sequence[Header] = (), case: str = ""
    ) -> None:
        """Put one record behind those already piped."""
        ...

    def read(self, output: str, *, case: str = "", limit: int | None = None) -> list[TestRecord]:
        """The records that an output got since the last read, in order."""
        ...

    def queue_size(self, output: str, *, case: str = "") -> int:
        """How many records of an output have not been read yet."""
        ...


@answering
class TestInputTopic:
    """An input of a test driver; made by `TopologyTestDriver.create_input_topic`."""

    __test__ = False  # pytest is not to collect it

    def __init__(self, driver: Driver, name: str, case: str, ts: int, advance_ms: int) -> None:
        self._driver = driver
        self._name = name
        self._case = case
        self._ts = ts
        self._advance_ms = advance_ms

    def pipe_input(
        self,
        key: Any,
        value: Any = _MISSING,
        ts: int | None = None,
        *,
        headers: Sequence[Header] = (),
    ) -> None:
        """Pipe one record.

        Parameters
        ----------
        key, value : as `TopologyTestDriver.pipe` takes them. A single argument is the value, and the key is null;
            or it is a `TestRecord`, all of which is piped.
        ts : event time in ms; None: the topic's own time, which then advances.
        headers : (name, bytes or None) pairs.
        """
        if value is _MISSING and isinstance(key, TestRecord):
            record = key
            self._driver.pipe(
                self._name, record.key, record.value, ts=record.ts, headers=record.headers or (), case=self._case
            )
            return
        if value is _MISSING:
            key, value = None, key
        at = self._ts if ts is None else ts
        self._driver.pipe(self._name, key, value, ts=at, headers=headers, case=self._case)
        if ts is None:
            self._ts += self._advance_ms

    def pipe_value_list(self, values: Iterable[Any]) -> None:
        """Pipe values, each with a null key, at the topic's own time."""
        for value in values:
            self.pipe_input(None, value)

    def pipe_key_value_list(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Pipe (key, value) pairs at the topic's own time."""
        for key, value in pairs:
            self.pipe_input(key, value)


@answering
class TestOutputTopic:
    """An output of a test driver; made by `TopologyTestDriver.create_output_topic`."""

    __test__ = False

    def __init__(self, driver: Driver, name: str, case: str) -> None:
        self._driver = driver
        self._name = name
        self._case = case

    def read_record(self) -> TestRecord:
        """The next record.

        Raises
        ------
        TopologyError : there is none.
        """
        records = self._driver.read(self._name, case=self._case, limit=1)
        if not records:
            raise TopologyError(
                "The output has no further record.",
                given=repr(self._name),
                hint="is_empty() tells if it has one; read_records() returns all of them.",
            )
        return records[0]

    def read_value(self) -> Any:
        """The next record's value."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """The next record's (key, value)."""
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> list[TestRecord]:
        """All records that have not been read yet."""
        return self._driver.read(self._name, case=self._case)

    def read_values(self) -> list[Any]:
        """Their values."""
        return [record.value for record in self.read_records()]

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Their (key, value) pairs."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of each of their keys."""
        return dict(self.read_key_values())

    def is_empty(self) -> bool:
        """Whether all records have been read."""
        return self.queue_size() == 0

    def queue_size(self) -> int:
        """How many records have not been read yet."""
        return self._driver.queue_size(self._name, case=self._case)
