"""The programs of the bench that are run by their paths find what they import, from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [ROOT / "bench" / name for name in ("run.py", "turn.py", "beside.py")]
STUDIES = [path for path in sorted((ROOT / "bench" / "studies").glob("*.py")) if path.name != "__init__.py"]
# a program begins with its own folder on the path, and with what it imported before it
LOADED = """
import runpy, sys
for program in sys.argv[1:]:
    path, modules = sys.path[:], set(sys.modules)
    runpy.run_path(program, run_name="not main")
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("bench", "chaos", "dev", "proof"):
            del sys.modules[name]
"""


def test_a_program_finds_what_it_imports_wherever_it_is_started(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", LOADED, *map(str, [*PROGRAMS, *STUDIES])]
    run = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
