"""Names of stores: what a user gives and what the library makes up never meet (law 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proof.arrow import arrow_builder
from tests.engine.kit import PLUS, REF
from watersmeet.errors import TopologyError

JOINS: dict[str, Callable[[Any], Any]] = {
    "table_table": lambda b: b["l"].join(b["r"], PLUS, name="j"),
    "stream_table": lambda b: b["l"].to_stream().join(b["r"], PLUS, name="j"),
    "multi_join": lambda b: b["l"].multi_join([b["r"]], PLUS, name="j"),
    "foreign_key": lambda b: b["l"].join(b["r"], PLUS, foreign_key=REF, name="j"),
    "one_to_many": lambda b: b["l"].one_to_many_join(b["r"], PLUS, key=REF, name="j"),
    "global_lookup": lambda b: b["l"].to_stream().join(b["g"], PLUS, key=REF, name="j"),
    "global_table_lookup": lambda b: b["l"].left_join(b["g"], PLUS, foreign_key=REF, name="j"),
}


def handles(builder: Any, **stores: str) -> dict[str, Any]:
    """Two tables and a global one, with these stores."""
    given = {name: {"key": "string", "value": "string", "store": stores.get(name)} for name in "lrg"}
    made = {name: builder.table(name, **given[name]) for name in "lr"}
    return {**made, "g": builder.global_table("g", **given["g"])}


def made_up(join: Callable[[Any], Any]) -> list[str]:
    """The names of stores that the library makes up for the join."""
    builder = arrow_builder("test")
    join(handles(builder)).to("out")
    return [store for operator in builder.build().physical.operators for store in operator.stores if "." in store]


def test_a_table_cannot_take_the_place_of_the_other_side_of_its_join() -> None:
    # taken, both sides were kept in one place: the join gave the right side's values twice, or died
    builder = arrow_builder("test")
    left = builder.table("l", key="string", value="string", store="j.right")
    with pytest.raises(TopologyError, match=r"'j\.right'"):
        left.join(builder.table("r", key="string", value="string"), PLUS, name="j")


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_no_table_takes_a_name_that_the_library_makes_up_for_a_join(join: Callable[[Any], Any]) -> None:
    names = made_up(join)
    assert names
    for name in names:
        for table in "lrg":
            with pytest.raises(TopologyError, match="belongs to the join 'j'"):
                join(handles(arrow_builder("before"), **{table: name}))
        builder = arrow_builder("behind")
        join(handles(builder))
        with pytest.raises(TopologyError, match="belongs to the join 'j'"):
            builder.table("late", key="string", value="string", store=name)


def test_a_stores_name_may_have_dots_where_no_join_is_called_so() -> None:
    builder = arrow_builder("test")
    made = handles(builder, l="l.left", r="jj.right", g="j")
    JOINS["table_table"](made).to("out")
    assert "jj.right" in builder.build().describe()
