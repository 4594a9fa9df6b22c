"""The hooks of the fault bench: they take hold in the modules that are in use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.hooks import FOLDER, LIMITS, WRITERS

_SHOWN = """
from chaos.hooks import install
install()
from watersmeet._spark.outputs import output
print(*(output.limit(2) for _ in range(200)))
"""


def limits(folder: Path, writers: str) -> set[int]:
    """What tasks of a process of the bench may hand back, as the outputs ask for it."""
    environment = {**os.environ, FOLDER: str(folder), WRITERS: writers}
    ran = subprocess.run([sys.executable, "-c", _SHOWN], env=environment, capture_output=True, text=True, check=True)
    return {int(word) for word in ran.stdout.split()}


@pytest.mark.parametrize(("writers", "expected"), [("tasks", {0}), ("both", {*LIMITS})])
def test_tasks_write_themselves_what_they_are_to_write(tmp_path: Path, writers: str, expected: set[int]) -> None:
    assert limits(tmp_path, writers) == expected


def test_the_driver_writes_below_the_limit_of_the_product_where_it_is_to_write(tmp_path: Path) -> None:
    from watersmeet._worker.writers.kafka import limit

    assert limits(tmp_path, "driver") == {limit(2)}
