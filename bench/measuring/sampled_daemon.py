"""watersmeet's Python daemon with workers that say where their CPU goes: a line per sample.

`spark.python.daemon.module` names it when a turn is profiled; folder and settings come from the environment.
A timer of CPU time (not of the clock) interrupts each worker, so what waits is not seen. Python runs the handler
when the call under way returns: a sample carries the CPU since the last one, whatever number of ticks were missed.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import time
from types import CodeType, FrameType

FOLDER = "BENCH_SAMPLES"
"""Environment variable that names the folder of the samples."""
SECONDS = 0.01
"""CPU time between two samples."""
_FOLDERS = 5
"""Of a file, from itself up: those that `profiles` tells parts by."""


class Samples:
    """The samples of one worker: time, CPU of the main thread and of others since the last one, stack from inside."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(f"{folder}/{os.getpid()}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._main = self._all = 0.0
        signal.signal(signal.SIGPROF, self._look)
        # system calls of libraries that do not expect it go on by themselves
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
        # at its end Python takes the handler away, and a signal without one kills
        atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)

    def _look(self, number: int, frame: FrameType | None) -> None:
        main, whole = time.thread_time(), time.process_time()
        own, others = main - self._main, max(0.0, whole - self._all - (main - self._main))
        self._main, self._all = main, whole
        stack = []
        while frame is not None:
            code = frame.f_code
            stack.append(named(code))
            frame = frame.f_back
        os.write(self._file, f"{time.time():.3f} {own:.6f} {others:.6f} {';'.join(stack)}\n".encode())


def named(code: CodeType) -> str:
    """A function as it stands in a stack: where its file lies, and its name."""
    return "/".join(code.co_filename.rsplit("/", _FOLDERS)[-_FOLDERS:]) + ":" + code.co_qualname


if __name__ == "__main__":
    os.register_at_fork(after_in_child=lambda: Samples(os.environ[FOLDER]))
    runpy.run_module("watersmeet._spark.worker_daemon", run_name="__main__")
