"""The gallery's programs: found, run by the test driver, and compared with what they say of themselves.

Each program is a module with

* `topology()`: the topology,
* `INPUTS`: the records that are piped, (topic, key, value, timestamp in ms), with a list of headers as a fifth where
  the program reads them; a text alone moves the wall clock by so much ("10 seconds"),
* `EXPECTED`: for each output its records in order, (key, value, timestamp), with a list of headers where there are any,
* and, where there is something to tell, `STORES`: for each store the rows that it ends with, by key, and `DROPPED`: how
  many records were dropped, by (operator, reason).

Structs are dictionaries on both sides.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import Row, SparkSession

from watersmeet.testing.driver import TopologyTestDriver

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What a program has given.

    Parameters
    ----------
    records : of each output, as `EXPECTED` writes them.
    stores : of each store that the program names.
    dropped : how many records, by (operator, reason).
    runs_in : "process" or "spark".
    """

    records: dict[str, list[Any]]
    stores: dict[str, list[Any]]
    dropped: dict[tuple[str, str], int]
    runs_in: str


def names() -> list[str]:
    """The programs by subject and name, as in "windows.sessions_of_clicks"."""
    return sorted(f"{file.parent.name}.{file.stem}" for file in HERE.glob("*/*.py"))


def program(name: str) -> ModuleType:
    """The module of a program."""
    return importlib.import_module(f"examples.gallery.{name}")


def outcome(of: ModuleType, spark: SparkSession | None = None, *, one_by_one: bool = False) -> Outcome:
    """What a program gives.

    Parameters
    ----------
    of : the program.
    spark : the session that is to run it; without one it runs in this process.
    one_by_one : whether the outputs are read after each record.
    """
    with TopologyTestDriver(of.topology(), spark) as driver:
        records: dict[str, list[Any]] = {output: [] for output in of.EXPECTED}
        for given in of.INPUTS:
            _put(driver, given)
            if one_by_one:
                _read(driver, records)
        _read(driver, records)
        stores = (
            {name: [_row(each) for each in driver.get_store(name).all()] for name in getattr(of, "STORES", {})}
            if spark is None
            else {}
        )
        return Outcome(records, stores, dict(driver.drops), driver.runs_in)


def _put(driver: TopologyTestDriver, given: Any) -> None:
    if isinstance(given, str):
        driver.advance_wall_clock_time(given)
    else:
        topic, key, value, ts, *headers = given
        driver.pipe(topic, key, value, ts=ts, headers=headers[0] if headers else ())


def _read(driver: TopologyTestDriver, records: dict[str, list[Any]]) -> None:
    for output, found in records.items():
        for record in driver.read(output):
            read = (_plain(record.key), _plain(record.value), record.ts)
            found.append((*read, [tuple(each) for each in record.headers]) if record.headers else read)


def _row(row: Any) -> Any:
    return tuple(map(_plain, row))


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def title(of: ModuleType) -> str:
    """What the program does: the first sentence of its docstring."""
    return (of.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")


def source(of: ModuleType) -> str:
    """Which tutorial or example it corresponds to: the second paragraph."""
    return (of.__doc__ or "").strip().split("\n\n")[1].replace("\n", " ")
