"""The public API is typed: mypy passes a user's program, and refuses a mistake in each call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_an_installed_millpond_says_that_it_is_typed() -> None:
    # without the file mypy takes all that is imported from an installed package for Any (PEP 561)
    assert (ROOT / "src" / "millpond" / "py.typed").is_file()


def test_mypy_passes_a_users_program_and_refuses_a_mistake_in_each_call(tmp_path: Path) -> None:
    # as a user runs it: in a folder of their own, strictly, with no settings of this project
    programs = [HERE / "user_program.py", HERE / "user_mistakes.py"]
    copies = [tmp_path / program.name for program in programs]
    for program, copy in zip(programs, copies, strict=True):
        copy.write_text(program.read_text())
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    command += [f"--cache-dir={ROOT / '.mypy_cache' / 'users'}", *[copy.name for copy in copies]]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE)
    refused = {
        ("user_mistakes.py", str(number))
        for number, line in enumerate(copies[1].read_text().splitlines(), start=1)
        if "# refused:" in line
    }
    assert set(found) == refused, done.stdout + done.stderr
    assert len(refused) > 20
