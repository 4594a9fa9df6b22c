"""Which joins read the table of another one, and which have their own, from the plan alone."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from proof.arrow import arrow_builder
from watersmeet._plan.physical import Physical, StoreReader, with_recorded_stores, with_stores


def plus(left: Any, right: Any) -> Any:
    return pc.binary_join_element_wise(left, right, "+")


class Plan:
    """A topology of joins: `stream` and `table` are inputs."""

    def __init__(self) -> None:
        self.builder = arrow_builder("sharing")
        self.stream = self.builder.stream("stream", key="string", value="string", name="stream")
        self.table = self.builder.table("table", key="string", value="string", name="table")

    def physical(self, *joined: Any) -> Physical:
        for number, each in enumerate(joined):
            each.to(f"out{number}")
        return self.builder.build().physical


def owners(physical: Physical) -> dict[str, str]:
    """The name of the owner of the store that each reader reads."""
    nodes = [operator.node for operator in physical.operators]
    return {nodes[reader]: nodes[physical.host(reader)] for reader in physical.readers}


def test_joins_of_one_level_have_the_table_of_the_first_one() -> None:
    plan = Plan()
    other = plan.builder.stream("other", key="string", value="string", name="other")
    physical = plan.physical(
        plan.stream.join(plan.table, plus, name="a"),
        other.left_join(plan.table, plus, name="b"),
        plan.stream.filter(lambda k, v: pc.is_valid(v)).join(plan.table, plus, name="c"),
    )
    assert owners(physical) == {"b": "a", "c": "a"}
    assert [store.owner for store in physical.stores] == [0]
    assert [operator.stores for operator in physical.operators] == [("a.right",), ("b.right",), ("c.right",)]


def test_the_rows_of_a_store_are_routed_once_and_those_of_its_readers_to_its_owner() -> None:
    plan = Plan()
    physical = plan.physical(*(plan.stream.join(plan.table, plus, name=name) for name in ("a", "b")))
    sides = [(physical.operators[edge.target].node, edge.side) for edge in physical.stage_edges(0)]
    assert sorted(sides) == [("a", 0), ("a", 1), ("b", 0)]
    (store,) = physical.stores
    assert (store.schema.name, store.owner) == ("a.right", 0)
    assert store.readers == (StoreReader(1, "b.right", side=1, slot=0, shift=2),)
    assert (physical.host(1), physical.host(0)) == (0, 0)
    assert physical.stores_of(1) == (("b.right", store),)


def test_joins_of_other_levels_have_their_own_table() -> None:
    plan = Plan()
    first = plan.stream.join(plan.table, plus, name="a")
    assert owners(plan.physical(first, first.join(plan.table, plus, name="b"))) == {}


def test_joins_of_other_tables_or_of_other_rows_of_one_have_their_own() -> None:
    plan = Plan()
    some = plan.table.filter(lambda k, v: pc.is_valid(v), name="some")
    again = plan.builder.table("again", key="string", value="string", name="again")
    joins = [plan.stream.join(each, plus, name=name) for each, name in ((plan.table, "a"), (some, "b"), (again, "c"))]
    assert owners(plan.physical(*joins, plan.stream.join(some, plus, name="d"))) == {"d": "b"}


def test_a_join_whose_stream_is_moved_by_the_tables_records_shares_with_such_joins_alone() -> None:
    plan = Plan()
    other = plan.builder.stream("other", key="string", value="string", name="other")
    latest = plan.stream.to_table(name="latest")
    joins = [(other, "a"), (plan.stream, "b"), (other, "c"), (plan.stream.map_values(lambda v: v), "d")]
    assert owners(plan.physical(*(s.join(latest, plus, name=name) for s, name in joins))) == {"c": "a", "d": "b"}


def test_joins_of_a_versioned_table_and_joins_of_tables_have_their_own() -> None:
    plan = Plan()
    past = plan.builder.table("past", key="string", value="string", name="past", history="1 hour", store="past")
    joins = [plan.stream.join(past, plus, name=name) for name in ("a", "b")]
    left = plan.builder.table("left", key="string", value="string", name="left")
    tables = [left.join(plan.table, plus, name=name).to_stream(name=f"{name} told") for name in ("c", "d")]
    assert owners(plan.physical(*joins, *tables)) == {}


def test_tables_that_lie_apart_stay_apart() -> None:
    plan = Plan()
    physical = plan.physical(*(plan.stream.join(plan.table, plus, name=name) for name in "abc"))
    apart = {"a": {"a.right": [1, 2]}, "b": {"b.right": [3, 4]}, "c": {"c.right": [3, 4]}}
    assert owners(with_recorded_stores(physical, apart)) == {"c": "b"}
    assert with_recorded_stores(physical, {name: {f"{name}.right": [1, 2]} for name in "abc"}) == physical
    assert owners(with_stores(physical, {(name, f"{name}.right"): name for name in "abc"})) == {}
