"""The Spark task that this process runs; the test driver's own process runs none.

Only this file of `_worker` calls Spark.
"""

from __future__ import annotations

from pyspark import TaskContext


def in_task() -> bool:
    """Whether this process runs a Spark task."""
    return TaskContext.get() is not None


def partition() -> int:
    """The number of the task's partition; 0 outside a task."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def attempt_id() -> int:
    """The number of this attempt, unique in the application; 0 outside a task."""
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def tried_before() -> bool:
    """Whether an earlier attempt at this task has failed."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def job_property(name: str) -> str | None:
    """A property that the driver has set for the job; None where it has not, and outside a task."""
    context = TaskContext.get()
    return context.getLocalProperty(name) if context else None
