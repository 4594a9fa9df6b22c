"""What a program shows on its console: little of a healthy start, the reason last of a failure, a line for Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MOST_LINES = 20


def program(folder: Path, how: str) -> subprocess.Popen[str]:
    with (folder / "stderr").open("w") as said:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "spark" / "console_run.py"), str(folder), how],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            # as a terminal does, Ctrl-C goes to all of its processes
            start_new_session=True,
        )


def logged(folder: Path, log: str) -> list[int]:
    found = (folder / "cp" / log).glob("[0-9]*")
    return sorted(int(path.name) for path in found)


def until(process: subprocess.Popen[str], happened: Callable[[], object]) -> None:
    while not happened():
        assert process.poll() is None
        time.sleep(0.05)


def test_a_healthy_start_is_quiet_and_ctrl_c_ends_the_query_behind_its_batch_with_one_line(tmp_path: Path) -> None:
    process = program(tmp_path, "open")
    until(process, lambda: logged(tmp_path, "commits")[1:])
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    said = (tmp_path / "stderr").read_text().splitlines()
    assert (process.returncode, out.split()) == (0, ["started", "ended"]), "\n".join(said[-20:])
    assert logged(tmp_path, "offsets") == logged(tmp_path, "commits")
    assert [line for line in said if line.startswith("watersmeet")] == [
        "watersmeet: the query ends when its batch is written; Ctrl-C again stops it at once."
    ]
    assert [line for line in said if "\tat " in line or "Traceback" in line or "Exception" in line] == []
    assert len(said) <= MOST_LINES, "\n".join(said)


def test_of_a_failure_the_error_of_watersmeet_comes_last_and_workers_say_once_that_they_have_no_cache(
    tmp_path: Path,
) -> None:
    process = program(tmp_path, "closed")
    process.communicate()
    said = (tmp_path / "stderr").read_text().splitlines()
    assert process.returncode == 1
    assert said[-3:] == [
        "watersmeet.errors.SinkError: The warehouse is closed.",
        "Given: Sunday",
        "Hint: Come on Monday.",
    ], "\n".join(said[-20:])
    assert sum("The cache of state on this machine cannot be used" in line for line in said) == 1
