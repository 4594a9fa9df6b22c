"""What a start refuses, or warns of, before anything runs: errors of millpond with hints, none of the JVM's."""

from __future__ import annotations

from typing import Any

import pytest

import millpond as mp
from millpond._spark.batch_writer import warn_of_replays
from millpond._spark.start_options import StartOptions


@pytest.mark.parametrize("trigger", ["nonsense", "1 fortnight", 5, "-1 second"])
def test_a_trigger_that_is_no_duration_is_refused(trigger: Any) -> None:
    with pytest.raises(mp.MillpondError, match=r"Given: (.|\n)*Hint: "):
        StartOptions(trigger=trigger)
    assert StartOptions(trigger="1 minute").trigger_options == {"processingTime": "60000 milliseconds"}


def test_a_format_that_may_write_a_replayed_batch_twice_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"written twice by the format 'jdbc'(.|\n)*Hint: take mp.ForeachBatch"):
        warn_of_replays(mp.Writer("jdbc", url="u"), alone=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["parquet", "delta", "memory", "console", "noop", "json"])
def test_a_format_that_holds_a_replayed_batch_once_is_not_warned_of(kind: str) -> None:
    warn_of_replays(mp.Writer(kind, path="p"), alone=False)
    warn_of_replays(mp.Writer("iceberg", path="p"), alone=True)
