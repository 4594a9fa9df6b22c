"""What watersmeet does for Spark's Python processes: memory that a large task has freed. No session needed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from watersmeet._spark import session

FREED = """
import sys
import numpy as np
import pyarrow as pa
from watersmeet._worker.process import give_back, own_bytes, freeze_imports

began = freeze_imports()
# in pieces of many sizes, of which the last one stays: so the C library keeps what lies before it
taken = [np.ones(size) for size in range(1, int(sys.argv[1]) << 10, 7)]
taken.append(pa.array(taken[-1]).take(pa.array([0])))
most, taken = own_bytes(), taken[-1]
give_back()
print(began >> 20, most >> 20, own_bytes() >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux, and the C library of GNU")
@pytest.mark.parametrize("large", [False, True])
def test_what_a_large_task_has_freed_goes_to_the_system_and_what_a_small_one_has_stays(large: bool) -> None:
    environment = {**os.environ, **session.WORKERS_ALLOCATOR, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", FREED, "20" if large else "6"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    began, most, left = map(int, ended.stdout.split())
    if large:
        assert most - began > 200
        assert left - began < 30
    else:
        assert left >= most > began + 10
