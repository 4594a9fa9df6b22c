"""Sessions and settings: what is set, what is checked, what a query takes at its start, what is put back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
import pytest
from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
from py4j.protocol import MEMORY_COMMAND_NAME  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet._spark import columns, worker_daemon
from watersmeet._spark import session as settings
from watersmeet._spark.session import JAVA_OPTIONS, connector, kafka_package, of_this_machine, session, sockets
from watersmeet.errors import ConfigError
from watersmeet.versions import without_archives

PARTITIONS = "spark.sql.shuffle.partitions"
BATCH_SIZE = "spark.sql.execution.arrow.maxRecordsPerBatch"
POLLING = "spark.sql.streaming.pollingDelay"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def test_the_session_there_is_comes_back_checked(spark: SparkSession) -> None:
    assert session() is spark
    assert spark.conf.get(PROVIDER) == settings.ROCKSDB
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def imported(batches: Iterator[Any]) -> Iterator[Any]:
    """Whether this worker had what it needs before it was asked to do anything: its daemon has it too."""
    line = Path(f"/proc/{os.getppid()}/cmdline").read_text() if Path("/proc").exists() else settings.DAEMON
    found = all(module in sys.modules for module in worker_daemon.NEEDED) and settings.DAEMON in line
    for _ in batches:
        yield pd.DataFrame({"found": [found]})


def test_workers_on_this_machine_begin_with_what_they_need(spark: SparkSession) -> None:
    assert spark.range(1).mapInPandas(imported, "found boolean").collect() == [(True,)]


def places(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        yield pd.DataFrame({"place": [os.path.dirname(sys.modules["pyspark"].__file__ or "")]})


def test_workers_take_the_pyspark_that_is_installed_and_compiled_and_not_sparks_archive(spark: SparkSession) -> None:
    (row,) = spark.range(1).mapInPandas(places, "place string").collect()
    assert row["place"] == os.path.dirname(pyspark.__file__)
    library = os.path.join(row["place"], "python", "lib")
    archives = [os.path.join(library, name) for name in os.listdir(library) if name.endswith(".zip")]
    assert len(archives) == 2
    assert without_archives([*archives, *sys.path]) == sys.path
    # of another Spark: its modules may be others
    strange = ["/opt/spark/python/lib/pyspark.zip", *sys.path]
    assert without_archives(strange) == strange
    assert without_archives(archives) == archives


def test_a_start_begins_the_daemon_once_in_an_application(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(settings, "_with_daemon", set())
    monkeypatch.setattr(settings.process, "in_background", lambda call, name: begun.append(call))
    settings.begin_daemon(spark)
    settings.begin_daemon(spark)
    (call,) = begun
    assert [row["id"] for row in call()] == [0]


def test_the_daemon_is_run_without_a_warning_of_python() -> None:
    # Python imports the package of a module that it runs, and warns where that imports the module itself
    package, _, module = settings.DAEMON.rpartition(".")
    program = f"import sys, {package}; print({settings.DAEMON!r} in sys.modules, {module!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False worker_daemon\n"


def test_the_connector_is_fetched_unless_somebody_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert connector(True, ["a.jar", "b.jar"], {}) == {"spark.jars": "a.jar,b.jar"}
    assert connector(False, None, {}) == {}
    assert connector(True, None, {"spark.jars.packages": kafka_package()}) == {}
    # who names further repositories has Spark ask them
    wanted = {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}
    assert connector(True, None, {"spark.jars.repositories": "https://mirror"}) == wanted
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--packages {kafka_package()} pyspark-shell")
    assert connector(True, None, {}) == {}


def test_a_running_spark_is_asked_whether_it_has_the_connector(spark: SparkSession) -> None:
    assert session(kafka=True) is spark


def test_a_session_without_the_connector_cannot_be_given_one_later(spark: SparkSession) -> None:
    before = spark.conf.get("spark.jars", None)
    with pytest.raises(ConfigError, match=r"already, made with other settings(.|\n)*Hint: Stop it first"):
        session(jars=["elsewhere.jar"])
    assert spark.conf.get("spark.jars", None) == before


def test_speculation_is_refused_and_a_python_of_its_own_for_every_task_warned_of() -> None:
    with pytest.raises(ConfigError, match=r"spark\.speculation = true is .*\nHint: "):
        settings.check_running(lambda name, default: {"spark.speculation": "true"}.get(name, default))
    with pytest.warns(UserWarning, match=r"spark\.python\.worker\.reuse is off(.|\n)*Hint: "):
        settings.check_running(lambda name, default: {"spark.python.worker.reuse": "false"}.get(name, default))
    settings.check_running(lambda name, default: default)


def test_settings_are_put_back_even_after_an_error(spark: SparkSession, tmp_path: Path) -> None:
    names = [*settings.AT_START, PARTITIONS]
    spark.conf.set(BATCH_SIZE, "123")
    try:
        before = {name: spark.conf.get(name, None) for name in names}
        with settings.query_settings(spark, 5, str(tmp_path)):
            assert spark.conf.get(PARTITIONS) == "5"
            assert spark.conf.get(BATCH_SIZE) == settings.AT_START[BATCH_SIZE]
        with pytest.raises(AnalysisException), settings.query_settings(spark, 5, str(tmp_path)):
            spark.sql("select nothing")
        assert {name: spark.conf.get(name, None) for name in names} == before
        assert spark.conf.get(BATCH_SIZE) == "123"
    finally:
        spark.conf.unset(BATCH_SIZE)


def test_a_query_looks_for_new_records_less_often_than_sparks_own_unless_the_session_says_how_often(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark.conf.get(POLLING, None) is None
    with settings.query_settings(spark, 5, str(tmp_path)):
        assert spark.conf.get(POLLING) == "50ms"
    assert spark.conf.get(POLLING, None) is None
    spark.conf.set(POLLING, "7ms")
    try:
        with settings.query_settings(spark, 5, str(tmp_path)):
            assert spark.conf.get(POLLING) == "7ms"
    finally:
        spark.conf.unset(POLLING)


def test_of_two_starts_at_once_each_has_its_own_settings_and_the_session_its_own_behind_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    before, seen = spark.conf.get(PARTITIONS), []
    inside = threading.Event()

    def start(tasks: int) -> None:
        with settings.query_settings(spark, tasks, str(tmp_path)):
            inside.set()
            seen.append(spark.conf.get(PARTITIONS))

    other = threading.Thread(target=start, args=(7,))
    with settings.query_settings(spark, 5, str(tmp_path)):
        other.start()
        # the other one has its chance; how long it is given can let a fault pass, but none appear
        assert not inside.wait(0.5)
        seen.append(spark.conf.get(PARTITIONS))
    other.join()
    assert seen == ["5", "7"]
    assert spark.conf.get(PARTITIONS) == before


def test_files_of_a_checkpoint_on_this_disk_are_renamed_without_asking_for_links(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "watersmeet").mkdir()
    assert spark.conf.get(settings.FILE_MANAGER) == settings.PLAIN_FILES
    with settings.overridden(spark, {settings.FILE_MANAGER: "mine"}):
        with settings.query_settings(spark, 2, str(tmp_path)):
            assert spark.conf.get(settings.FILE_MANAGER) == "mine"
        spark.conf.unset(settings.FILE_MANAGER)
        for elsewhere in ("s3a://bucket/c", str(tmp_path / "none")):
            with settings.query_settings(spark, 2, elsewhere):
                assert spark.conf.get(settings.FILE_MANAGER, None) is None
        for here in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
            with settings.query_settings(spark, 2, here):
                assert spark.conf.get(settings.FILE_MANAGER) == settings.PLAIN_FILES
    # HDFS would keep the state's files of a batch's first try
    with settings.query_settings(spark, 2, "hdfs://host/c"):
        assert spark.conf.get(settings.FILE_MANAGER, None) is None
    assert spark.conf.get(settings.FILE_MANAGER) == settings.PLAIN_FILES


def test_spark_keeps_enough_progress_for_all_drops_to_be_counted(spark: SparkSession, tmp_path: Path) -> None:
    name = "spark.sql.streaming.numRecentProgressUpdates"
    for given, kept in (("1", "100"), ("5000", "5000")):
        with settings.overridden(spark, {name: given}), settings.query_settings(spark, 2, str(tmp_path)):
            assert spark.conf.get(name) == kept


def test_a_setting_that_no_one_had_set_is_unset_again(spark: SparkSession) -> None:
    name = "watersmeet.test.nobody"
    with settings.overridden(spark, {name: "1"}):
        assert spark.conf.get(name) == "1"
    assert spark.conf.get(name, None) is None


def test_a_query_keeps_what_it_took_at_its_start_whatever_the_session_has_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The tasks of its exchanges come from the checkpoint at a restart, all else from the session again."""
    seen: list[str] = []

    def note(frame: DataFrame, _: int) -> None:
        frame.count()
        seen.append(frame.sparkSession.conf.get(BATCH_SIZE) or "")

    def run(tasks: int, batch_size: str) -> int:
        folder = tmp_path / "in" / f"{len(seen)}"
        spark.range(1).write.parquet(str(folder))
        with settings.query_settings(spark, tasks, str(tmp_path)), settings.overridden(spark, {BATCH_SIZE: batch_size}):
            query = (
                spark.readStream.schema("id long").parquet(f"{tmp_path}/in/*").groupBy("id").count()
                .writeStream.outputMode("update").option("checkpointLocation", f"{tmp_path}/c")
                .foreachBatch(note).trigger(availableNow=True).start()
            )  # fmt: skip
        # the session is back at its own settings while the query runs
        assert spark.conf.get(PARTITIONS) == "2"
        query.awaitTermination()
        progress = query.lastProgress
        assert progress is not None
        return progress.stateOperators[0].numShufflePartitions

    assert [run(3, "1000"), run(4, "2000")] == [3, 3]
    assert seen == ["1000", "2000"]


def test_one_collector_is_named_and_somebody_elses_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
    for variable in (*JAVA_OPTIONS, "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    collector = settings.COLLECTOR["spark.driver.defaultJavaOptions"]
    assert of_this_machine({})[names[1]] == collector
    assert of_this_machine({names[0]: "-Xss4m"})[names[1]] == collector
    assert names[1] not in of_this_machine({names[0]: "-Xss4m -XX:+UseZGC"})
    for variable in JAVA_OPTIONS:
        monkeypatch.setenv(variable, "-XX:+UseSerialGC")
        assert names[1] not in of_this_machine({})
        monkeypatch.delenv(variable)
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:+UseG1GC\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert names[1] not in of_this_machine({})


def test_the_second_compiler_waits_longer_on_this_machine_unless_somebody_says_otherwise() -> None:
    local, elsewhere = (settings._jvm_options("-XX:+UseG1GC", [], is_local=here) for here in (True, False))
    assert settings.COMPILER in local
    assert "Tier4" not in elsewhere
    # Spark puts the options of users behind these, and of two the JVM takes the last
    own = "-XX:TieredStopAtLevel=1 -XX:Tier4InvocationThreshold=7"
    command = ["java", *settings.COMPILER.split(), *own.split(), "-XX:+PrintFlagsFinal", "-version"]
    flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {name: value for _, name, _, value, *_ in map(str.split, flags.splitlines()[1:])}
    assert (found["TieredStopAtLevel"], found["Tier4InvocationThreshold"]) == ("1", "7")
    assert found["Tier4CompileThreshold"] == "120000"


def test_workers_are_reached_through_files_unless_their_folders_name_is_too_long() -> None:
    given = sockets("/short")
    assert given["spark.python.unix.domain.socket.enabled"] == "true"
    assert given["spark.python.unix.domain.socket.dir"] == "/short"
    assert sockets("/" + "x" * 59) != {}
    # counted in bytes
    assert sockets("/" + "x" * 60) == sockets("/" + "é" * 30) == {}


def test_the_folder_of_the_workers_sockets_is_this_users_alone_and_no_other_sessions() -> None:
    folders = [of_this_machine({})["spark.python.unix.domain.socket.dir"] for _ in range(2)]
    assert len(set(folders)) == 2
    assert [stat.S_IMODE(Path(folder).stat().st_mode) for folder in folders] == [0o700, 0o700]


def test_sockets_of_the_running_session_lie_in_a_folder_of_this_user_alone(spark: SparkSession) -> None:
    spark.range(1).mapInPandas(imported, "found boolean").collect()
    folder = Path(spark.conf.get("spark.python.unix.domain.socket.dir") or "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def allocator(batches: Iterator[Any]) -> Iterator[Any]:
    """What this worker was told of giving memory back."""
    for _ in batches:
        yield pd.DataFrame({"found": [os.environ.get(name) for name in ALLOCATORS]})


ARROWS = ("MIMALLOC_PURGE_DELAY", "ARROW_DEFAULT_MEMORY_POOL")
ALLOCATORS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", *ARROWS)


def test_workers_on_this_machine_have_one_allocator_that_keeps_memory_until_a_task_ends(spark: SparkSession) -> None:
    found = [row.found for row in spark.range(1).mapInPandas(allocator, "found string").collect()]
    given: dict[str, str] = {**settings.SESSION, **settings.LOCAL}
    assert found == [*settings.WORKERS_ALLOCATOR.values(), *(given.get(f"spark.executorEnv.{name}") for name in ARROWS)]


def test_columns_of_our_own_take_few_calls_and_those_of_users_still_say_their_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send, me = GatewayClient.send_command, threading.get_ident()

    def counted(client: GatewayClient, command: str, *rest: Any, **named: Any) -> Any:
        # other threads have calls of their own, and the collector lets objects of other tests go in any call
        if threading.get_ident() == me and not command.startswith(MEMORY_COMMAND_NAME):
            sent.append(command)
        return send(client, command, *rest, **named)

    def calls() -> int:
        sent.clear()
        _ = (F.col("id") / F.lit(0)).alias("b")
        return len(sent)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    calls()  # the first one finds out whether lines are to be said
    named = calls()
    with columns.without_origins(), columns.without_origins():
        assert calls() < named
    assert calls() == named
    with pytest.raises(ArithmeticException, match=r"test_session\.py"):
        spark.range(1).select(F.col("id") / F.lit(0)).collect()
    monkeypatch.setattr(columns, "_ORIGINS_FLAG", "not there")
    with columns.without_origins():
        assert calls() == named
