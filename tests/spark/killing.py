"""Programs that kill themselves, driver and all: what a machine that fails leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def killing(function: Any, *, first: bool) -> Any:
    """The function, at which the driver is killed: `first`, or when it has returned."""

    def killed(*given: Any) -> None:
        if not first:
            function(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    return killed


def killed(program: ModuleType, *given: Any) -> None:
    """Run a program, which is to kill itself."""
    done = subprocess.run(
        [sys.executable, "-m", program.__name__, *map(str, given)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
