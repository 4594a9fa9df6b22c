"""A changed topology beside the one that a checkpoint records: what goes on, begins, ends, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from proof.arrow import arrow_builder
from tests.engine.kit import PLUS
from watersmeet._plan.evolve import Change, compare, described, hinders
from watersmeet.windows import JoinWindows

Build = Callable[[Any], None]
WINDOWS = JoinWindows(10, 10, 0)


def record(build: Build) -> dict[str, Any]:
    """What a checkpoint of this topology records, read back."""
    builder = arrow_builder("changes")
    build(builder)
    return dict(json.loads(json.dumps(described(builder.build().physical, {}))))


def change(old: Build, new: Build) -> Change:
    return compare(record(old), record(new))


def outcomes(found: Change, what: str) -> dict[str, str]:
    return {item.name: item.outcome for item in found.items if item.what == what}


def orders(builder: Any, **options: Any) -> Any:
    return builder.table("orders", key="string", value="string", **options)


def joined(builder: Any, *, name: str | None = "joined", **options: Any) -> Any:
    users = builder.table("users", key="string", value="string")
    return orders(builder, **options).join(users, PLUS, name=name)


def is_there(value: pa.Array) -> pa.Array:
    return value.is_valid()


def plain(builder: Any) -> None:
    joined(builder).to_stream(name="s").to("out", name="out")


def test_a_topology_that_is_the_same_changes_nothing() -> None:
    found = change(plain, plain)
    assert not found.changed
    assert found.possible
    assert str(found) == "No change: the checkpoint is of this topology."
    assert outcomes(found, "store") == {"joined.left": "kept", "joined.right": "kept"}


def test_steps_branches_sinks_and_sources_come_and_go_and_stores_stay() -> None:
    def more(builder: Any) -> None:
        payments = builder.stream("payments", key="string", value="string")
        payments.to("copies", name="copies")
        result = joined(builder).filter(is_there, name="some")
        result.to_stream(name="s").to("out", name="out")
        payments.group_by_key().count(name="paid").to_stream(name="t").to("counts", name="counts")

    found = change(plain, more)
    assert found.possible
    assert outcomes(found, "store") == {
        "joined.left": "kept",
        "joined.right": "kept",
        "paid.aggregate": "started empty",
    }
    assert outcomes(found, "source") == {"payments": "added", "orders": "kept", "users": "kept"}
    assert outcomes(found, "sink") == {"out": "kept", "copies": "added", "counts": "added"}
    back = change(more, plain)
    assert back.possible
    assert [item.name for item in back.dropped] == [
        *("paid.aggregate", "some", "paid", "t"),
        *("payments", "copies", "counts"),
    ]
    assert {each.from_table for each in back.continued} == {"joined.left", "joined.right"}


def windowed(how: str = "join", windows: Any = WINDOWS, name: str | None = "joined") -> Build:
    def build(builder: Any) -> None:
        left, right = (builder.stream(each, key="string", value="string") for each in ("left", "right"))
        getattr(left, how)(right, PLUS, windows, name=name).to("out", name="out")

    return build


def test_a_node_without_a_name_is_said_what_to_call_it() -> None:
    name = "stream_stream-left-right"
    found = change(windowed(name=None), windowed(name=None))
    hints = {item.hint for item in found.unchanged if item.what == "store"}
    assert hints == {f"Its name is made up: name={name!r} keeps it, whatever its inputs are called later."}
    renamed = change(windowed(name=None), windowed())
    hint = f"If joined is what {name} was, name it name={name!r}: its tables then go on."
    assert {item.hint for item in renamed.dropped if item.what == "store"} == {hint}
    named = change(windowed(name=None), windowed(name=name))
    assert [item.outcome for item in named.items if item.what == "store"] == ["kept", "kept"]


def test_a_store_that_gets_a_name_or_another_one_keeps_its_rows() -> None:
    def counted(store: str | None) -> Build:
        def build(builder: Any) -> None:
            stream = builder.stream("orders", key="string", value="string")
            stream.group_by_key().count(name="counted", store=store).to_stream(name="s").to("out", name="out")

        return build

    found = change(counted(None), counted("counts"))
    assert [(t.from_table, t.table, t.scalars) for t in found.continued] == [("counted.aggregate", "counts", True)]
    assert [item.reason for item in found.unchanged if item.what == "store"] == ["was called counted.aggregate"]


def test_a_store_goes_on_by_its_name_where_its_node_has_another() -> None:
    def kept(name: str) -> Build:
        def build(builder: Any) -> None:
            stream = builder.stream("orders", key="string", value="string")
            stream.to_table(name=name, store="kept").to_stream(name="s").to("out", name="out")

        return build

    found = change(kept("one"), kept("other"))
    assert [(t.from_node, t.node, t.scalars) for t in found.continued] == [("one", "other", False)]
    assert found.possible


def test_a_join_that_is_added_is_filled_with_the_rows_that_the_checkpoint_has_of_its_inputs() -> None:
    def more(builder: Any) -> None:
        users = builder.table("users", key="string", value="string")
        table, payments = orders(builder), builder.table("payments", key="string", value="string")
        table.join(users, PLUS, name="joined").to_stream(name="s").to("out", name="out")
        table.join(payments, PLUS, name="paid").to_stream(name="t").to("more", name="more")

    found = change(plain, more)
    assert outcomes(found, "store") == {
        "joined.left": "kept",
        "joined.right": "kept",
        "paid.left": "filled",
        "paid.right": "started empty",
    }
    assert [(t.from_node, t.from_table) for t in found.continued if t.table == "paid.left"] == [
        ("joined", "joined.left")
    ]


def test_a_store_goes_on_in_the_join_that_keeps_it_from_now_on() -> None:
    def alone(builder: Any) -> None:
        orders(builder, store="kept").to_stream(name="s").to("out", name="out")

    def looked_up(builder: Any) -> None:
        table = orders(builder, store="kept")
        table.to_stream(name="s").to("out", name="out")
        users = builder.table("users", key="string", value="string")
        table.join(users, PLUS, name="joined").to_stream(name="t").to("more", name="more")

    for one, other in ((alone, looked_up), (looked_up, alone)):
        found = change(one, other)
        assert outcomes(found, "store")["kept"] == "kept"
        assert [each.from_table for each in found.continued] == ["kept"]


def test_an_operator_of_another_kind_window_or_join_is_refused_with_what_differs() -> None:
    wider = change(windowed(), windowed(windows=JoinWindows(20, 10, 0)))
    assert [item.reason for item in wider.refused] == ["window was (10, 10, 0), is (20, 10, 0)"]
    outer = change(windowed(), windowed("left_join"))
    assert "how was 'inner', is 'left'" in str(outer) or "tables" in str(outer)
    other = change(plain, windowed())
    assert not other.possible
    assert "it was a table_table, it is a stream_stream" in str(other)
    assert "Hint: Give the node another name=" in str(other)


def test_a_join_below_one_that_holds_results_back_is_refused_since_its_time_goes_otherwise() -> None:
    def build(*, above: bool) -> Build:
        def made(builder: Any) -> None:
            left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
            first = left.left_join(right, PLUS, WINDOWS, name="first") if above else left
            first.left_join(right, PLUS, WINDOWS, name="second").to("out", name="out")

        return made

    found = change(build(above=False), build(above=True))
    assert [(item.name, item.outcome) for item in found.refused] == [("second", "refused")]
    assert "its time goes otherwise: held back above, ms: was 0" in str(found)


def test_another_type_of_the_key_or_of_an_aggregate_is_refused() -> None:
    def table(key: str) -> Build:
        def build(builder: Any) -> None:
            stream = builder.stream("orders", key=key, value="string")
            stream.to_table(name="table", store="kept").to_stream(name="s").to("out", name="out")

        return build

    found = change(table("int"), table("long"))
    assert "key: was int32, is int64; rows lie by the hash of it" in str(found)
    assert not found.possible


def struct(*fields: tuple[str, Any, bool]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"name": n, "type": k, "nullable": null, "metadata": {}} for n, k, null in fields],
    }


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("integer", "long", None),
        ("long", "integer", "it: was bigint, is int"),
        ("float", "double", None),
        ("integer", "double", "it: was int, is double"),
        ("decimal(10,2)", "decimal(12,4)", None),
        ("decimal(10,2)", "decimal(10,4)", "it: was decimal(10,2), is decimal(10,4)"),
        (struct(("a", "long", True)), struct(("a", "long", True), ("b", "string", True)), None),
        (struct(("a", "long", True)), struct(("b", "string", True), ("a", "long", True)), None),
        (
            struct(("a", "long", True)),
            struct(("a", "long", True), ("b", "string", False)),
            "b: is new, and may not be null, as it is in the rows that are stored",
        ),
        (struct(("a", "long", True), ("b", "string", True)), struct(("a", "long", True)), "b: is no longer there"),
        (
            struct(("a", "long", True)),
            struct(("a", "long", False)),
            "a: may not be null any more, as it may be in the rows that are stored",
        ),
        (struct(("a", "long", False)), struct(("a", "long", True)), None),
        (struct(("a", struct(("b", "byte", True)), True)), struct(("a", struct(("b", "short", True)), True)), None),
        (
            {"type": "array", "elementType": "long", "containsNull": True},
            {"type": "array", "elementType": "string", "containsNull": True},
            "[]: was bigint, is string",
        ),
        (
            {"type": "map", "keyType": "integer", "valueType": "long", "valueContainsNull": True},
            {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True},
            "keys of the map: was int, is bigint",
        ),
    ],
)
def test_types_may_grow_wider_and_nothing_else(old: Any, new: Any, why: str | None) -> None:
    assert hinders(old, new) == why


def test_files_of_an_only_output_and_of_one_among_several_do_not_share_a_folder() -> None:
    def files(*, more: bool) -> Build:
        def build(builder: Any) -> None:
            stream = builder.stream("orders", key="string", value="string")
            stream.to(wm.Writer("parquet", path="/out"), name="files")
            if more:
                stream.to("out", name="out")

        return build

    found = change(files(more=False), files(more=True))
    assert [(item.what, item.name) for item in found.refused] == [("sink", "files")]
    assert "Write to another folder" in str(found)


def test_what_is_said_is_frozen_and_json_has_it_whole() -> None:
    found = change(plain, lambda b: orders(b, store="kept").to_stream(name="s").to("out", name="out"))
    said = json.loads(json.dumps(found.as_dict()))
    assert said["possible"] is True
    assert {(each["what"], each["name"], each["outcome"]) for each in said["items"]} >= {
        ("store", "kept", "filled"),
        ("store", "joined.right", "dropped"),
        ("source", "users", "dropped"),
    }
    with pytest.raises(AttributeError):
        found.items = ()  # type: ignore[misc]


def viewed(**store: str) -> Build:
    """A stream that looks up a view of two global tables, which may have rows of its own."""

    def build(builder: Any) -> None:
        one, two = (builder.global_table(name, key="string", value="string") for name in ("one", "two"))
        view = one.join(two, PLUS, key=lambda k, v: v, name="view", **store)
        asked = builder.stream("asked", key="string", value="string")
        asked.join(view, PLUS, key=lambda k, v: k, name="asking").to("asked-out", name="asked-out")

    return build


def test_a_view_of_global_tables_that_were_read_before_gets_no_store() -> None:
    found = change(viewed(), viewed(store="rows"))
    assert not found.possible
    (refused,) = found.refused
    assert refused.name == "view-rows"
    assert refused.reason == "it would lack the rows of topic one, topic two that were read before"
    assert outcomes(found, "store") == {"asking.replica": "kept", "asking.replica1": "kept"}
    assert change(viewed(store="rows"), viewed(store="rows")).possible
    assert outcomes(change(viewed(store="rows"), viewed(store="other")), "store")["other"] == "kept"
    assert change(viewed(store="rows"), viewed()).possible


def test_a_view_of_global_tables_that_are_new_comes_with_its_store() -> None:
    def with_view(builder: Any) -> None:
        plain(builder)
        viewed(store="rows")(builder)

    found = change(plain, with_view)
    assert found.possible
    assert outcomes(found, "store")["rows"] == "started empty"
