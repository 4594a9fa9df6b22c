"""A file of SQL in the place of a topology: run, described, compared with a checkpoint, changed, made by `init`."""

from __future__ import annotations

import json
import runpy
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from watersmeet.cli.commands import SQL_FILES, main
from watersmeet.cli.run import RunOptions, read_config, starting
from watersmeet.cli.topologies import made_topology
from watersmeet.errors import ConfigError

pytestmark = pytest.mark.spark
ORDERS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, n INT, at BIGINT)
    WITH (path = 'FOLDER/orders', timestamp = 'at');
"""
COUNTED = "CREATE TABLE counts WITH (path = 'FOLDER/counts', format = 'json') AS SELECT customer, COUNT(*) AS n FROM"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    write(spark, tmp_path, [(1, "ann", 5, 1), (2, "bob", 2, 2)])
    return tmp_path


def write(spark: SparkSession, folder: Path, rows: list[tuple[int, str, int, int]]) -> None:
    frame = spark.createDataFrame(rows, "id long, customer string, n int, at long")
    frame.coalesce(1).write.mode("append").parquet(str(folder / "orders"))


def views(folder: Path, query: str) -> str:
    file = folder / "views.sql"
    file.write_text((ORDERS + COUNTED + query).replace("FOLDER", str(folder)))
    return str(file)


def run(folder: Path, file: str, **start: object) -> None:
    start = {"available_now": True, "shards": 1, "tasks": 1, **start}
    starting(RunOptions(file, str(folder / "cp"), start=start))().awaitTermination()


def counts(folder: Path) -> dict[str, int | None]:
    """The latest count of each customer, of the files that the output has."""
    lines = [json.loads(line) for part in folder.glob("counts/*.json") for line in part.read_text().splitlines()]
    return {
        line["key"]["customer"]: line.get("value", {}).get("n")
        for line in sorted(lines, key=lambda row: row["sequence"])
    }


def test_a_file_runs_and_goes_on_when_it_has_changed(spark: SparkSession, folder: Path) -> None:
    file = views(folder, " orders GROUP BY customer")
    run(folder, file)
    assert counts(folder) == {"ann": 1, "bob": 1}
    checkpoint = str(folder / "cp")
    same = CliRunner().invoke(main, ["diff", checkpoint, file])
    assert (same.exit_code, "starts anew" in same.output) == (0, False), same.output

    file = views(folder, " (SELECT * FROM orders WHERE n > 2) GROUP BY customer")
    changed = CliRunner().invoke(main, ["diff", checkpoint, file, "--allow-changed-functions"])
    assert changed.exit_code == 0, changed.output
    assert changed.output != same.output


def test_a_view_goes_on_behind_a_view_that_is_written_before_it(spark: SparkSession, folder: Path) -> None:
    to = f"WITH (url = 'sqlite:///{folder}/views.db', create = true"
    query = "FROM orders GROUP BY customer;"
    counts = f"CREATE TABLE counts {to}) AS SELECT customer, COUNT(*) AS n {query}"
    totals = f"CREATE TABLE totals {to}, adopt = true) AS SELECT customer, SUM(n) AS n {query}"
    file = folder / "views.sql"
    for number, text in enumerate((counts, totals + counts)):
        file.write_text(ORDERS.replace("FOLDER", str(folder)) + text)
        if number:
            change = CliRunner().invoke(main, ["diff", str(folder / "cp"), str(file)])
            assert change.exit_code == 0, change.output
            assert "store counts-agg-orders.aggregate of counts-agg-orders: kept" in change.output
            assert "node totals-agg-orders: added" in change.output
            write(spark, folder, [(3, "ann", 1, 3)])
        run(folder, str(file), evolve=bool(number))
    with closing(sqlite3.connect(folder / "views.db")) as base:
        assert sorted(base.execute("SELECT * FROM counts")) == [("ann", 2), ("bob", 1)]
        assert ("ann", 1) in set(base.execute("SELECT * FROM totals")), "of what came since"


def test_a_mistake_in_a_file_is_shown_with_its_place_and_without_a_trace(folder: Path) -> None:
    file = views(folder, " orders GROUP BY custmer")
    done = CliRunner().invoke(main, ["describe", file])
    assert done.exit_code == 1
    assert "There is no column custmer." in done.output
    assert "line 4, column" in done.output
    assert "Traceback" not in done.output


def test_explain_in_a_file_is_printed_beside_what_a_command_says(folder: Path) -> None:
    file = views(folder, " orders GROUP BY customer; EXPLAIN counts")
    done = CliRunner().invoke(main, ["describe", file, "--json"])
    assert done.exit_code == 0, done.output
    assert "key: customer\ncolumns:\n  customer: string\n  n: bigint\n" in done.stderr
    assert json.loads(done.stdout)["application"] == "views"


def test_a_new_project_in_sql_runs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["init", "shop-orders", "--sql"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "shop-orders")
    names = {path.name for path in (tmp_path / "shop-orders").iterdir()}
    assert names >= set(SQL_FILES.values())
    assert not names & SQL_FILES.keys()
    tests = runpy.run_path("test_views.py")
    (test,) = [value for name, value in tests.items() if name.startswith("test_")]
    test()
    options = read_config(Path("run.toml"))
    options.check()
    assert "outputs=['open-orders']" in repr(made_topology(options.topology, spark))


def test_a_select_of_a_file_whose_rows_would_go_nowhere_is_refused(spark: SparkSession, folder: Path) -> None:
    file = views(folder, " orders GROUP BY customer; SELECT id FROM orders")
    with pytest.raises(ConfigError, match="rows would go nowhere"):
        made_topology(file, spark)
