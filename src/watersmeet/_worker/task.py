"""What Spark tells a task of itself; outside of a task, as in the test driver's own process, there is none.

The one file of the worker's floor that asks Spark for anything.
"""

from __future__ import annotations

from pyspark import TaskContext


def in_task() -> bool:
    """Whether this is a task of Spark's."""
    return TaskContext.get() is not None


def partition() -> int:
    """Number of the task's partition; 0 outside of a task."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def attempt_id() -> int:
    """A number that no other attempt of any task of the application has; 0 outside of a task."""
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def tried_before() -> bool:
    """Whether an attempt at this task has failed."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def job_property(name: str) -> str | None:
    """A property of the job, which the driver has set for it; None: it has not, or this is no task."""
    context = TaskContext.get()
    return context.getLocalProperty(name) if context else None
