"""Mistakes that take a program of their own: versions, sessions, modules, and what the driver calls things."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.cli.topologies import made_topology
from watersmeet.errors import MissingName
from watersmeet.testing.driver import TopologyTestDriver

ROOT = Path(__file__).resolve().parents[3]
SRC = str(ROOT / "src")


def ran(*program: str, path: str = SRC, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, SRC])}
    command = [sys.executable, *program]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)


def test_an_older_pyspark_is_told_by_its_version_before_anything_of_it_is_missed(tmp_path: Path) -> None:
    stub = tmp_path / "pyspark" / "__init__.py"
    stub.parent.mkdir()
    stub.write_text('__version__ = "3.5.3"\n')
    done = ran("-c", "import watersmeet", path=str(tmp_path))
    assert (
        "ImportError: watersmeet needs PySpark 4.1 or later, and this is PySpark 3.5.3, imported from "
        f"{stub.parent}.\nHint: pip install 'pyspark>=4.1', and take that folder from PYTHONPATH"
    ) in done.stderr


def test_what_is_to_be_installed_is_said_as_it_can_be_from_a_clone() -> None:
    texts = {file: file.read_text() for file in (ROOT / "src" / "watersmeet").rglob("*.py")}
    # there is no release yet
    assert [str(file) for file, text in texts.items() if "watersmeet[" in text] == []


def test_a_mistake_within_a_module_of_the_command_line_is_said_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "camel_case.py").write_text(
        "import watersmeet as wm\nbuilder = wm.StreamsBuilder('x')\n"
        "builder.stream('a', key='long', value='string').leftJoin(None, None)\n"
    )
    (tmp_path / "no_such_package.py").write_text("import surely_no_such_package\n")
    (tmp_path / "empty_module.py").write_text("")
    with pytest.raises(MissingName, match="leftJoin") as error:
        made_topology("camel_case:topology", None)
    assert error.value.hint == "Here it is called left_join."
    with pytest.raises(ModuleNotFoundError, match="surely_no_such_package"):
        made_topology("no_such_package:topology", None)
    for named in ("surely_no_module:topology", "empty_module:topology", "empty_module"):
        with pytest.raises(wm.ConfigError, match=named):
            made_topology(named, None)


@pytest.mark.spark
def test_a_start_in_a_session_that_was_stopped_says_so() -> None:
    program = """
import watersmeet as wm
spark = wm.session("stopped", master="local[1]", config={"spark.ui.enabled": "false"})
builder = wm.StreamsBuilder("stopped")
builder.stream("in", key="long", value="string").to("out")
topology = builder.build()
spark.stop()
topology.start(spark, checkpoint="/nowhere")
"""
    done = ran("-c", program)
    assert "ConfigError: The Spark session has been stopped" in done.stderr
    assert "Hint: Make another, spark = wm.session('app')" in done.stderr


@pytest.mark.spark
def test_a_test_module_makes_its_session_at_its_top_and_folds_by_a_function_of_its_own_on_spark(tmp_path: Path) -> None:
    (tmp_path / "test_texts.py").write_text(
        """
import watersmeet as wm
from watersmeet.testing import TopologyTestDriver

spark = wm.session("tests", master="local[1]", config={"spark.ui.enabled": "false"})


def longer(value, text):
    return text + value


def test_texts_grow():
    builder = wm.StreamsBuilder("texts")
    parts = builder.stream("parts", key="long", value="string").group_by_key()
    parts.aggregate(lambda: "", wm.python(longer)).to_stream().to("texts")
    with TopologyTestDriver(builder.build(), spark) as driver:
        driver.pipe("parts", key=1, value="a", ts=0)
        driver.pipe("parts", key=1, value="b", ts=1)
        assert [record.value for record in driver.read("texts")] == ["a", "ab"]
"""
    )
    done = ran("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_texts.py", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout[-2000:]


@pytest.mark.spark
@pytest.mark.parametrize(
    "place", ["for each in ('page', 'user'): named[each] = {}", "named |= {{each: {} for each in ('page', 'user')}}"]
)
def test_a_function_has_the_values_of_its_own_round_of_a_loop(spark: SparkSession, place: str) -> None:
    builder = wm.StreamsBuilder("rounds")
    clicks = builder.stream("clicks", key="long", value=wm.json("page string, user long"))
    named: dict[str, Any] = {}
    names: dict[str, Any] = {"clicks": clicks, "named": named}
    exec(place.format("clicks.map_values(lambda value: value[each])"), names)
    exec("for each in ('a', 'b'): named[each] = clicks.filter(lambda value: value['page'] == each)", names)
    for each, stream in named.items():
        stream.to(each)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("clicks", key=1, value={"page": "a", "user": 7}, ts=0)
        assert [[record.value for record in driver.read(each)] for each in ("page", "user", "b")] == [["a"], [7], []]
        assert len(driver.read("a")) == 1


@pytest.mark.spark
def test_an_output_is_told_of_by_the_name_that_the_user_knows(spark: SparkSession) -> None:
    for policy in ("skip", wm.DeadLetter("bad")):
        builder = wm.StreamsBuilder("ids")
        builder.stream("customers", key="long", value="string").to("customer-ids", value="uuid")
        builder.policies("customer-ids", on_error=policy)
        driver = TopologyTestDriver(builder.build())
        driver.pipe("customers", key=1, value="no uuid", ts=0)
        assert driver.read("customer-ids") == []
        assert driver.drops == {("customer-ids", "unencodable" if policy == "skip" else "dead_letter"): 1}


@pytest.mark.spark
def test_why_spark_is_in_the_words_of_a_program(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("words")
    lines = builder.stream("lines", key="long", value=wm.json("words array<string>"))
    lines.map_values(F.udf(lambda line: len(line["words"]), "long")).to("words")
    why = TopologyTestDriver(builder.build()).why_spark
    assert "a UDF, F.udf, which Spark calls" in why
    assert "Generate" not in why


@pytest.mark.spark
@pytest.mark.parametrize(
    ("ts", "says"),
    [
        (-5, "before 1970, and is dropped: ts=-5"),
        (1_767_225_600, "in 1970: .*\nHint: If these are seconds, write ts=1767225600000"),
        (1_767_225_600_000_000, "beyond the year 3000: .*\nHint: If these are microseconds, write ts=1767225600000"),
    ],
)
@pytest.mark.filterwarnings("default::UserWarning")
def test_a_piped_time_of_another_unit_is_a_warning(spark: SparkSession, ts: int, says: str) -> None:
    builder = wm.StreamsBuilder("times")
    builder.stream("in", key="long", value="string").to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.warns(UserWarning, match=says):
        driver.pipe("in", key=1, value="a", ts=ts)
