"""How long tests take: which belong to `make test`, which to `make test-all`, and what each file took.

`tests/long.txt` names the long tests. They get the mark `long` and are left out unless `--long` is given; a test with
the mark `proof` is left out unless `--proof` is. `--part 1/3` takes a third of the files. `tests/seconds.json` has what
each file took in one run of all (`make test-all ARGS=--record-seconds`): its seconds in `make test`, and those of its
long tests. `test_lengths.py` holds both files to what is said here, so no test depends on a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
LONG = TESTS / "long.txt"
SECONDS = TESTS / "seconds.json"
LEFT_OUT = {"long": "--long", "proof": "--proof"}
"""By mark, the option that asks for such tests."""
SLOWEST = 60
"""Files that are shown at the end of a run."""
UNKNOWN = 5.0
"""Seconds that a file counts as long as none were recorded."""
FEWER = 3
"""Of the examples that Hypothesis draws for a test, `make test` takes one of so many, `make test-all` all of them."""
BUDGET = 20.0
"""Seconds that a file may take in `make test`."""
BUDGET_OF_ALL = 1_300.0
"""Seconds that all files together may take in `make test`: ten to eleven minutes of two cores."""
LARGER: dict[str, tuple[float, str]] = {
    "tests/api/mistakes/test_mistakes.py": (30.0, "800 mistakes of users"),
    "tests/api/mistakes/test_programs.py": (30.0, "programs with a mistake each"),
    "tests/engine/test_recordings.py": (65.0, "each vector, the small recordings, some histories of each family"),
    "tests/examples/test_gallery.py": (35.0, "ninety programs"),
    "tests/histories/test_partitions.py": (30.0, "random histories of several partitions"),
    "tests/histories/test_random_histories.py": (30.0, "250 random histories"),
    "tests/kafka/faults/test_exactly_once.py": (
        35.0,
        "transactions that end half-way, the one kill of `make test`",
    ),
    "tests/kafka/test_kafka_sink.py": (65.0, "each promise of the output, and the start of a broker"),
    "tests/kafka/test_kafka_source.py": (30.0, "each format and policy of the input"),
    "tests/spark/operators/test_foreign_key.py": (30.0, "the one foreign-key join of `make test` on Spark"),
    "tests/spark/operators/test_recordings_on_spark.py": (
        35.0,
        "golden pages of four operators, a family of recordings",
    ),
}
"""By file with a larger budget: its seconds, and the reason."""


@dataclass(frozen=True)
class Line:
    """A line of `long.txt`.

    Parameters
    ----------
    place : a folder, a file, a test, or a test with its parameters.
    kept : patterns of parameters that are not long.
    why : the heading above the line.
    """

    place: str
    kept: tuple[str, ...]
    why: str

    def names(self, test: str) -> bool:
        """Whether it names a test, kept or not."""
        return test == self.place or test.startswith(tuple(self.place + end for end in ("/", "::", "[")))

    def takes(self, test: str) -> bool:
        """Whether it makes a test long."""
        params = test.partition("[")[2].removesuffix("]")
        return self.names(test) and not any(fnmatchcase(params, kept) for kept in self.kept)


def lines(text: str) -> list[Line]:
    """The lines of a text like `long.txt`."""
    found, why = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            why = line.strip("[]")
        elif line and not line.startswith("#"):
            place, _, kept = line.partition(" but ")
            found.append(Line(place, tuple(filter(None, kept.split(" | "))), why))
    return found


def stale(of: Iterable[Line], tests: Iterable[str]) -> list[str]:
    """Lines whose files were collected and that name, or keep, no test there."""
    tests = list(tests)
    files = {test.partition("::")[0] for test in tests}
    found = []
    for line in of:
        if line.place.partition("::")[0] in files or any(file.startswith(line.place + "/") for file in files):
            named = [test.partition("[")[2].removesuffix("]") for test in tests if line.names(test)]
            empty = [kept for kept in line.kept if not any(fnmatchcase(params, kept) for params in named)]
            found += [f"{line.place} but {kept}" for kept in empty] if named else [line.place]
    return found


_takes_all = False


def examples(count: int) -> int:
    """How many examples Hypothesis draws for a test that takes so many in `make test-all`."""
    return count if _takes_all else count // FEWER


def configure(config: pytest.Config) -> None:
    """Note what is asked for, before tests are imported, in each process of a run."""
    global _takes_all
    _takes_all = config.getoption("--long") or config.getoption("--proof")


def add_options(parser: pytest.Parser) -> None:
    """The options of this module."""
    parser.addoption("--long", action="store_true", help="also the long tests: all of `make test-all`")
    parser.addoption("--proof", action="store_true", help="also what is marked as a part of a long proof")
    parser.addoption("--part", metavar="K/N", help="of the tests that are left, those of the files in part K of N")
    parser.addoption("--record-seconds", action="store_true", help=f"write into tests/{SECONDS.name} what files took")


def mark_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that `long.txt` names.

    Raises
    ------
    pytest.UsageError : a line names no test. Else a long test that was renamed would become one of `make test`.
    """
    long = lines(LONG.read_text())
    for item in items:
        if any(line.takes(item.nodeid) for line in long):
            item.add_marker("long")
    # whole files tell; of a test that was named by itself the others were not collected
    if not any("::" in arg for arg in config.args) and (wrong := stale(long, [item.nodeid for item in items])):
        raise pytest.UsageError("\n".join([f"tests/{LONG.name} names tests that are not there:", *wrong]))


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is marked and was not asked for."""
    for mark, option in LEFT_OUT.items():
        if not config.getoption(option):
            _deselect(config, items, [item for item in items if item.get_closest_marker(mark)])


def _deselect(config: pytest.Config, items: list[pytest.Item], out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=out)
    gone = set(out)
    items[:] = [item for item in items if item not in gone]


def take_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is in other parts than `--part` asks for.

    Raises
    ------
    pytest.UsageError : it is not two numbers with a slash between, the first at least 1 and at most the second.
    """
    asked = config.getoption("--part")
    if asked is None:
        return
    part, _, parts = asked.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--part {asked} is no part. Hint: --part 1/3 is the first of three parts.")
    kind = "long" if config.getoption("--long") else "test"
    took = {name: each.get(kind, 0.0) for name, each in json.loads(SECONDS.read_text()).items()}
    files = {item.nodeid.partition("::")[0] for item in items}
    mine = parted(files, took, int(parts))[int(part) - 1]
    _deselect(config, items, [item for item in items if item.nodeid.partition("::")[0] not in mine])


def parted(files: Collection[str], took: Mapping[str, float], parts: int) -> list[set[str]]:
    """Files in parts that take about as long as each other: the longest first, each into the part that has least.

    >>> [sorted(part) for part in parted(["a", "b", "c"], {"a": 3.0, "b": 1.0, "c": 1.5}, 2)]
    [['a'], ['b', 'c']]
    """
    found: list[set[str]] = [set() for _ in range(parts)]
    sums = [0.0] * parts
    for file in sorted(files, key=lambda file: (-took.get(file, UNKNOWN), file)):
        least = sums.index(min(sums))
        found[least].add(file)
        sums[least] += took.get(file, UNKNOWN)
    return found


class Lengths:
    """A plugin that adds up what the tests of each file take, set-up and end included; in all processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._records = bool(config.getoption("--record-seconds"))
        self._files: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called with what each part of each test took."""
        if "proof" not in report.keywords:
            kind = "long" if "long" in report.keywords else "test"
            self._files[report.nodeid.partition("::")[0]][kind] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Called at the end of a run."""
        if len(self._files) <= SLOWEST:
            return
        terminalreporter.section("slowest files (seconds, all processes together)")
        totals = {name: sum(each.values()) for name, each in self._files.items()}
        for name in sorted(totals, key=lambda name: -totals[name])[:SLOWEST]:
            terminalreporter.write_line(f"{totals[name]:8.1f}  {name}")
        sums = {kind: sum(each.get(kind, 0.0) for each in self._files.values()) for kind in ("test", "long")}
        terminalreporter.write_line(f"{sums['test']:8.1f}  `make test`, and {sums['long']:.1f} in long tests")
        if self._records:
            SECONDS.write_text(recorded(self._files, SECONDS.read_text() if SECONDS.exists() else "{}"))


def recorded(files: dict[str, dict[str, float]], before: str) -> str:
    """The text of `seconds.json`: what files took now, and of those that did not run what they took before.

    >>> print(recorded({"tests/test_words.py": {"test": 1.23}}, "{}"), end="")
    {
     "tests/test_words.py": {"test": 1.2}
    }
    """
    kept = {name: each for name, each in json.loads(before).items() if (TESTS.parent / name).exists()}
    for name, each in files.items():
        kept[name] = kept.get(name, {}) | {kind: round(seconds, 1) for kind, seconds in sorted(each.items())}
    body = ",\n".join(f" {json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept))
    return f"{{\n{body}\n}}\n"
