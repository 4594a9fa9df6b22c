"""What is read from disk and network may be altered or lie: it is an error of watersmeet's, or right, or other rows.

It never ends the process, hangs, or is another error, and without new sums it is never other rows (`hostile`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.mutations import OTHER, REFUSED, RIGHT
from tests.hostile.read import TARGETS

SOME = {"blobs": 800, "lying": 600, "state": 150, "sealed_chunk": 250, "sealed_manifest": 250, "cache_files": 100}
SEALED = frozenset({"blobs", "lying", "sealed_chunk", "sealed_manifest", "checkpoint_files"})
MANY = 20_000
ROOT = Path(__file__).resolve().parents[2]


def outcomes(target: str, first: int, count: int) -> dict[str, list[int]]:
    """How often which outcome came, and its first number."""
    command = [sys.executable, "-m", "tests.hostile", target, str(first), str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stderr.split()[-1:]
    assert done.returncode == 0, f"{target} {last}: ended by {done.returncode}\n{done.stderr[-500:]}"
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_altered_bytes_are_an_error_or_the_right_rows_and_never_end_the_process(target: str) -> None:
    found = outcomes(target, 0, SOME.get(target, 300))
    assert set(found) <= {RIGHT, REFUSED, *([OTHER] if target in SEALED else [])}, found
    # files of the cache are fetched again, so there is nothing to refuse
    assert (REFUSED in found) == (target != "cache_files")


@pytest.mark.proof
@pytest.mark.parametrize("target", TARGETS)
def test_many_altered_bytes_are_an_error_or_the_right_rows(target: str) -> None:
    found = outcomes(target, 1_000_000, MANY if target in ("blobs", "lying", "checkpoint_files") else MANY // 4)
    assert set(found) <= {RIGHT, REFUSED, *([OTHER] if target in SEALED else [])}, found
