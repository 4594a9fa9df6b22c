"""The same joins in plain pandas, and the comparison: what the query wrote must be exactly this.

Independent of watersmeet and of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from demo.inputs import Inputs

DEPARTURE = ["flight", "carrier", "origin", "dest", "scheduled", "tailnum", "departed", "delay"]
PLANE = ["manufacturer", "model", "year", "seats"]
FLOWN = ["flight", "origin", "dest", "departed", "delay", *PLANE]
FLIGHT = ["airline", "flight", "origin", "dest", "tailnum", "departed", "delay", *PLANE]


def expected_departures(inputs: Inputs) -> pd.DataFrame:
    """Every flight, with its departure where it had one."""
    return inputs.schedule.merge(inputs.actual, on="flight", how="left", validate="1:1")[DEPARTURE]


def expected_by_plane(inputs: Inputs) -> pd.DataFrame:
    """Every departure whose plane is known, with that plane."""
    return expected_departures(inputs).merge(inputs.planes, on="tailnum", validate="m:1")[["tailnum", *FLOWN]]


def expected_flights(inputs: Inputs) -> pd.DataFrame:
    """Every flight with its airline's name, and with its plane where that is known."""
    airlines = inputs.airlines.rename(columns={"name": "airline"})
    named = expected_departures(inputs).merge(airlines, on="carrier", how="left", validate="m:1")
    return named.merge(inputs.planes, on="tailnum", how="left", validate="m:1")[FLIGHT]


def final_rows(changes: pd.DataFrame) -> pd.DataFrame:
    """The table of flights that changes leave: the last of each key, unless it deletes."""
    table = changes.drop_duplicates("key", keep="last")
    return table[table["flight"].notna()]


def differences(inputs: Inputs, outputs: Mapping[str, pd.DataFrame], dropped: int) -> dict[str, list[str]]:
    """What was checked, each with the differences that were found: none, if all is well.

    Parameters
    ----------
    outputs : of each output all records: key, and the fields of its value (null in all of them: deleted), each
        key's in order.
    dropped : how many records of departures had no plane, as the query counted them.
    """
    departures = outputs["departures"]
    flown = outputs["flights-by-plane"].rename(columns={"key": "tailnum"})
    without_plane = int(departures["tailnum"].isna().sum())
    count = [] if dropped == without_plane else [f"{dropped:,} counted, {without_plane:,} written"]
    return {
        "the final table of departures is the merge that pandas makes": _unequal_tables(
            departures, expected_departures(inputs)
        ),
        "the flights by plane are the merge that pandas makes, each once": _unequal(
            flown[["tailnum", *FLOWN]], expected_by_plane(inputs)
        ),
        "the records dropped are those without a plane": count,
        "the final table of flights with airlines and planes is the merge that pandas makes": _unequal_tables(
            outputs["flights"], expected_flights(inputs)
        ),
    }


def _unequal_tables(changes: pd.DataFrame, wanted: pd.DataFrame) -> list[str]:
    table = final_rows(changes)
    wrong_key = int((table["key"] != table["flight"]).sum())
    found = [f"{wrong_key:,} flights under another's key"] if wrong_key else []
    return found + _unequal(table[list(wanted)], wanted)


def _unequal(got: pd.DataFrame, wanted: pd.DataFrame) -> list[str]:
    got, wanted = _plain(got), _plain(wanted)
    if got.equals(wanted):
        return []
    both = got.merge(wanted, how="outer", indicator=True)
    extra, missing = (both[both["_merge"] == side] for side in ("left_only", "right_only"))
    found = [f"{len(got):,} rows, {len(wanted):,} by pandas"]
    for what, rows in (("only here", extra), ("only by pandas", missing)):
        if len(rows):
            found.append(f"{len(rows):,} {what}, such as {rows.iloc[0].drop('_merge').to_dict()}")
    return found if len(found) > 1 else [*found, "the same rows, some another number of times"]


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in one order, in types that are equal where the values are."""
    times = {name: "datetime64[us, UTC]" for name in frame if name in ("scheduled", "departed")}
    whole = {name: "Int64" for name in frame if name in ("delay", "year", "seats")}
    texts = {name: "string" for name in frame if name not in times and name not in whole}
    utc = frame.assign(**{name: pd.to_datetime(frame[name], utc=True) for name in times})
    typed = utc.astype({**times, **whole, **texts})
    return typed.sort_values(["flight"], kind="stable", ignore_index=True)
