"""A project that `watersmeet init` makes runs at once: its test passes, and its configuration starts its topology."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from watersmeet.cli.commands import FILES, main
from watersmeet.cli.run import read_config
from watersmeet.cli.topologies import made_topology


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["init", "shop-orders"])
    assert done.exit_code == 0, done.output
    monkeypatch.chdir(tmp_path / "shop-orders")
    for name in ("topology", "test_topology"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "shop-orders"


def test_a_new_project_has_all_its_files_under_its_own_name(project: Path) -> None:
    assert sorted(path.name for path in project.iterdir()) == sorted(FILES)
    assert 'wm.StreamsBuilder("shop-orders")' in (project / "topology.py").read_text()
    assert [name for name in FILES if re.search(r"\bNAME\b", (project / name).read_text())] == []
    compose = (project / "compose.yaml").read_text()
    assert "KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER" in compose
    assert '"127.0.0.1:9092:9092"' in compose
    read_config(project / "run.toml").check()


@pytest.mark.parametrize(("name", "reason"), [("shop-orders", "is there already"), ("1shop", "begins with a letter")])
def test_a_folder_that_exists_and_a_name_that_is_none_are_refused(project: Path, name: str, reason: str) -> None:
    done = CliRunner().invoke(main, ["init", str(project.parent / name)])
    assert (done.exit_code, reason in done.output, "Hint: " in done.output) == (1, True, True)


@pytest.mark.spark
def test_the_test_of_a_new_project_passes(project: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project)
    module = importlib.import_module("test_topology")
    tests = [name for name in vars(module) if name.startswith("test_")]
    assert len(tests) == 1
    getattr(module, tests[0])()
    options = read_config(project / "run.toml")
    topology = made_topology(options.topology, spark)
    assert repr(topology).startswith("Topology('shop-orders', inputs=['orders', 'payments'], outputs=['open-orders'], ")
