"""Foreign-key, one-to-many and global joins on Spark: recordings, and what only Columns can show."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from proof.conformance_compare import judge
from proof.recordings import History, read
from proof.runners.spark import SparkRunner
from proof.runners.vectors import new_values
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet._spark.functions import session
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.serdes import CombinedSerde
from watersmeet.errors import FunctionError, SinkError, TopologyError
from watersmeet.io.formats import Format
from watersmeet.testing.driver import TopologyTestDriver

RECORDINGS = Path(__file__).parents[2] / "recordings"
FAMILY = 3
ALLOWED = {4, 5, 6, 9}  # see tests/engine/test_recordings.py


def chosen(kind: str, runner: SparkRunner) -> list[History]:
    """The first histories of each family of a kind, of all versions."""
    histories: list[History] = []
    for path in sorted((RECORDINGS / "histories").glob(f"{kind}.*")):
        families: dict[str, int] = {}
        for history in read(path):
            family = history.id.split("/")[0]
            families[family] = families.get(family, 0) + 1
            if families[family] <= FAMILY and runner.supports(history) is None:
                histories.append(history)
    return histories


def wrong(histories: list[History], runner: SparkRunner) -> list[str]:
    """Histories that differ for no named reason."""
    verdicts = [judge(h, out) for h, out in zip(histories, runner.run_many(histories), strict=True)]
    return [v.history.id for v in verdicts if not v.equal and not (v.rows and v.rows <= ALLOWED)]


@pytest.mark.parametrize("kind", ["fk_join", "table_join_then_fk", "global_join"])
def test_spark_says_what_kafka_streams_said(spark: SparkSession, kind: str) -> None:
    runner = SparkRunner(spark, shards=3)
    histories = chosen(kind, runner)
    assert len(histories) >= 2 * FAMILY
    assert wrong(histories, runner) == []


def test_the_tests_of_kafka_hold_on_spark(spark: SparkSession) -> None:
    runner = SparkRunner(spark)
    names = ("KTableKTableForeignKeyJoinIntegrationTest", "KStreamGlobalKTableLeftJoinTest")
    paths = [RECORDINGS / "vectors" / f"{name}.json.gz" for name in names]
    histories = [new_values(h) for path in paths for h in read(path) if runner.supports(h) is None]
    assert len(histories) >= 8
    assert wrong(histories, runner) == []


def piped(topology: wm.Topology, *steps: tuple[str, Any, Any, int]) -> list[tuple[Any, Any, int]]:
    """What a topology writes to "out"."""
    driver = TopologyTestDriver(topology, session(), shards=3)
    for topic, key, value, ts in steps:
        driver.pipe(topic, key, value, ts=ts)
    return [(r.key, r.value, r.ts) for r in driver.read("out")]


def reference(value: Column) -> Column:
    """The text before the bar; null where there is none."""
    return F.when(value.contains("|"), F.split(value, r"\|")[0])


def test_columns_structs_and_a_null_reference_go_through_a_left_join(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("orders")
    orders = b.table("orders", key="long", value=wm.json("customer string, amount long"))
    customers = b.table("customers", key="string", value="string")
    orders.left_join(
        customers,
        lambda left, right: F.concat_ws(" ", right, left["amount"].cast("string")),
        foreign_key=lambda value: value["customer"],
    ).to("out", key="long", value="string")
    got = piped(
        b.build(),
        ("orders", 2**53 + 1, {"customer": "ann", "amount": 1}, 1),
        ("customers", "ann", "Ann", 2),
        ("orders", 7, {"customer": None, "amount": 2}, 3),
        ("orders", 2**53 + 1, None, 4),
    )
    assert got == [(2**53 + 1, "1", 1), (2**53 + 1, "Ann 1", 2), (7, "2", 3), (2**53 + 1, None, 4)]


def test_a_foreign_key_join_of_a_joined_table_that_is_kept_and_filtered(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("chain")
    left, right, third = (b.table(n, key="string", value="string") for n in ("left", "right", "third"))
    plus = F.concat
    first = left.join(right, plus, foreign_key=reference, store="first")
    second = first.filter(lambda value: ~value.contains("no")).join(third, plus, foreign_key=reference)
    second.to("out")
    topology = b.build()
    assert topology.physical.levels == 5
    got = piped(
        topology,
        ("right", "p", "R", 0),
        ("third", "p", "T", 0),
        ("left", "k", "p|1", 1),
        ("left", "k", "p|no", 2),
        ("left", "k", "p|3", 3),
        ("right", "p", "S", 4),
    )
    assert got == [("k", "p|1RT", 1), ("k", None, 2), ("k", "p|3RT", 3), ("k", "p|3ST", 4)]


def test_an_extractor_sees_no_tombstone_and_must_give_the_right_type(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("types")
    left = b.table("left", key="string", value="string")
    right = b.table("right", key="long", value="string")
    with pytest.raises(TopologyError, match="returns another type"):
        left.join(right, F.concat, foreign_key=reference)
    with pytest.raises(FunctionError, match="foreign key extractor"):
        left.join(right, F.concat, foreign_key=lambda value: value["no such field"])

    def extractor(value: Column) -> Column:
        tombstone = F.raise_error(F.lit("a tombstone")).cast("long")
        return F.when(value.isNull(), tombstone).otherwise(value.cast("long"))

    left.join(right, F.concat, foreign_key=extractor).to("out")
    got = piped(b.build(), ("right", 5, "R", 0), ("left", "k", "5", 1), ("left", "k", None, 2))
    assert got == [("k", "5R", 1), ("k", None, 2)]


def test_one_to_many_results_have_both_keys(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("both")
    one, many = (b.table(n, key="string", value="string") for n in ("one", "many"))
    joined = one.one_to_many_join(many, lambda left, right: F.concat(left, F.lit("+"), right), key=reference)
    assert joined.key_type.simpleString() == "struct<prefix:string,suffix:string>"
    joined.to("out", key="json")
    got = piped(b.build(), ("one", "p", "P", 0), ("many", "k", "p|1", 1), ("many", "k", "q|2", 2))
    assert [(tuple(key), value, ts) for key, value, ts in got] == [
        (("p", "k"), "P+p|1", 1),
        (("p", "k"), None, 2),
    ]


def test_one_to_many_results_go_under_a_key_of_ones_own(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("own key")
    one, many = (b.table(n, key="string", value="string") for n in ("one", "many"))
    joined = one.one_to_many_join(
        many,
        F.concat,
        key=reference,
        result_key=lambda prefix, suffix: F.concat(suffix, F.lit(" of "), prefix),
    )
    joined.to("out")
    got = piped(b.build(), ("many", "k", "p|1", 0), ("one", "p", "P", 1), ("one", "p", None, 2))
    assert got == [("k of p", "Pp|1", 1), ("k of p", None, 2)]


def test_rows_of_equal_fields_are_joined_and_what_stands_is_sparks_own_join(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("equal")
    orders = b.table("orders", key="long", value=wm.json("city string, n int"))
    couriers = b.table("couriers", key="string", value=wm.json("area string"))
    orders.outer_join(
        couriers,
        lambda order, courier: F.struct(order["n"].alias("n"), courier["area"].alias("area")),
        on=("city", lambda courier: F.lower(courier["area"])),
    ).to("out", key="json")
    rows: dict[Any, Any] = {}
    latest: dict[str, dict[Any, Any]] = {"orders": {}, "couriers": {}}
    with TopologyTestDriver(b.build()) as driver:
        out = driver.create_output_topic("out")
        for topic, key, value in (
            ("orders", 1, {"city": "rom", "n": 5}),
            ("couriers", "eva", {"area": "ROM"}),
            ("couriers", "max", {"area": "Rom"}),
            ("orders", 2, {"city": None, "n": 6}),
            ("orders", 3, {"city": "ulm", "n": 7}),
            ("couriers", "eva", {"area": "Ulm"}),
            ("couriers", "max", None),
            ("orders", 3, {"city": "rom", "n": 8}),
        ):
            driver.create_input_topic(topic).pipe_input(key, value)
            latest[topic].pop(key, None)
            if value is not None:
                latest[topic][key] = value
            for record in out.read_records():
                rows[tuple(record.key)] = record.value
            left = spark.createDataFrame(
                [(k, v["city"], v["n"]) for k, v in latest["orders"].items()], "k long, city string, n int"
            )
            right = spark.createDataFrame(
                [(k, v["area"]) for k, v in latest["couriers"].items()], "c string, area string"
            )
            expected = (
                left.join(right, left.city == F.lower(right.area), "outer").select("k", "c", "n", "area").collect()
            )
            standing = {(*key, *value) for key, value in rows.items() if value is not None}
            assert standing == {tuple(row) for row in expected}


def test_combined_keys_are_written_as_kip_213_lays_them_out() -> None:
    recorded = json.loads(gzip.decompress((RECORDINGS / "bytes.json.gz").read_bytes()))["combined_key"]
    forms = {"string": ("string", "string"), "int32/int64": ("int", "long")}
    for entry in recorded:
        prefix, suffix = forms[entry["serde"]]
        types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
        fields = {"prefix": types[prefix], "suffix": types[suffix]}
        keys = pa.array([{"prefix": entry["fk"], "suffix": entry["pk"]}, None], pa.struct(list(fields.items())))
        written, nothing = CombinedSerde(serde_of(Format(prefix)), serde_of(Format(suffix))).write(keys).to_pylist()
        assert (written.hex(), nothing) == (entry["bytes_hex"], None)


def test_a_global_join_sees_both_keys_and_both_values(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("global")
    flights = b.stream("flights", key="long", value="string")
    airlines = b.global_table("airlines", key="string", value="string")

    def joiner(key: Column, mapped: Column, left: Column, right: Column) -> Column:
        return F.concat_ws("/", key.cast("string"), mapped, left, right)

    flights.left_join(airlines, joiner, key=reference).to("out")
    got = piped(
        b.build(),
        ("airlines", "UA", "United", 0),
        ("flights", 1, "UA|1545", 5),
        ("flights", None, "AA|1141", 3),
        ("flights", 2, "none", 4),
    )
    assert got == [(1, "1/UA/UA|1545/United", 5), (None, "AA/AA|1141", 3), (2, "2/none", 4)]


def test_a_view_of_global_tables_is_looked_up_in_one_level(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("view")
    countries = b.global_table("countries", key="string", value=wm.json("name string, continent long"))
    continents = b.global_table("continents", key="long", value="string")

    def joiner(key: Column, country: Column, continent: Column) -> Column:
        seen = F.when(country.isNull(), F.raise_error(F.lit("no row of the view"))).otherwise(country["name"])
        return F.concat_ws("/", key, seen, continent)

    places = countries.left_join(continents, joiner, key=lambda country: country["continent"])
    visits = b.stream("visits", key="long", value="string")
    visits.left_join(places, lambda visit, place: F.concat_ws(" ", visit, place), key=lambda visit: visit).to("out")
    topology = b.build()
    assert topology.physical.levels == 1
    got = piped(
        topology,
        ("countries", "PT", {"name": "Portugal", "continent": 2**53 + 1}, 0),
        ("visits", 1, "PT", 1),
        ("continents", 2**53 + 1, "Europe", 0),
        ("visits", 2, "PT", 2),
        ("visits", 3, "XX", 3),
    )
    assert got == [(1, "PT PT/Portugal", 1), (2, "PT PT/Portugal/Europe", 2), (3, "XX", 3)]


def test_a_table_joined_with_a_global_one_deletes_what_stands(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("global table")
    left = b.table("left", key="string", value="string")
    right = b.global_table("right", key="string", value="string")
    left.join(right, F.concat, foreign_key=reference).to("out")
    steps = [
        ("right", "p", "P", 0),
        ("left", "k", "p|1", 1),
        ("left", "k", "q|2", 2),
        ("left", "k", "q|3", 3),
    ]
    assert piped(b.build(), *steps) == [("k", "p|1P", 1), ("k", None, 2)]


# -- as a streaming query ------------------------------------------------------------------------------------


def last_of_each(rows: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """The table that results leave, by key."""
    table = {key: value for key, value, _ in rows}
    return {key: value for key, value in table.items() if value is not None}


def test_a_killed_batch_is_computed_again_and_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", *((n, f"{n % 7}|a{n}", n) for n in range(60)))
    put(spark, tmp_path / "left", *((n, None if n % 5 == 0 else f"{n % 3}|b{n}", 100 + n) for n in range(0, 60, 2)))
    put(spark, tmp_path / "right", *((n, f"R{n}", 50 + n) for n in range(5)))
    put(spark, tmp_path / "right", (0, None, 200), (1, "S1", 201), (6, "S6", 202))

    def started(sink: Collector) -> None:
        b = wm.StreamsBuilder("streaming")
        options = {"key": "k", "value": "v", "timestamp": "ts"}
        left = b.table(reader(spark, tmp_path / "left"), name="left", **options)
        right = b.table(reader(spark, tmp_path / "right"), name="right", **options)

        def joiner(value: Column, other: Column) -> Column:
            return F.concat(value, F.lit("+"), F.coalesce(other, F.lit("None")))

        joined = left.left_join(right, joiner, foreign_key=lambda value: reference(value).cast("long"))
        joined.to(wm.ForeachBatch(sink), name="out")
        run(b.build(), spark, tmp_path)

    sink = Collector(fail_in=1)
    with pytest.raises(SinkError):
        started(sink)
    started(sink)
    assert sink.batches[1][0] == sink.batches[1][1]
    left = {n: f"{n % 7}|a{n}" for n in range(60)}
    left |= {n: None if n % 5 == 0 else f"{n % 3}|b{n}" for n in range(0, 60, 2)}
    right = {n: f"R{n}" for n in range(2, 5)} | {1: "S1", 6: "S6"}
    expected = {n: f"{value}+{right.get(int(value[0]))}" for n, value in left.items() if value}
    assert last_of_each(sink.rows()) == expected


def test_a_kill_between_the_commits_of_the_two_levels_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", *((n, f"{n % 3}|a{n}", n) for n in range(30)))
    put(spark, tmp_path / "left", *((n, f"{n % 4}|b{n}", 100 + n) for n in range(0, 30, 2)), (1, None, 200))
    put(spark, tmp_path / "right", *((n, f"R{n}", 50 + n) for n in range(3)))
    put(spark, tmp_path / "right", (3, "R3", 150))

    def joined(left: Column, right: Column) -> Column:
        return F.concat(left, F.lit("+"), right)

    def killed(left: Column, right: Column) -> Column:
        # The joiner runs in the tasks of the second level: when it fails, the first one's have committed.
        return F.when(left.contains("|b"), F.raise_error(F.lit("killed"))).otherwise(joined(left, right))

    def started(sink: Collector, joiner: Any) -> None:
        b = wm.StreamsBuilder("killed")
        options = {"key": "k", "value": "v", "timestamp": "ts"}
        left = b.table(reader(spark, tmp_path / "left"), name="left", **options)
        right = b.table(reader(spark, tmp_path / "right"), name="right", **options)
        left.join(right, joiner, foreign_key=lambda value: reference(value).cast("long")).to(
            wm.ForeachBatch(sink), name="out"
        )
        run(b.build(), spark, tmp_path)

    sink = Collector()
    with pytest.raises(FunctionError, match="killed"):
        started(sink, killed)
    assert set(sink.batches) == {0}
    with pytest.warns(UserWarning, match="A function has changed since the last start: joiner"):
        started(sink, joined)
    left = {n: f"{n % 3}|a{n}" for n in range(30)} | {n: f"{n % 4}|b{n}" for n in range(0, 30, 2)}
    del left[1]
    assert last_of_each(sink.rows()) == {n: f"{value}+R{value[0]}" for n, value in left.items()}
    moved = [row for row in sink.rows() if row[0] == 0]
    assert [value for _, value, _ in moved] == ["0|a0+R0", "0|b0+R0"]


def test_a_global_table_is_read_to_its_end_before_the_first_record(spark: SparkSession, tmp_path: Path) -> None:
    for batch in range(3):
        put(spark, tmp_path / "left", *((n, f"{n}|x", 10 * batch) for n in range(batch * 10, batch * 10 + 10)))
    copied = spark.createDataFrame([(n, f"G{n}", 10_000) for n in range(30)], "k long, v string, ts long")
    b = wm.StreamsBuilder("global")
    left = b.stream(reader(spark, tmp_path / "left"), name="left", key="k", value="v", timestamp="ts")
    right = b.global_table(copied.repartition(4), name="right", key="k", value="v", timestamp="ts", order="k")
    sink = Collector()
    left.join(right, F.concat, key=lambda value: reference(value).cast("long")).to(wm.ForeachBatch(sink), name="out")
    run(b.build(), spark, tmp_path)
    assert len(sink.batches) >= 3
    assert last_of_each(sink.rows()) == {n: f"{n}|xG{n}" for n in range(30)}
    assert sorted(row[0] for row in sink.batches[0][0]) == list(range(10))
