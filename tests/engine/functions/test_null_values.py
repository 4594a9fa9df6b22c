"""Null values of a stream: which functions get them."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver


@pytest.mark.parametrize("shards", [1, 3])
def test_the_mapper_of_values_gets_null_where_it_is_asked_to_and_the_key_stays(shards: int) -> None:
    builder = arrow_builder("nulls")
    stream = builder.stream("in", key="string", value="string")
    shown: Any = lambda value: pc.coalesce(value, "none")  # noqa: E731
    for output, options in (("kept", {}), ("mapped", {"nulls": True})):
        stream.map_values(shown, **options).to(output)
    stream.map(lambda key, value: (key, shown(value))).to("as-map")
    driver = EngineDriver(builder.build(), shards=shards)
    for ts, value in enumerate(("a", None, "b")):
        driver.pipe("in", "k", value, ts=ts)
    driver.run_batch()
    found = {output: [record.value for record in driver.read(output)] for output in ("kept", "mapped", "as-map")}
    assert found == {"kept": ["a", None, "b"], "mapped": ["a", "none", "b"], "as-map": ["a", "none", "b"]}
