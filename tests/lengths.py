"""How long tests take: which belong to `make test`, which to `make test-all`, and what each file took.

A test that is marked `long` is left out unless `--long` is given, one that is marked `proof` unless `--proof` is.
`tests/seconds.json` has what each file took in one run of all (`--record-seconds`), so that a rule can hold what a file
of `make test` may take, and no test depends on a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

SECONDS = Path(__file__).with_name("seconds.json")
LEFT_OUT = {"long": "--long", "proof": "--proof"}
"""By mark, the option that asks for such tests."""
SLOWEST = 15
"""Files that are shown at the end of a run."""


def add_options(parser: pytest.Parser) -> None:
    """The options of this module."""
    parser.addoption("--long", action="store_true", help="also what is marked long: all of `make test-all`")
    parser.addoption("--proof", action="store_true", help="also what is marked as a part of a long proof")
    parser.addoption("--record-seconds", action="store_true", help=f"write into tests/{SECONDS.name} what files took")


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is marked and was not asked for."""
    for mark, option in LEFT_OUT.items():
        if not config.getoption(option):
            out = [item for item in items if item.get_closest_marker(mark)]
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if not item.get_closest_marker(mark)]


class Lengths:
    """A plugin that adds up what the tests of each file take, set-up and end included; in all processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._records = bool(config.getoption("--record-seconds"))
        self._files: dict[str, float] = defaultdict(float)
        self._tests: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called with what each part of each test took."""
        self._files[report.nodeid.partition("::")[0]] += report.duration
        self._tests[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Called at the end of a run."""
        if len(self._files) <= SLOWEST:
            return
        terminalreporter.section("slowest files (seconds, all processes together)")
        for name, seconds in _largest(self._files):
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
        if self._records:
            slow = {name: round(seconds, 1) for name, seconds in self._tests.items() if seconds >= 2}
            files = {name: round(seconds, 1) for name, seconds in sorted(self._files.items())}
            SECONDS.write_text(json.dumps({"files": files, "tests": dict(sorted(slow.items()))}, indent=1) + "\n")


def _largest(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda each: -each[1])[:SLOWEST]
