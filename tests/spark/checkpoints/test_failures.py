"""Why a query failed, read from what Spark says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet._spark.query.failures import is_of_record, of_start, translate
from watersmeet.errors import ConfigError, CorruptData, FunctionError, SinkError, SourceError, WatersmeetError

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted
Traceback (most recent call last):
  File "worker.py", line 2226, in main
watersmeet.errors.SinkError: The rows of a task broke off: something above it failed, or the task was stopped.
Hint: None of its rows are written; the error above, if there is one, gives the reason.

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: Traceback (most recent call last):
watersmeet.errors.StateError: a chunk of a shard's state is missing from the state store
Given: run 12, chunk 0 of 1
of two lines
Hint: the checkpoint is incomplete; restart from a copy of it

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_a_worker_comes_back_with_its_parts_and_before_what_followed_from_it() -> None:
    found = translate(Exception(WORKER), "/c")
    assert type(found).__name__ == "StateError"
    assert isinstance(found, CorruptData)
    assert found.given == "run 12, chunk 0 of 1\nof two lines"
    assert found.hint == "the checkpoint is incomplete; restart from a copy of it"


def test_rows_that_broke_off_are_the_error_where_there_is_no_other() -> None:
    found = translate(Exception(WORKER.partition("Caused by")[0]), "/c")
    assert isinstance(found, SinkError)
    assert found.given is None
    assert found.hint is not None


@pytest.mark.parametrize(
    "said",
    [
        "watersmeet._engine.expressions.tree.EvaluationError: [DIVIDE_BY_ZERO] Division by zero.\n",
        "ZeroDivisionError: division by zero\n",
        "watersmeet.errors.FunctionError: A sum is too large for its type.\nGiven: int64: overflow\n",
    ],
    ids=["columns", "plain", "sum"],
)
def test_a_record_for_which_a_fold_or_a_function_of_peek_raises_may_end_under_another_policy(said: str) -> None:
    hint = "Hint: Sum decimals.\n" if "Given" in said else ""
    failure = Exception(
        f"Caused by: Traceback (most recent call last):\n{said}In a function of totals.\n{hint}\n\tat org"
    )
    found = translate(failure, "/c")
    assert is_of_record(found, {"totals", "orders"})
    assert not is_of_record(found, {"orders"})


@pytest.mark.parametrize(
    "said",
    [
        "[DIVIDE_BY_ZERO] Division by zero.\nIn a function of totals.",
        "[DIVIDE_BY_ZERO] Division by zero. In a function behind shop.orders, at partition 0, offset 3.",
        "[DIVIDE_BY_ZERO] Division by zero. In a function behind totals.",
        "ZeroDivisionError: division by zero\nIn a function of totals.",
    ],
)
def test_a_function_that_raises_is_told_with_whose_it_is_and_what_lets_the_query_go_on(said: str) -> None:
    raised = said if said.startswith("Zero") else f"watersmeet._engine.expressions.tree.EvaluationError: {said}"
    failure = Exception(f"[FOREACH] Reason: Traceback:\n  File 'a.py'\n{raised}\n SQLSTATE: 39000\n\tat org.apache")
    found = translate(failure, "/c")
    assert isinstance(found, FunctionError)
    assert (found.message, found.given) == ("A function raises for a record.", said)
    assert 'on_error="skip"' in str(found)
    assert is_of_record(found, {"shop.orders", "totals"})
    assert not is_of_record(found, {"other"})


def test_an_error_that_a_column_of_the_plan_could_raise_is_not_what_happened() -> None:
    plan = "+- Project [raise_error(watersmeet.errors.SourceError: The key of a Kafka record cannot be decoded.)]"
    text = f"[DIVIDE_BY_ZERO]\n=== Streaming Query ===\nLogical Plan:\n{plan}\n"
    text = f"{text}\nJVM stacktrace:\n{text}\n\tat org.apache.spark\n"
    failure = Exception(text)
    assert translate(failure, "/c") is failure
    behind = "Caused by: watersmeet.errors.StateError: a chunk is missing"
    assert str(translate(Exception(text + behind), "/c")) == "a chunk is missing"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.", CorruptData),
        ("Checksum error: file:/c/offsets/2 at 0 exp: 1 got: 2", CorruptData),
        ("Failed to read log file file:/c/offsets/2. Incomplete log file", CorruptData),
        ("batch 2 doesn't exist", CorruptData),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", ConfigError),
        ("Race while writing batch 1", ConfigError),
    ],
)
def test_what_spark_says_of_a_checkpoint_gets_a_name_and_is_shown(said: str, kind: type[WatersmeetError]) -> None:
    found = translate(
        Exception(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {said}\n=== Query ==="), "/c"
    )
    assert type(found) is kind
    assert "/c" in str(found.given)  # type: ignore[attr-defined]
    assert found.hint  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "said",
    [
        "[USER_RAISED_EXCEPTION] Checksum error: the card's last digit is wrong SQLSTATE: P0001",
        "An exception was raised by the Python Proxy. Return Message: RuntimeError: batch 7 doesn't exist",
        "Job aborted\nCaused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/in/part-0 at 0 exp: 1",
        "Job aborted\nTraceback (most recent call last):\nValueError: Checksum error: /c/offsets/2 is my own text",
    ],
)
def test_a_text_of_the_users_own_and_a_file_elsewhere_are_no_broken_checkpoint(said: str) -> None:
    failure = Exception(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {said}\n=== Query ===")
    assert translate(failure, "/c") is failure


def test_any_other_failure_stays_what_it_is() -> None:
    for text in ("[STREAM_FAILED] Query terminated with exception: [DIVIDE_BY_ZERO]", "watersmeet.errors.Unheard: no"):
        failure = Exception(text)
        assert translate(failure, "/c") is failure


LOGIN = "org.apache.kafka.common.config.ConfigException: Invalid value canary-5431 for configuration security.protocol"
GONE = (
    "[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED] "
    "Some data may have been lost because they are not available in Kafka any more;\n"
    "Reason:\nPartition orders-0 offset was changed from 5 to 2.\nThis could be either 1) a user error"
)
SILENT = (
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: describeTopics"
)


@pytest.mark.parametrize(
    ("said", "kind", "given"),
    [
        (LOGIN, ConfigError, "security.protocol"),
        (GONE, SourceError, "Partition orders-0 offset was changed from 5 to 2"),
        (GONE.partition("] ")[2], SourceError, "Partition orders-0 offset was changed from 5 to 2"),
        (SILENT, SourceError, "Timed out waiting for a node assignment. Call: describeTopics"),
    ],
)
def test_what_kafkas_java_client_says_gets_a_name_and_no_value_of_a_setting(
    said: str, kind: type[WatersmeetError], given: str
) -> None:
    found = translate(
        Exception(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {said}\n=== Query ==="), "/c"
    )
    assert type(found) is kind
    assert given in str(found.given or found.message)  # type: ignore[attr-defined]
    assert found.hint  # type: ignore[attr-defined]
    assert "canary" not in str(found)


def test_a_checkpoint_on_a_file_system_that_spark_does_not_have_is_named() -> None:
    missing = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    for checkpoint, text in (
        ("s3a://bucket/cp", missing),
        ("dbfs:/cp", 'UnsupportedFileSystemException: No FileSystem for scheme "dbfs"'),
        ("hdfs://nowhere.invalid:8020/cp", "java.net.UnknownHostException: nowhere.invalid"),
    ):
        error = of_start(Exception(f"An error occurred.\n: {text}\n\tat x"), checkpoint)
        assert isinstance(error, ConfigError)
        assert (error.message, error.hint is not None) == ("The checkpoint cannot be written.", True)
        assert str(error.given).startswith(checkpoint)
    elsewhere = Exception(missing)
    assert of_start(elsewhere, "/data/cp") is elsewhere


@pytest.mark.parametrize(
    "said",
    [
        "java.io.IOException: mkdir of file:/proc/no/cp/watersmeet/topology failed",
        "ExitCodeException: mkdir: cannot create directory '/proc/no/cp': Permission denied",
        "ParentNotDirectoryException: Parent path is not a directory: file:/proc/no/cp",
        "ParentNotDirectoryException: Parent path is not a directory: file:/proc/no",
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_named(said: str) -> None:
    found = of_start(Exception(said), "file:///proc/no/cp")
    assert isinstance(found, ConfigError)
    assert "file:///proc/no/cp" in str(found.given)
    elsewhere = Exception(said.replace("/proc/no", "/other"))
    assert of_start(elsewhere, "file:///proc/no/cp") is elsewhere


ENDED_JVM = """
import sys
import watersmeet as wm
spark = wm.session("ended", master="local[1]", config={"spark.ui.enabled": "false"})
builder = wm.StreamsBuilder("ended")
ticks = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS k", "value AS v", "timestamp AS ts")
stream = builder.stream(ticks, key="k", value="v", timestamp="ts", order="k", name="ticks")
stream.to(wm.ForeachBatch(lambda rows, batch: None), name="out")
query = builder.build().start(spark, checkpoint=sys.argv[1])
try:
    # as Spark does where a task finds the heap full
    spark._jvm.java.lang.System.exit(52)
except Exception:
    pass
try:
    query.awaitTermination()
except wm.ConfigError as error:
    print(error)
"""


def test_a_jvm_whose_memory_is_full_is_said_with_the_setting_that_bounds_what_it_holds(tmp_path: Path) -> None:
    program = [sys.executable, "-c", ENDED_JVM, str(tmp_path / "cp")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "The JVM of Spark has ended: its memory was full." in done.stdout, done.stderr
    assert 'consumer={"max.poll.records": "2"}' in done.stdout
    assert "Traceback" not in done.stderr


def test_a_heap_that_is_full_on_an_executor_is_said_too() -> None:
    found = translate(Exception("Lost task 0.0 (TID 1): java.lang.OutOfMemoryError: Java heap space\n\tat kafka"), "/c")
    assert isinstance(found, ConfigError)
    assert "max.poll.records" in str(found.hint)
