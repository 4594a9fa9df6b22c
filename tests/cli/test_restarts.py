"""`run --restart N`: which failures are followed by another start, how often, how long after, and what is said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from watersmeet import errors
from watersmeet._spark.metrics.totals import CountedPlan, Totals
from watersmeet._spark.query.failures import kafka_failure, translate
from watersmeet._spark.query.restarts import RESTART_PERIOD_SECONDS, Restarts, may_pass
from watersmeet._worker.kafka_client import NO_RETURN
from watersmeet.cli.commands import main
from watersmeet.cli.run import check_accepted, read_config

LOST = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 in stage 3.0 "
    "failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 2): {}"
)
UNANSWERED = kafka_failure("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node")
OF_A_WORKER = "watersmeet.errors.SinkError: Kafka refuses the records.\nGiven: orders: {}: said\nHint: Do this.\n\tat x"
MAY_PASS = {
    "Kafka does not answer a source": UNANSWERED,
    "topics that were made during the start": kafka_failure("[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED]"),
    "brokers are down, in a task": translate(Exception(OF_A_WORKER.format("_ALL_BROKERS_DOWN")), "/cp"),
    "too few replicas, in a task": translate(Exception(OF_A_WORKER.format("NOT_ENOUGH_REPLICAS")), "/cp"),
    "a client that hangs": errors.SinkError(NO_RETURN, given="waited 90 s"),
    "an executor": Exception(LOST.format("ExecutorLostFailure (executor 2 exited) Reason: worker lost")),
    "a killed task": Exception(LOST.format("TaskKilled (another attempt succeeded)")),
    "a worker": Exception(LOST.format("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")),
    "a network": Exception("x\nCaused by: java.net.ConnectException: Connection refused"),
}
STAYS = {
    "a changed topology": errors.ChangedTopology("Another topology."),
    "damaged state": errors.StateError("A run is missing."),
    "a wrong setting": errors.ConfigError("No such topic."),
    "a function that raises": translate(
        Exception(LOST.format("x.EvaluationError: [E] ExecutorLostFailure In a function behind 'orders'.")), "/cp"
    ),
    "a function's own text": Exception(LOST.format("java.lang.Error: ExecutorLostFailure, a user wrote")),
    "a record that Kafka refuses": translate(Exception(OF_A_WORKER.format("MSG_SIZE_TOO_LARGE")), "/cp"),
    "a topic that is gone": kafka_failure("[KAFKA_DATA_LOSS.COULD_NOT_READ]"),
    "anything else": ValueError("Kafka does not answer."),
}


@pytest.mark.parametrize("what", MAY_PASS)
def test_a_restart_follows_what_may_pass(what: str) -> None:
    assert may_pass(MAY_PASS[what])


@pytest.mark.parametrize("what", STAYS)
def test_no_restart_follows_what_stays(what: str) -> None:
    assert not may_pass(STAYS[what])


class Ending:
    """A query that ends in a given way; its drops are one record."""

    drops = {("orders", "late"): 1}  # noqa: RUF012

    def __init__(self, failure: Exception | None, stopped: list[Any]) -> None:
        self._failure, self._stopped = failure, stopped

    def awaitTermination(self) -> None:
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._stopped.append(self._failure)


class Clock:
    """A clock that goes on while somebody waits; the pauses are noted."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def starting(*ends: Exception | str | None, stopped: list[Any] | None = None) -> Callable[[], Any]:
    """Starts one query after the other; a text is an error of the start itself, which may pass."""
    left = iter(ends)

    def start() -> Any:
        end = next(left)
        if isinstance(end, str):
            raise errors.SinkError(NO_RETURN, given=end)
        return Ending(end, [] if stopped is None else stopped)

    return start


def run(limit: int, start: Callable[[], Any], clock: Clock) -> Any:
    return Restarts(limit, clock.pause, lambda: clock.now).run(start)


def test_the_query_goes_on_and_each_restart_is_said_with_its_pause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "watersmeet.query")
    clock, stopped = Clock(), list[Any]()
    drops = run(3, starting(UNANSWERED, "at the start", UNANSWERED, None, stopped=stopped), clock)
    assert drops == {("orders", "late"): 3}
    assert clock.pauses == [1.0, 2.0, 4.0]
    assert stopped == [UNANSWERED, UNANSWERED], "what holds an address is closed before the next start"
    assert (
        "SourceError: Kafka does not answer. It is started again in 1 s (restart 1 of 3 within an hour)" in caplog.text
    )
    assert caplog.text.count("It is started again") == 3


def test_after_so_many_restarts_the_error_is_raised() -> None:
    clock = Clock()
    with pytest.raises(errors.SourceError, match="Kafka does not answer"):
        run(2, starting(UNANSWERED, UNANSWERED, UNANSWERED), clock)
    assert len(clock.pauses) == 2
    with pytest.raises(errors.SourceError):
        run(0, starting(UNANSWERED), Clock())


def test_restarts_that_are_more_than_an_hour_ago_do_not_count() -> None:
    clock = Clock()
    start = starting(UNANSWERED, UNANSWERED, UNANSWERED, None)

    def hourly() -> Any:
        clock.now += RESTART_PERIOD_SECONDS + 1
        return start()

    run(1, hourly, clock)
    assert clock.pauses == [1.0, 1.0, 1.0]


def test_what_stays_and_the_first_start_end_at_once() -> None:
    clock = Clock()
    with pytest.raises(errors.ChangedTopology):
        run(5, starting(STAYS["a changed topology"]), clock)
    with pytest.raises(errors.SinkError):
        run(5, starting("at the start"), clock)
    assert clock.pauses == []


def test_ctrl_c_in_a_pause_ends_with_the_error_that_had_ended_the_query() -> None:
    def pressed(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(errors.SourceError):
        Restarts(5, pressed).run(starting(UNANSWERED, None))


def test_the_limit_comes_from_the_file_or_the_command_line_and_is_checked(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('topology = "a:b"\nrestart = 5\n')
    read = read_config(tmp_path / "run.toml")
    assert read.restart == 5
    assert read.with_given(restart=None).restart == 5
    assert read.with_given(restart=0).restart == 0
    given = ["run", "a:b", "--checkpoint", str(tmp_path / "cp"), "--restart", "-1"]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 1
    assert "restart=-1" in result.output
    assert "Hint: --restart 5" in result.output


@pytest.mark.parametrize(("refused", "ends"), [(3, True), (2, False)])
def test_a_run_ends_with_an_error_if_all_records_of_an_input_were_refused(refused: int, ends: bool) -> None:
    counted = Totals(CountedPlan(())).metrics(active=False, at_ms=0)
    drops = {("orders", "undecodable"): refused, ("orders", "null_key"): 3, ("others", "dead_letter"): 3}
    now = replace(counted, consumed={"orders": 3, "rest": 0}, drops=drops)
    if not ends:
        check_accepted(now)
        return
    with pytest.raises(errors.SourceError, match="All 3 records of the input 'orders' were refused: undecodable"):
        check_accepted(now)
