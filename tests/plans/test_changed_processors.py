"""A processor that has changed beside the one that a checkpoint records: its stores go on by their names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.plans.test_changes import Build, change, outcomes
from watersmeet.processors import MapStore, StoreDeclaration, ValueStore


class Plain:
    """Does nothing."""

    def process(self, record: Any, context: Any) -> None:
        """One record."""


class Timed(Plain):
    """The same with timers."""

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """One timer."""


def processed(*stores: StoreDeclaration, kind: type = Plain, **options: Any) -> Build:
    def build(builder: Any) -> None:
        stream = builder.stream("in", key="string", value="string")
        stream.process_values(kind, value="string", stores=list(stores), name="p", **options).to("out")

    return build


A, B = ValueStore("a", "int"), MapStore("b", "string", "long")


def test_the_order_in_which_stores_are_given_and_the_class_make_no_difference() -> None:
    class Other(Plain):
        """Another class."""

    assert not change(processed(A, B), processed(B, A)).changed
    assert not change(processed(A, B), processed(A, B, kind=Other)).changed


def test_stores_and_timers_that_are_added_begin_empty_and_others_go_on() -> None:
    found = change(processed(B), processed(A, B, kind=Timed))
    assert found.possible
    assert outcomes(found, "store") == {"a": "started empty", "b": "kept", "p.timers": "started empty"}
    assert [(each.table, each.from_table) for each in found.continued] == [("b", "b")]


def test_stores_that_are_gone_are_dropped_and_others_go_on() -> None:
    found = change(processed(A, B, kind=Timed), processed(B))
    assert found.possible
    assert outcomes(found, "store") == {"a": "dropped", "b": "kept", "p.timers": "dropped"}


def test_two_stores_that_change_their_names_do_not_change_their_rows() -> None:
    """By their places `b` would get the rows of `a`, and `c` those of `b`."""
    found = change(processed(A, ValueStore("b", "int")), processed(ValueStore("b", "int"), ValueStore("c", "int")))
    assert {each.table: each.from_table for each in found.continued} == {"b": "b", "c": "a"}
    assert [item.reason for item in found.items if item.name == "c"] == ["was called a"]


def test_another_kind_of_a_store_type_or_time_to_live_is_refused() -> None:
    for other in (MapStore("a", "string", "int"), ValueStore("a", "string"), ValueStore("a", "int", ttl="1 hour")):
        found = change(processed(A), processed(other))
        assert not found.possible
        assert "Hint: Give the node another name=" in str(found)


def test_types_of_what_is_sent_and_what_stands_in_front_are_no_matter_of_the_stores() -> None:
    def sends(kind: Any) -> Build:
        def build(builder: Any) -> None:
            stream = builder.stream("in", key="string", value="string")
            stream.process(Plain, value=kind, stores=[A], name="p").to("out")

        return build

    assert change(sends("string"), sends("long")).possible
    assert outcomes(change(sends("string"), sends(pa.int32())), "store") == {"a": "kept"}


@pytest.mark.parametrize("stores", [(A, ValueStore("a", "long")), (A, MapStore("p.timers", "string", "long"))])
def test_two_stores_of_one_name_are_refused_on_the_line(stores: tuple[StoreDeclaration, ...]) -> None:
    from watersmeet.errors import TopologyError

    with pytest.raises(TopologyError, match=r"(?s)store name.*Hint: "):
        change(processed(A), processed(*stores, kind=Timed))
