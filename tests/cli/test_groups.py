"""`watersmeet init --from-group` drafts the topology of a program of Kafka Streams from what its broker knows of it.

Real programs run as streams groups of real brokers: one that keeps descriptions of topologies, and one that does not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.jars import jars
from dev.peers.streams_group import DESCRIPTIONS, TOPICS, compiled, running
from watersmeet._spark.streams_group import streams_group
from watersmeet.cli.commands import main
from watersmeet.cli.run import read_config
from watersmeet.testing import TopologyTestDriver

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
CLIENT = next(jar for jar in jars("broker") if jar.name.startswith("kafka-clients-"))

OTHERS = [
    'cities = builder.table("cities", key="string", value="string", name="cities-in")',
    'customers = builder.table("customers", key="string", value="string", name="customers-in")',
    'orders = builder.stream("orders", key="string", value="string", name="orders-in")',
    'kind_empty = orders.filter(lambda value: F.lit(True), name="kind-empty")',
    'kind_other = orders.filter(lambda value: F.lit(True), name="kind-other")',
    "merge_42 = kind_empty.merge(kind_other)",
    'living_result = customers.join(cities, pair, foreign_key=lambda left: left, name="living-result")',
    'changes = living_result.map_values(lambda value: value, name="changes")',
    'changes.to("placed", name="places")',
    'refunds = builder.stream("refunds", key="string", value="string")',
    "select_key_49 = refunds.select_key(lambda key, value: key)",
    'same_key = customers.join(cities, pair, name="same-key")',
    "group_by_26 = same_key.group_by(lambda key, value: (key, value))",
    "reduce_29 = group_by_26.reduce(lambda aggregate, value: value, lambda aggregate, value: aggregate, "
    'store="by-city")',
    "to_stream_30 = reduce_29.to_stream()",
    'to_stream_30.to("same")',
    'payments = builder.stream("payments", key="string", value="string")',
    'left_join_37 = orders.left_join(payments, pair, wm.JoinWindows.of_time_difference_with_no_grace("1 minute"))',
    'left_join_37.to("paid")',
    "flat_map_values_46 = merge_42.flat_map_values(lambda value: F.array(value))",
    'flat_map_values_46.to("refunds", feedback=True)',
    'count_50 = select_key_49.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("1 minute"))'
    '.count(store="minutes")',
    'suppress_54 = count_50.suppress(wm.Suppressed.until_time_limit("1 minute", wm.BufferConfig.unbounded()))',
    "to_stream_56 = suppress_54.to_stream()",
    "select_key_57 = to_stream_56.select_key(lambda key, value: key)",
    "map_values_58 = select_key_57.map_values(lambda value: value)",
    "filter_61 = map_values_58.filter(lambda value: F.lit(True))",
    'to_table_59 = filter_61.to_table(store="last")',
    "to_stream_63 = to_table_59.to_stream()",
    'to_stream_63.to("counted")',
    'own_code = orders.map_values(lambda value: value, name="own-code")',
    'own_code.to("with-customers")',
    'kstream_branch_00000000661 = orders.filter(lambda value: F.lit(True), name="KSTREAM-BRANCH-00000000661")',
    'kstream_branch_00000000661.to("with-countries")',
]
"""The draft of the program of that name."""


@pytest.fixture(scope="module")
def servers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The brokers, by whether they keep descriptions."""
    classes = compiled(tmp_path_factory.mktemp("classes"))
    brokers = {"described": KafkaBroker(settings=DESCRIPTIONS, classes=classes), "plain": KafkaBroker()}
    programs = {"described": ["joins", "others"], "plain": ["others"]}
    with ExitStack() as stack:
        for kind, broker in brokers.items():
            stack.enter_context(broker)
            broker.create_topics(TOPICS, partitions=2)
            for name in programs[kind]:
                state = tmp_path_factory.mktemp("state")
                stack.enter_context(running(broker.bootstrap_servers, name, name, classes, state))
        addresses = {kind: broker.bootstrap_servers for kind, broker in brokers.items()}
        for name in programs["described"]:
            # a member sends the description when it is asked, with a heartbeat
            while not streams_group(spark, name, addresses["described"], None, CLIENT).is_described:
                time.sleep(0.5)
        yield addresses


def drafted(folder: Path, servers: str, group: str, *options: str) -> str:
    """The draft of a group's topology, which `init` writes into a folder."""
    command = ["init", str(folder / "shop"), "--from-group", group, "--bootstrap-servers", servers, *options]
    done = CliRunner().invoke(main, [*command, "--client", str(CLIENT)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (folder / "shop").iterdir()) == ["run.toml", "topology.py"]
    return (folder / "shop" / "topology.py").read_text(encoding="utf-8")


def built(draft: str) -> wm.Topology:
    namespace: dict[str, object] = {}
    exec(draft, namespace)
    topology = namespace["topology"]
    assert callable(topology)
    made = topology()
    assert isinstance(made, wm.Topology)
    return made


def calls(draft: str) -> list[str]:
    """The lines of a draft that are no comments."""
    lines = [line.strip() for line in draft.partition("def topology():\n")[2].splitlines()]
    return [line for line in lines if not line.startswith("#")][1:-1]


def test_the_draft_has_each_input_join_aggregate_and_output_of_the_program(
    servers: dict[str, str], tmp_path: Path
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("security.protocol=PLAINTEXT\n")
    draft = drafted(tmp_path, servers["described"], "joins", "--command-config", str(settings))
    assert calls(draft) == [
        'customers = builder.table("customers", key="string", value="string", store="customers")',
        'cities = builder.table("cities", key="string", value="string")',
        'countries = builder.global_table("countries", key="string", value="string")',
        'orders = builder.stream("orders", key="string", value="string")',
        'large = orders.map_values(lambda value: value, name="large")',
        'by_value = large.select_key(lambda key, value: key, name="by-value")',
        "join_7 = large.join(customers, pair)",
        'join_7.to("with-customers")',
        "left_join_12 = large.left_join(countries, pair, key=lambda key, value: key)",
        'left_join_12.to("with-countries")',
        'count_15 = by_value.group_by_key().count(store="counts")',
        "to_stream_19 = count_15.to_stream()",
        "map_values_20 = to_stream_19.map_values(lambda value: value)",
        'map_values_20.to("counted")',
        "map_values_23 = orders.map_values(lambda value: value)",
        'payments_refunds = builder.stream(["payments", "refunds"], key="string", value="string")',
        "outer_join_28 = map_values_23.outer_join(payments_refunds, pair, "
        'wm.JoinWindows.of_time_difference_with_no_grace("1 minute"))',
        'outer_join_28.to("paid")',
        "join_42 = customers.join(cities, pair, foreign_key=lambda left: left)",
        "to_stream_44 = join_42.to_stream()",
        'to_stream_44.to("placed")',
        "join_46 = customers.join(cities, pair)",
        "filter_49 = join_46.filter(lambda value: F.lit(True))",
        "to_stream_50 = filter_49.to_stream()",
        "peek_51 = to_stream_50.peek(print)",
        'peek_51.to("same")',
    ]
    assert "# KSTREAM-JOIN-0000000007 (stores: customers). Unknown: the joiner\n" in draft
    assert read_config(tmp_path / "shop" / "run.toml").kafka["bootstrap_servers"] == servers["described"]


def test_the_draft_runs_and_joins_and_counts_as_the_program_does(servers: dict[str, str], tmp_path: Path) -> None:
    with TopologyTestDriver(built(drafted(tmp_path, servers["described"], "joins"))) as driver:
        driver.pipe("customers", key="ann", value="bern", ts=1)
        driver.pipe("cities", key="bern", value="old", ts=2)
        driver.pipe("orders", key="ann", value="tea", ts=3)
        driver.pipe("orders", key="ann", value="pot", ts=4)
        pairs = [(record.key, *record.value) for record in driver.read("with-customers")]
        assert pairs == [("ann", "tea", "bern"), ("ann", "pot", "bern")]
        assert [tuple(record.value) for record in driver.read("placed")] == [("bern", "old")]
        assert driver.get_store("counts").get("ann") == 2


def test_names_of_a_program_stay_and_branches_repartitions_and_windows_are_there(
    servers: dict[str, str], tmp_path: Path
) -> None:
    draft = drafted(tmp_path, servers["described"], "others")
    assert calls(draft) == OTHERS
    assert "# own-code. Unknown: what it does\n" in draft
    assert "Unknown: whether it counts or aggregates, and the windows\n" in draft
    assert repr(built(draft)).startswith("Topology('others', inputs=['cities-in', 'customers-in', 'orders-in', ")


def test_without_a_description_the_draft_has_the_topics_and_stores_of_the_subtopologies(
    servers: dict[str, str], tmp_path: Path
) -> None:
    draft = drafted(tmp_path, servers["plain"], "others")
    inputs = [line.partition(" = ")[0] for line in calls(draft) if "builder." in line]
    assert sorted(inputs) == ["cities", "customers", "orders", "payments", "refunds"]
    assert "subtopology_0 = orders.merge(payments)" in calls(draft)
    assert "# subtopology-2 (stores: by-city). Unknown: what it does\n" in draft
    assert "# Unknown: outputs, and what the subtopologies do. The broker keeps no description\n" in draft
    built(draft)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ["--from-group", "nobody", "--kafka"],
            r"--from-group='nobody': the brokers do not describe such a streams group(.|\n)*nobody not found",
        ),
        (["--kafka"], "--from-group goes with --kafka"),
    ],
)
def test_a_group_that_is_unknown_or_left_out_is_an_error_and_makes_no_folder(
    servers: dict[str, str], tmp_path: Path, options: list[str], reason: str
) -> None:
    command = ["init", str(tmp_path / "shop"), "--client", str(CLIENT), *options, servers["plain"]]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert re.search(reason, done.output), done.output
    assert "Hint: " in done.output
    assert not (tmp_path / "shop").exists()
