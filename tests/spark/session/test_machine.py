"""The machine is looked at before Spark starts: each mistake is an error of a few lines with the cure, not a traceback.

Every Java here is a script that writes down that it was started.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

import watersmeet as wm
from watersmeet._spark.machine import (
    SessionConfig,
    check_machine,
    checked_brokers,
    checked_folders,
    checked_jars,
    checked_memory,
    checked_python,
    checked_spark,
    checks,
    found_java,
)
from watersmeet.cli.commands import main
from watersmeet.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
SHOWS = """    java.version = {version}
    os.arch = {machine}
openjdk version "{version}" 2026-01-01"""


def java(folder: Path, version: str, machine: str | None = None, *, code: int = 0) -> Path:
    """A program `java` in bin/ of the folder, which prints as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = SHOWS.format(version=version, machine=machine or platform.machine())
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {folder}/started\ncat >&2 <<'END'\n{text}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH of one folder, without a Java; the shell stays where scripts name it."""
    for name in (
        "JAVA_HOME",
        "SPARK_HOME",
        "SPARK_CONF_DIR",
        "PYSPARK_PYTHON",
        "SPARK_LOCAL_DIRS",
        "PYSPARK_SUBMIT_ARGS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'jdk' / 'bin'}:{tools(tmp_path)}")
    return tmp_path / "jdk"


def tools(folder: Path) -> Path:
    """A folder with what scripts call."""
    made = folder / "tools"
    made.mkdir()
    (made / "cat").symlink_to("/bin/cat")
    return made


def refusal(check: object, *given: object) -> tuple[str, str]:
    """The first sentence of an error, and its hint; it has no third line."""
    with pytest.raises(ConfigError) as caught:
        check(*given)  # type: ignore[operator]
    first, hint, *more = str(caught.value).splitlines()
    assert (hint[:6], more) == ("Hint: ", [])
    return first, hint


def test_without_a_java_the_error_says_where_it_was_looked_for(alone: Path) -> None:
    first, hint = refusal(found_java)
    assert first == "No Java was found: JAVA_HOME is not set, and the PATH has no `java`."
    assert "apt-get install openjdk-17" in hint


@pytest.mark.parametrize(("version", "fault"), [("1.8.0_402", "too old"), ("11.0.2", "too old"), ("26", "too new")])
def test_a_java_of_another_version_is_refused_by_its_version(alone: Path, version: str, fault: str) -> None:
    program = java(alone, version)
    wanted = f"Java {version} is {fault}, Spark needs Java 17 to 25: {program} (the first on the PATH)."
    assert refusal(found_java)[0] == wanted


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25-ea"])
def test_javas_from_17_to_25_are_taken(alone: Path, version: str) -> None:
    java(alone, version)
    assert found_java().version == version


def test_a_jdk_that_has_its_version_in_a_file_is_not_started(alone: Path) -> None:
    java(alone, "11")
    (alone / "release").write_text(f'JAVA_VERSION="21.0.2"\nOS_ARCH="{platform.machine()}"\n')
    assert found_java().version == "21.0.2"
    assert not (alone / "started").exists()


def test_a_java_for_another_processor_is_refused(alone: Path) -> None:
    java(alone, "17.0.1", "i386")
    assert "is for i386, and this machine is" in refusal(found_java)[0]


def test_a_java_that_does_not_run_is_refused_with_its_own_words(alone: Path) -> None:
    program = java(alone, "17.0.1", code=3)
    program.write_text("#!/bin/sh\necho 'cannot execute: required file not found' >&2\nexit 126\n")
    assert refusal(found_java)[0] == f"Java does not run: {program}: cannot execute: required file not found"


def test_a_java_home_that_is_none_is_refused_with_the_nearest_that_is_one(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = java(alone, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", "/nowhere/jdk")
    first, hint = refusal(found_java)
    assert first == "JAVA_HOME='/nowhere/jdk' has no program bin/java."
    assert f"unset it: the PATH has {program}" in hint
    monkeypatch.setenv("JAVA_HOME", str(alone / "bin"))
    assert f"Hint: JAVA_HOME='{alone}', or unset it" in refusal(found_java)[1]
    monkeypatch.setenv("JAVA_HOME", str(alone))
    assert found_java().program == program


def test_a_spark_home_of_another_version_or_of_nothing_is_refused(
    alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert checked_spark().startswith(pyspark.__version__)
    home = tmp_path / "spark"
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert refusal(checked_spark)[0] == f"SPARK_HOME='{home}' has no bin/spark-submit, so it is not a Spark."
    for folder, file in (("bin", "spark-submit"), ("jars", "spark-core_2.13-3.5.1.jar")):
        (home / folder).mkdir(parents=True)
        (home / folder / file).touch()
    first, hint = refusal(checked_spark)
    assert first.startswith(f"SPARK_HOME='{home}' is Spark 3.5.1, and PySpark is {pyspark.__version__} (")
    assert hint.startswith("Hint: Unset SPARK_HOME")
    (home / "jars" / "spark-core_2.13-3.5.1.jar").rename(home / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar")
    assert f"SPARK_HOME={home} is Spark {pyspark.__version__}" in checked_spark()


def test_a_spark_home_of_which_python_has_pyspark_may_stand_beside_another_pyspark(
    alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "spark" / "python" / "pyspark"
    monkeypatch.setattr(pyspark, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    assert refusal(checked_spark)[0].startswith(f"Python imports PySpark 4.0.1 from {package}, but ")
    home = tmp_path / "spark"
    for folder, file in (("bin", "spark-submit"), ("jars", "spark-core_2.13-4.0.1.jar")):
        (home / folder).mkdir(parents=True)
        (home / folder / file).touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert f"SPARK_HOME={home} is Spark 4.0.1" in checked_spark()


def test_a_script_of_spark_that_may_set_java_home_leaves_java_to_it(
    alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "No Java was found" in refusal(check_machine, SessionConfig())[0]
    (tmp_path / "spark-env.sh").write_text("JAVA_HOME=/opt/jdk")
    check_machine(SessionConfig())
    monkeypatch.setenv("SPARK_ENV_LOADED", "1")  # Spark does not run it again
    assert "No Java was found" in refusal(check_machine, SessionConfig())[0]


def test_arguments_for_spark_submit_are_looked_at_over_files(
    alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 2g\nspark.local.dir /a\n")
    (tmp_path / "other.conf").write_text("spark.driver.memory 3g\n")

    def wanted(submitted: str, config: dict[str, str]) -> tuple[str, str | None]:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{submitted} pyspark-shell")
        found = SessionConfig.of("local", (), config)
        return found.heap, found.settings.get("spark.local.dir")

    assert wanted("", {}) == ("2g", "/a")
    assert wanted("--driver-memory 5g --conf spark.local.dir=/b", {}) == ("5g", "/b")
    assert wanted(f"--properties-file {tmp_path / 'other.conf'}", {}) == ("3g", None)
    assert wanted("--conf spark.local.dir=/b", {"spark.local.dir": "/c"}) == ("2g", "/c")
    # the JVM is started with what stands last
    assert wanted("--driver-memory=5g", {"spark.driver.memory": "1g"})[0] == "5g"


def test_a_python_that_is_too_new_and_workers_of_another_one_are_refused(tmp_path: Path) -> None:
    assert "Python 3.14 has not been tried" in refusal(checked_python, None, (3, 14))[0]
    assert checked_python(sys.executable).endswith(sys.executable)
    other = tmp_path / "python"
    assert "is not a Python that runs" in refusal(checked_python, str(other))[0]
    other.write_text("#!/bin/sh\necho 3.8\n")
    other.chmod(0o755)
    first, hint = refusal(checked_python, str(other))
    assert first.startswith(f"PYSPARK_PYTHON='{other}' is Python 3.8, and this one is 3.")
    assert "Unset PYSPARK_PYTHON" in hint


def test_a_heap_that_does_not_fit_a_full_folder_and_a_missing_jar_are_refused(tmp_path: Path) -> None:
    assert checked_memory("1g", 2 << 30) == "2.0 GiB, of which the JVM's heap may take 1g"
    assert "do not fit into 1.0 GiB" in refusal(checked_memory, "1g", 1 << 30)[0]
    assert "spark.driver.memory='8g'" in refusal(checked_memory, "8g", 4 << 30)[0]
    assert str(tmp_path) in checked_folders([str(tmp_path)])
    assert "and 1099511627776 MB are needed" in refusal(checked_folders, [str(tmp_path)], 1 << 60)[0]
    gone = str(tmp_path / "gone")
    assert gone in checked_folders([gone])  # Spark makes it
    assert refusal(checked_folders, ["/sys/gone"])[0].endswith("cannot be written to: Permission denied.")
    assert refusal(checked_jars, [gone])[0] == f"The jar '{gone}' is not there."
    assert checked_jars([__file__, "hdfs:///jars/a.jar"]) == "test_machine.py, a.jar"


def test_each_check_looks_at_the_settings_of_the_session(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(alone, "17.0.1")
    check_machine(SessionConfig())
    assert "'900g'" in refusal(check_machine, SessionConfig({"spark.driver.memory": "900g"}))[0]
    assert "'/sys/x'" in refusal(check_machine, SessionConfig({"spark.local.dir": "/sys/x,/sys/y"}))[0]
    check_machine(SessionConfig({"spark.local.dir": "/sys/x,/tmp"}))  # Spark passes over the first
    monkeypatch.setenv("TMPDIR", "/gone")
    check_machine(SessionConfig())  # the JVM does not read it, and Python takes another
    check_machine(SessionConfig({"spark.local.dir": f"{alone}/not/there/yet"}))  # Spark makes it
    assert (
        '[spark], then "spark.driver.memory"'
        in refusal(check_machine, SessionConfig({"spark.driver.memory": "900g"}))[1]
    )
    assert "'/gone/a.jar'" in refusal(check_machine, SessionConfig(jars=["/gone/a.jar"]))[0]
    monkeypatch.setenv("PYSPARK_PYTHON", "/gone/python")
    check_machine(SessionConfig(here=False))  # a path of the executors
    assert "PYSPARK_PYTHON" in refusal(check_machine, SessionConfig())[0]


CALLS = [
    "import watersmeet as wm; wm.session()",
    "from watersmeet.prepare import main; main()",
    "import watersmeet.prepare as p; p.prepare()",
]


@pytest.mark.parametrize("call", CALLS)
def test_a_session_and_a_preparation_refuse_before_any_java_is_started(alone: Path, call: str) -> None:
    java(alone, "11.0.2")
    (alone / "release").write_text('JAVA_VERSION="11.0.2"\n')
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-2:]
    assert "Java 11.0.2 is too old" in last[0]
    assert last[1].startswith("Hint: Install Java 17")
    assert not (alone / "started").exists()


def test_the_doctor_lists_each_check_and_fails_if_one_does(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(alone, "17.0.1")
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 0, done.output
    assert [line.split(":")[0] for line in done.output.splitlines()] == [
        f"ok    {name}" for name in checks(SessionConfig())
    ]
    monkeypatch.setenv("JAVA_HOME", "/nowhere/jdk")
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 1
    assert "FAIL  Java: JAVA_HOME='/nowhere/jdk' has no program bin/java.\n      Hint: " in done.output
    said = {each["check"]: each for each in json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)}
    assert (said["Java"]["ok"], said["memory"]["ok"]) == (False, True)
    assert said["Java"]["hint"].startswith("JAVA_HOME must be the folder of a Java 17 to 25")


def test_a_check_that_fails_itself_loses_no_other(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(alone, "17.0.1")
    monkeypatch.setattr("watersmeet.cli.run.checks", lambda wanted: {"a": lambda: str(1 // 0), "b": lambda: "well"})
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 1
    assert "FAIL  a: The check itself has failed: ZeroDivisionError in test_machine.py, line " in done.output
    assert "ok    b: well" in done.output


def test_a_doctor_without_the_client_of_kafka_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match="needs the package confluent-kafka"):
        checked_brokers(wm.Kafka("127.0.0.1:1"))


def test_the_doctor_asks_a_broker_that_does_not_answer(alone: Path) -> None:
    java(alone, "17.0.1")
    done = CliRunner().invoke(main, ["doctor", "--kafka", "127.0.0.1:1"])
    assert done.exit_code == 1
    assert "FAIL  Kafka: No broker answers at 127.0.0.1:1" in done.output
    assert "connector: " in done.output
    config = alone.parent / "run.toml"
    config.write_text('[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[spark]\n"spark.driver.memory" = "900g"\n')
    by_file = CliRunner().invoke(main, ["doctor", "--config", str(config)]).output
    assert "FAIL  memory: The JVM's heap, spark.driver.memory='900g'" in by_file
    assert "FAIL  Kafka: No broker answers at 127.0.0.1:1" in by_file
    unknown = CliRunner().invoke(main, ["doctor", "--kafka", f"{'x' * 70}.org:1"]).output
    assert "FAIL  Kafka: No broker answers at " in unknown
    assert "got the port 99999" in CliRunner().invoke(main, ["doctor", "--kafka", "localhost:99999"]).output
    assert "and got no host:port" in CliRunner().invoke(main, ["doctor", "--kafka", "b,localhost:1"]).output
    assert "and got 'broker'" in CliRunner().invoke(main, ["doctor", "--kafka", "broker"]).output
