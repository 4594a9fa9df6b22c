"""Where Spark runs: whoever has configured a master keeps it, and one JVM is told from many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev.cluster import cleaned, spark_home
from watersmeet._spark.machine import configured_master, is_one_jvm

CASES = [
    ("", "", "", None),
    ("pyspark-shell", "", "", None),
    ("--master yarn pyspark-shell", "spark.master local[3]", "local[4]", "yarn"),
    ("--conf spark.master=k8s://x:1 pyspark-shell", "spark.master local[3]", "local[4]", "k8s://x:1"),
    ("-c spark.app.name=a --conf 'spark.master=local[2]'", "", "", "local[2]"),
    ("", "# spark.master yarn\n  spark.master   spark://h:7077 \n", "local[4]", "spark://h:7077"),
    ("", "spark.master=local[5]", "", "local[5]"),
    ("", "spark.masters yarn", "local[4]", "local[4]"),
]


@pytest.mark.parametrize(("arguments", "defaults", "variable", "wanted"), CASES)
def test_the_master_is_found_wherever_it_is_configured(
    arguments: str, defaults: str, variable: str, wanted: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    if variable:
        monkeypatch.setenv("MASTER", variable)
    assert configured_master() == wanted
    (tmp_path / "mine.conf").write_text("spark.master\tlocal[7]")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path}/mine.conf")
    assert configured_master() == "local[7]"


def test_a_cluster_on_this_machine_is_not_one_jvm() -> None:
    assert [is_one_jvm(master) for master in ("local", "local[*]", "local[2,4]")] == [True] * 3
    assert not any(is_one_jvm(master) for master in ("local-cluster[2,1,1024]", "yarn", "spark://h:1", "remote local"))


ASKED = """
import watersmeet
spark = watersmeet.session(config={"spark.ui.enabled": "false"})
print(spark.sparkContext.master, spark.conf.get("spark.python.daemon.module", "none"))
"""


def test_a_session_runs_where_the_file_of_defaults_says(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master local-cluster[1,1,1024]\n")
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        env={**cleaned(), "SPARK_CONF_DIR": str(tmp_path), "SPARK_HOME": str(spark_home(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    # nor does it get what is meant for one JVM
    assert done.stdout == "local-cluster[1,1,1024] none\n", done.stderr
