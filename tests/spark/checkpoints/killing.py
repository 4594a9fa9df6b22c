"""Programs that kill themselves, driver and all: what a machine that fails leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import SparkSession

from dev.jvm import SHORT_LIVED
from watersmeet._spark.session import session

SETTINGS = "settings.json"
"""The file of a folder that says how its programs reach an object store."""


def short_session(*, jars: Sequence[str] | None = None, folder: Path | None = None) -> SparkSession:
    """The session of a program that lives for a few batches; the folder may have `SETTINGS`."""
    config = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": SHORT_LIVED}
    if folder is not None and (folder / SETTINGS).exists():
        told = json.loads((folder / SETTINGS).read_text())
        config, jars = {**config, **told["settings"]}, [*(jars or ()), *told["jars"]]
    return session("killed", master="local[2]", jars=jars, config=config)


def killing(function: Any, *, first: bool) -> Any:
    """The function, at which the driver is killed: `first`, or when it has returned."""

    def killed(*given: Any, **named: Any) -> None:
        if not first:
            function(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return killed


def killed(program: ModuleType, *given: Any) -> None:
    """Run a program, which is to kill itself."""
    done = subprocess.run(
        [sys.executable, "-m", program.__name__, *map(str, given)],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
