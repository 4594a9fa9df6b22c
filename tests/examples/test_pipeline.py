"""The example of Spark Declarative Pipelines, run by `spark-pipelines run` as its readers run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"


def ran(folder: Path) -> None:
    """Run the command, as the example's first line has it."""
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run"]
    command += ["--conf", "spark.sql.catalogImplementation=hive"]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    paths = os.pathsep.join([str(ROOT / "src"), *sys.path])
    env = {**os.environ, **python, "PYTHONPATH": paths}
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def table(folder: Path, name: str) -> list[tuple[object, ...]]:
    """A table of the pipeline, sorted."""
    rows = pq.read_table(folder / "spark-warehouse" / name).drop_columns(
        ["timestamp", "sequence"] if name == "changes" else []
    )
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_a_pipeline_runs_a_topology_as_a_flow_and_goes_on_with_its_state(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/watersmeet-pipeline", f"file://{folder}/storage"))
    ran(folder)
    assert table(folder, "totals") == [("ann", 125.0, 2), ("bob", 20.0, 1)]
    first = table(folder, "changes")
    assert set(first) >= {("ann", 125.0, 2, "upsert"), ("bob", 20.0, 1, "upsert")}
    (folder / "orders" / "2.json").write_text(
        '{"id": 3, "customer": "bob", "amount": 7.0, "at": "2026-11-30T10:00:00Z"}\n'
    )
    ran(folder)
    assert table(folder, "totals") == [("ann", 120.0, 1), ("bob", 27.0, 2)]
    # the first batch is not read again
    assert len(table(folder, "changes")) == len(first) + 2
