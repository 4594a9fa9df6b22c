"""The image: its steps run without Docker, and what they leave describes its topology."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev.jars import ROOT

pytestmark = pytest.mark.proof
"""All that the image needs is fetched and installed once more."""


def test_the_steps_of_the_image_run_and_its_command_describes_the_topology(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev" / "image.py"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    said = done.stdout.splitlines()
    assert sum(line.startswith("run: RUN ") for line in said) >= 6
    assert all(line.startswith(("run: ", "left out, ")) for line in said)
    # Spark's classes and its connector, for the user of the image
    cached = {path.name for path in (tmp_path / "home" / ".cache" / "watersmeet").iterdir()}
    assert "kafka-connector" in cached
    # where kubernetes.yaml looks for it
    assert any("spark-sql-kafka" in path.name for path in (tmp_path / "opt" / "connector").iterdir())
