"""A line in the terminal or the notebook that says how far a query is, drawn anew while it runs (`progress=True`).

Where there is neither, as in a service's log, nothing is drawn and nothing is asked. Spark's own numbers are read:
those of the last batch, and how many tasks of the batch under way have ended.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from watersmeet._spark.metrics.metrics import Metrics
from watersmeet.errors import ConfigError
from watersmeet.extras import installing

DRAW_EVERY = 0.5
"""Seconds between two lines."""
_FORMAT = "{desc}: {n:,} records [{elapsed}, {rate_fmt}{postfix}]"


def check() -> None:
    """Raise where nothing can be drawn.

    Raises
    ------
    ConfigError : a package is missing.
    """
    if find_spec("tqdm") is None:
        raise ConfigError(
            "progress=True needs a package that is not installed: tqdm.",
            given="progress=True",
            hint=f"{installing('watch')}; or leave progress out and read query.metrics().",
        )


def is_interactive(out: TextIO) -> bool:
    """Whether somebody looks: at a terminal, or in a notebook."""
    shell = sys.modules.get("IPython")
    kernel = shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {})
    return kernel or out.isatty()


class Live:
    """The line, until it is closed or the query has ended.

    Parameters
    ----------
    spark : the query's session.
    title : what the line begins with.
    read : gives the query's numbers.
    out : where it is drawn; a notebook has a place of its own.
    """

    def __init__(self, spark: SparkSession, title: str, read: Callable[[], Metrics], out: TextIO) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        self._spark, self._read = spark, read
        self._bar: Any = tqdm(desc=title, unit=" records", unit_scale=True, file=out, bar_format=_FORMAT, mininterval=0)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._draw, name=f"line of {title}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The line stays as it is; again is no error."""
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self._show(self._read())
            self._bar.close()

    def _draw(self) -> None:
        with suppress(PySparkException, OSError):  # Spark itself has ended
            while not self._closed.wait(DRAW_EVERY):
                now = self._read()
                if not now.active:
                    return
                self._show(now)

    def _show(self, now: Metrics) -> None:
        self._bar.n = sum(now.consumed.values())
        self._bar.set_postfix_str(text(now, *(running_stages(self._spark) if now.active else (0, 0.0))), refresh=False)
        self._bar.refresh()


def text(now: Metrics, stages: int, ended: float) -> str:
    """The text beside the number of records.

    Parameters
    ----------
    stages, ended : of the jobs that run, and how many of them have ended.
    """
    said = [f"{now.batches} batches"]
    if stages:
        said.append(f"stage {min(int(ended) + 1, stages)} of {stages}")
    if now.lag:
        said.append(f"lag {now.total_lag:,}")
    if now.drops:
        said.append(f"{sum(now.drops.values()):,} dropped")
    return ", ".join(said)


def running_stages(spark: SparkSession) -> tuple[int, float]:
    """Stages of the jobs that are running, and how many of them have ended, by their tasks."""
    tracker, found, ended = spark.sparkContext.statusTracker(), 0, 0.0
    # a job may end between two questions
    jobs = [job for number in tracker.getActiveJobsIds() if (job := tracker.getJobInfo(number)) is not None]
    for stage in (stage for job in jobs for stage in job.stageIds):
        found += 1
        info = tracker.getStageInfo(stage)
        if info is not None and info.numTasks:
            ended += info.numCompletedTasks / info.numTasks
    return found, ended
