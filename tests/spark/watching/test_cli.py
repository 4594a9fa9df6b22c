"""The command line: what each command says, and the code with which it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from watersmeet.cli.commands import main

MODULE = """
import watersmeet as wm
from pyspark.sql import functions as F

def topology(spark):
    read = spark.readStream.schema("k long, v string, ts long").parquet("FOLDER/rows")
    builder = wm.StreamsBuilder("told")
    options = {"key": "k", "value": "v", "timestamp": "ts", "name": "rows", "store": "kept"}
    builder.table(read, **options).to(wm.Writer("parquet", path="FOLDER/out"), name="out")
    return builder.build()

def changed(spark):
    read = spark.readStream.schema("k long, v string, ts long").parquet("FOLDER/rows")
    builder = wm.StreamsBuilder("told")
    options = {"key": "k", "value": "v", "timestamp": "ts", "name": "rows", "store": "kept"}
    table = builder.table(read, **options)
    table.to(wm.Writer("parquet", path="FOLDER/out"), name="out")
    table.to(wm.Writer("parquet", path="FOLDER/more"), name="more")
    return builder.build()

def usual(application="usual"):
    builder = wm.StreamsBuilder(application)
    builder.stream("in", key="long", value="string").to("out")
    return builder.build()

def either(spark=None):
    return usual("without session" if spark is None else "with session")

number = 1
"""


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("cli")
    (made / "told_topology.py").write_text(MODULE.replace("FOLDER", str(made)))
    rows = [(1, "a", 1), (2, "b", 2), (2, None, 3), (3, "c", -1)]
    spark.createDataFrame(rows, "k long, v string, ts long").coalesce(1).write.parquet(str(made / "rows"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        yield made


def ran(*args: Any, code: int = 0, **options: Any) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in args], **options)
    assert result.exit_code == code, (result.output, str(result.exception))
    return result


def check_numbers(checkpoint: Path) -> None:
    counted = {"first_batch": 0, "last_batch": 0, "batches": 1}
    drops = [{"operator": "rows", "reason": "negative_timestamp", "records": 1}]
    assert json.loads(ran("drops", checkpoint, "--json").stdout) == counted | {"drops": drops}
    lines = ["batches 0 to 0", "dropped 1 at rows: negative_timestamp"]
    assert ran("drops", checkpoint).stdout.splitlines() == lines
    said = json.loads(ran("metrics", checkpoint, "--json").stdout)
    assert counted.items() <= said.items()
    assert (said["consumed"], said["produced"], said["drops"]) == ({"rows": 4}, {"out": 3}, drops)
    assert [table["rows"] for table in said["tables"].values()] == [1]
    assert said["stream_time_ms"] == {"rows": 3}
    assert (said["batch"]["number"], said["batch"]["consumed"]) == (0, {"rows": 4})
    lines = ran("metrics", checkpoint).stdout.splitlines()
    assert lines[1].startswith("source rows: 4 records; stream time 1970-01-01T00:00:00.003+00:00, ")
    assert lines[1].endswith(" s behind the clock; records at most 0.000 s late")
    assert "sink out: 3 records" in lines
    assert lines[-2].startswith("batch 0: 4 in; 3 out; ")


def check_config(folder: Path, named: str, checkpoint: Path) -> None:
    """A start by a file continues with the checkpoint; what is wrong with it is refused as on the command line."""
    config = folder / "run.toml"
    config.write_text(f'topology = "{named}"\ncheckpoint = "{checkpoint}"\n[start]\navailable_now = true\n')
    assert ran("run", "--config", config).stdout == ""
    unserved = ran("run", "--config", config, "--serve", "127.0.0.1:0", code=1).stderr
    assert "its only output is one of Spark's own sinks" in unserved
    assert "tasks=3 is more than shards=2" in ran("run", "--config", config, "--tasks", 3, code=1).stderr


def test_commands_are_completed() -> None:
    completion = ShellComplete(main, {}, "watersmeet", "_WATERSMEET_COMPLETE")
    assert {"metrics", "drops"} <= {each.value for each in completion.get_completions([], "")}
    assert [each.value for each in completion.get_completions(["drops", "cp"], "--j")] == ["--json"]


@pytest.mark.parametrize(("named", "application"), [("usual", "usual"), ("either", "with session")])
def test_a_parameter_that_has_a_value_gets_the_session_only_where_it_is_called_so(
    folder: Path, named: str, application: str
) -> None:
    assert ran("describe", f"told_topology:{named}").stdout.startswith(f"Topology {application} (")


def test_a_topology_is_described_drawn_run_and_its_stores_are_read_and_reset(folder: Path) -> None:
    named, checkpoint = "told_topology:topology", folder / "cp"
    assert ran("describe", named).stdout.startswith("Topology told (")
    said = json.loads(ran("describe", named, "--json").stdout)
    assert next(node["name"] for node in said["nodes"]) == "rows"
    assert said["operators"][0]["stores"] == ["kept"]
    ran("draw", named, "-o", folder / "told.svg")
    assert ElementTree.parse(folder / "told.svg").getroot().tag.endswith("svg")
    assert ran("draw", named, "--format", "mermaid").stdout.startswith("flowchart")
    done = ran("run", named, "--checkpoint", checkpoint, "--available-now", "--shards", 2, "--tasks", 1, "--json")
    assert json.loads(done.stdout) == {"drops": [{"operator": "rows", "reason": "negative_timestamp", "records": 1}]}
    check_config(folder, named, checkpoint)
    assert ran("diff", checkpoint, named).stdout == "No change: the checkpoint is of this topology.\n"
    refused = json.loads(ran("diff", checkpoint, "told_topology:changed", "--json", code=1).stdout)
    assert not refused["possible"]
    assert [each["name"] for each in refused["items"] if each["outcome"] == "refused"] == ["out"]
    assert "sink more: added" in ran("diff", checkpoint, "told_topology:changed", code=1).stdout
    (listed,) = json.loads(ran("stores", checkpoint, "--json").stdout)
    assert (listed["name"], listed["rows"], listed["batch"]) == ("kept", 1, 0)
    assert ran("stores", checkpoint).stdout.startswith("kept: 1 rows, ")
    (row,) = ran("state", checkpoint, "kept", "--json").stdout.splitlines()
    assert {name: json.loads(row)[name] for name in ("key", "value")} == {"key": 1, "value": "a"}
    (same,) = ran("state", checkpoint, "kept", "--key", 1, "--key", 7, "--json").stdout.splitlines()
    assert (same, ran("state", checkpoint, "kept", "--key", 2, "--json").stdout) == (row, "")
    assert "type bigint" in ran("state", checkpoint, "kept", "--key", "one", code=1).stderr
    check_numbers(checkpoint)
    assert "Hint: Stores: kept." in ran("state", checkpoint, "gone", code=1).stderr
    assert "with all state in it?" in ran("reset", checkpoint, code=1, input="n\n").stdout
    assert checkpoint.is_dir()
    ran("reset", checkpoint, "--yes")
    assert not checkpoint.exists()


def test_what_is_wrong_is_said_with_a_hint_and_a_code(folder: Path) -> None:
    for named in ("told_topology:gone", "no_such_module:topology", "told_topology", "told_topology:number"):
        assert "Hint: Name a" in ran("describe", named, code=1).stderr
    assert "not a checkpoint" in ran("reset", folder, "--yes", code=1).stderr
    assert folder.is_dir()
    for command in ("metrics", "drops"):
        assert "No topology of watersmeet" in ran(command, folder, code=1).stderr
        assert "No topology of watersmeet" in ran(command, folder / "gone", code=1).stderr
    ran("draw", "told_topology:topology", "--format", "png", code=2)
    ran("run", "told_topology:topology", code=2)
    ran("unheard-of", code=2)
