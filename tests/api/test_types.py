"""The public API is typed: mypy passes a user's program, and refuses a mistake in each call."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import watersmeet as wm
from watersmeet.session import session

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_the_session_is_had_from_the_package_and_from_its_module() -> None:
    assert session is wm.session


def test_what_users_read_names_every_parameter_and_no_private_module() -> None:
    for name in wm.__all__:
        said = getattr(wm, name)
        methods = (
            [getattr(said, each) for each in dir(said) if not each.startswith("_")] if inspect.isclass(said) else []
        )
        for each in [said, *(method for method in methods if inspect.isroutine(method))]:
            text = inspect.getdoc(each) or ""
            assert text, each
            assert not re.search(r"\b_(plan|engine|spark)\b", text), each
    for each in (wm.StreamsBuilder.stream, wm.StreamsBuilder.table, wm.StreamsBuilder.global_table, wm.KStream.to):
        assert_told(each)
    for each in (wm.KStream.through, wm.KTable.to, wm.Topology.start, wm.session):
        assert_told(each)


def assert_told(method: Callable[..., object]) -> None:
    """Each parameter stands in the docstring, and all but the first are given by name alone."""
    parameters = [each for each in inspect.signature(method).parameters.values() if each.name != "self"]
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters[1:]), method
    told = re.findall(r"^([a-z_, ]+) : ", inspect.getdoc(method) or "", re.MULTILINE)
    assert {each.name for each in parameters} <= {name for names in told for name in names.split(", ")}, method


def test_an_installed_watersmeet_says_that_it_is_typed() -> None:
    # without the file mypy takes all that is imported from an installed package for Any (PEP 561)
    assert (ROOT / "src" / "watersmeet" / "py.typed").is_file()


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
