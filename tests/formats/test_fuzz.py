"""Decoders on broken and hostile bytes, in bounds of memory and time: `fuzz.run` says what has to hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.formats.fuzz.run import DRAWN

ROOT = Path(__file__).resolve().parents[2]
NAMES = [*DRAWN, "registered"]
CASES = 4
CASES_OF_A_PROOF = 1_500


def fuzzed(name: str, seed: int, cases: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.formats.fuzz.run", "--subject", name]
    command += ["--seed", str(seed), "--cases", str(cases)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    # below zero is the signal by which it ended; the case is the last that stands in its output
    assert ran.returncode == 0, f"{ran.returncode}\n{ran.stdout[-300:]}\n{ran.stderr[-3_000:]}"
    last = ran.stdout.strip().splitlines()[-1]
    print(last)
    return {what: int(count) for what, count in re.findall(r"'([\w ]+)': (\d+)", last)}


@pytest.mark.parametrize("name", NAMES)
def test_no_bytes_end_the_process_or_spoil_the_records_beside_them(name: str) -> None:
    # batches of limits are small, and there is a type in each
    cases = CASES * 10 if name == "limits" else CASES
    counts = fuzzed(name, 1, cases)
    assert counts["cases"] == cases
    assert counts["records"] >= 20 * cases
    assert counts["bad"] >= 5 * CASES


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_no_bytes_of_many_more_do(name: str) -> None:
    assert fuzzed(name, 7, CASES_OF_A_PROOF)["cases"] == CASES_OF_A_PROOF
