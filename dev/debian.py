"""Programs of Debian that tests need and a machine may not have: installed, if root of a Debian asks."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class ProgramMissing(RuntimeError):
    """A program is not here and cannot be installed; the text says why."""


def install(package: str) -> None:
    """Install a package.

    Raises
    ------
    ProgramMissing : this is no Debian, we are not root, or the package cannot be had.
    """
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ProgramMissing(
            f"{package} is not installed, and only root of a Debian could install it.\nHint: install {package}."
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # tests run side by side, and apt gives up where another one is at work
    with (Path(tempfile.gettempdir()) / "watersmeet-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", package]):
            done = subprocess.run(command, capture_output=True, env=quiet)
            if done.returncode:
                why = done.stderr.decode(errors="replace")[-300:]
                raise ProgramMissing(f"{package} cannot be installed here: {why}")
