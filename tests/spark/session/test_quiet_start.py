"""A healthy start is quiet: nothing of the JVM's and the workers' chatter reaches the terminal, all other lines do."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from watersmeet._spark.session import _pump, _write

ROOT = Path(__file__).resolve().parents[3]
MOST_LINES = 10
CHATTER = """WARNING: Using incubator modules: jdk.incubator.vector
Starting Streaming TransformWithStateInPandas Python worker.

Streaming TransformWithStateInPandas Python worker received parameters for UDF. State server port/path: 1.

WARNING: package sun.security.action not in java.base
WARNING: A terminally deprecated method in sun.misc.Unsafe has been called
WARNING: Please consider reporting this to the maintainers of io.netty
WARNING: sun.misc.Unsafe::allocateMemory will be removed in a future release
"""
LINES = """26/11/25 22:47:39 WARN TaskSetManager: Lost task 0.0

java.lang.OutOfMemoryError: Java heap space
WARNING: the user's own
WARNING: option_x will be removed in 3.0
\tat x.y(Z.java)
last words without an end"""
PROGRAM = """
import subprocess, sys
from watersmeet._spark.session import without_chatter
sys.stderr.write("before\\n")
with without_chatter():
    code = "import sys; sys.stderr.write(sys.stdin.read())"
    jvm = subprocess.Popen([sys.executable, "-c", code], stdin=-1, text=True)
sys.stderr.write("after\\n")
sys.stderr.flush()
jvm.communicate(sys.argv[1])
"""


def ran(program: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, *program], capture_output=True, text=True, check=True, cwd=folder, env=environment
    )


def test_chatter_is_left_out_and_every_other_line_comes_through(tmp_path: Path) -> None:
    first, *others = LINES.splitlines(keepends=True)
    done = ran(["-c", PROGRAM, CHATTER + first + "".join(others[:2]) + CHATTER + "".join(others[2:])], tmp_path)
    assert done.stderr == "before\nafter\n" + LINES


def test_a_standard_error_that_does_not_wait_loses_no_line() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    watched = os.dup(write)
    said = b"".join(b"%d\n" % number for number in range(100_000))  # more than a pipe holds
    filled, empty = os.pipe()

    def passes() -> None:
        _pump(filled, write)
        os.close(write)

    def says() -> None:
        _write(empty, said)
        os.close(empty)

    pump, feed = threading.Thread(target=passes), threading.Thread(target=says)
    for thread in (pump, feed):
        thread.start()
    while pump.is_alive() and select.select([], [watched], [], 0)[1]:
        time.sleep(0.01)  # until the pipe is full
    os.close(watched)
    found = b""
    while piece := os.read(read, 1 << 16):
        found += piece
    assert found == said
    for thread in (pump, feed):
        thread.join()
    os.close(read)


def test_a_program_without_standard_error_starts_all_the_same(tmp_path: Path) -> None:
    code = "import os; os.close(2)\n" + PROGRAM.replace('sys.stderr.write("before\\n")', "").replace(
        'sys.stderr.write("after\\n")\nsys.stderr.flush()', "print('after')"
    )
    assert ran(["-c", code, ""], tmp_path).stdout == "after\n"


def test_a_line_that_is_drawn_again_and_again_is_not_held_back(tmp_path: Path) -> None:
    # Python reads each \r of a text as an end of line
    assert ran(["-c", PROGRAM, "10 %\r20 %\rdone\n"], tmp_path).stderr == "before\nafter\n10 %\n20 %\ndone\n"


@pytest.mark.parametrize("number", [0, 1], ids=["first.py", "query.py"])
def test_the_programs_of_the_first_page_print_ten_lines_at_most(number: int, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "start.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "program.py").write_text(blocks[number])
    done = ran(["program.py"], tmp_path)
    printed = (done.stdout + done.stderr).splitlines()
    assert len(printed) <= MOST_LINES, "\n".join(printed)
    # of Spark's log there may be a line that depends on times
    assert [line for line in done.stderr.splitlines() if " WARN " not in line] == []
