"""What Spark says on the console of a session that watersmeet makes: no warnings of what is as it should be.

Of the driver alone; executors have files of their own. Log4j leaves out its own lines (`log_options`). The JVM itself
and Spark's Python workers write past it to the JVM's standard error, which therefore runs through a pipe to a thread of
this process (`without_chatter`).
"""

from __future__ import annotations

import atexit
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from watersmeet._spark.session.master import folder_of_settings

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
CHATTER = re.compile(
    rb"WARNING: Using incubator modules: jdk\.incubator\.vector\b"
    rb"|(Starting )?Streaming TransformWithState\w+ Python worker\b"
    # Java 24 and later, of Spark's options, and of Spark's and Netty's own calls
    rb"|WARNING: (package \S+ not in |A (restricted|terminally deprecated) method in |\S+ (has been|was) called by "
    rb"|Use --enable-native-access|Restricted methods will be|Please consider reporting this"
    rb"|sun\.misc\.Unsafe::\S+ will be removed in)"
)
"""Beginnings of lines that every healthy program causes."""
_PAUSE = 0.02
"""Seconds without a line, after which the end of the program does not wait for another."""
_PAUSES = 25


def log_options(said: Iterable[str]) -> str:
    """The JVM's option that names watersmeet's settings of the log; nothing where somebody has settings already.

    Parameters
    ----------
    said : options that others give to the JVM.
    """
    own = any(folder_of_settings().glob("log4j*"))
    if own or any("log4j" in text for text in said) or "LOG4J_CONFIGURATION_FILE" in os.environ:
        return ""
    # as an address it has no spaces
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"


@contextmanager
def without_chatter() -> Iterator[None]:
    """A JVM that is started meanwhile has its standard error read by a thread, which leaves out the chatter.

    Where the system does not allow this, standard error stays as it is.
    """
    try:
        target = os.dup(2) if os.name == "posix" else -1
    except OSError:  # a program without standard error
        target = -1
    if target < 0:
        yield
        return
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    read, write = os.pipe()
    os.dup2(write, 2)
    os.close(write)
    pump = threading.Thread(target=_pump, args=(read, target), name="stderr of the JVM", daemon=True)
    pump.start()
    atexit.register(_wait_for_last_lines, read)
    try:
        yield
    finally:
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os.dup2(target, 2)


def _pump(read: int, target: int) -> None:
    rest, was_chatter = b"", False
    with suppress(OSError):
        while piece := os.read(read, 1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                # the workers' lines end with an empty one
                was_chatter = bool(CHATTER.match(line)) or (was_chatter and not line)
                if not was_chatter:
                    _write(target, line + b"\n")
            if b"\r" in rest:  # a line that is drawn again and again, such as Spark's progress
                _write(target, rest)
                rest = b""
        _write(target, rest)
    os.close(read)


def _wait_for_last_lines(read: int) -> None:
    """Wait until the thread has passed on what is in the pipe; it ends with the program."""
    with suppress(OSError, ValueError):  # closed, as the JVM has ended
        for _ in range(_PAUSES):
            if not select.select([read], [], [], _PAUSE)[0]:
                return
            time.sleep(_PAUSE)


def _write(target: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(target, data) :]
        except BlockingIOError:  # another program has set the terminal or the pipe not to wait
            select.select([], [target], [], _PAUSE)
