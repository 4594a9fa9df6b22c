"""Turns: contenders run one after the other, each in a process tree of its own that is watched.

A turn starts from nothing (no JVM, no checkpoint, no cache), so that a whole run holds the
start too, and turns of contenders alternate, so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measuring import profiles
from bench.measuring.measure import Batch, Rates, Sampler, Usage, folder_bytes, rates

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Turn:
    """What one turn of one contender gave.

    Parameters
    ----------
    parts : CPU-seconds of the second half, if it was profiled.
    begun : when its process was started, seconds since the epoch; None: with its rates.
    broker : what the broker's process used meanwhile, which is none of the contender's; None: there is no broker.
    """

    contender: str
    rates: Rates
    batches: tuple[Batch, ...]
    usage: Usage
    state_bytes: int
    report: Mapping[str, Any]
    parts: Mapping[str, float] = field(default_factory=dict)
    begun: float | None = None
    broker: Usage | None = None

    @property
    def from_start(self) -> float:
        """Records per second since the process was started: JVM, session and planning are in it."""
        begun = self.rates.end_time - self.rates.seconds if self.begun is None else self.begun
        return self.rates.records / (self.rates.end_time - begun)

    @property
    def per_cpu_second(self) -> float:
        """Records per CPU-second of the whole process tree, its start included."""
        return self.rates.records / self.usage.cpu_seconds

    @property
    def per_cpu_second_late(self) -> float:
        """The same in the second half, when everything is warm."""
        return self.rates.half_records / self.usage.cpu_between(self.rates.half_time, self.rates.end_time)

    @property
    def broker_seconds_late(self) -> float:
        """The broker's CPU-seconds in the second half; 0 without one."""
        return 0.0 if self.broker is None else self.broker.cpu_between(self.rates.half_time, self.rates.end_time)

    @property
    def per_cpu_second_with_broker(self) -> float:
        """Records per CPU-second of the second half, the broker's counted as well."""
        own = self.usage.cpu_between(self.rates.half_time, self.rates.end_time)
        return self.rates.half_records / (own + self.broker_seconds_late)


def of_installed_packages() -> dict[str, str]:
    """The environment of this process, in which Python keeps what it compiles: what pip installs is compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def spark_turn(
    contender: str, data: Path, work: Path, *, profile: bool = False, root: Path = ROOT, keeps: bool = False
) -> Turn:
    """Run `turn.py` and watch it.

    Parameters
    ----------
    data : what the contender works on.
    work : folder of the turn, emptied first and removed behind it.
    profile : whether to find out where its CPU goes, which costs some.
    root : the checkout whose watersmeet and `turn.py` run.
    keeps : whether the folder stays, for who reads its recording and samples in other ways.

    Raises
    ------
    RuntimeError : it failed; the message ends with what it wrote last.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # before bench was a package its modules found each other in their own folder
    paths = [str(root / "src"), str(root), str(root / "bench"), os.environ.get("PYTHONPATH", "")]
    environment = {**of_installed_packages(), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment |= profiles.environment(work) if profile else {}
    command = [sys.executable, str(root / "bench" / "turn.py"), contender, str(data), str(work)]
    log = work / "log.txt"
    begun = time.time()
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        with Sampler(process.pid, parts=profile) as sampler:
            output = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"a turn of {contender} failed:\n" + log.read_text()[-3000:])
    report = json.loads(output.strip().splitlines()[-1])
    batches = tuple(Batch(*each) for each in report["batches"])
    size = folder_bytes(work / "checkpoint")
    rated = rates(report["started"], batches)
    parts: dict[str, float] = {}
    if profile:
        parts = profiles.parts(sampler.usage, rated.half_time, rated.end_time, work)
        report["programs"] = profiles.programs(work, rated.half_time, rated.end_time)
    if not keeps:
        shutil.rmtree(work, ignore_errors=True)
    return Turn(contender, rated, batches, sampler.usage, size, report, parts, begun)


def alternate(
    contenders: Sequence[tuple[str, Path]], count: int, work: Path, *, profile: bool = False
) -> dict[str, list[Turn]]:
    """`count` turns of each contender, by turns; says on stderr how it goes."""
    found: dict[str, list[Turn]] = {name: [] for name, _ in contenders}
    for number in range(count):  # one turn of all contenders
        for name, data in contenders:
            begin = time.monotonic()
            turn = spark_turn(name, data, work / name.replace(" ", "-"), profile=profile)
            found[name].append(turn)
            shown = f"{turn.rates.whole:,.0f}/s, second half {turn.rates.second_half:,.0f}/s"
            shown += f", {turn.per_cpu_second:,.0f} and {turn.per_cpu_second_late:,.0f} per CPU-second"
            took = time.monotonic() - begin
            print(f"turn {number + 1} of {count}, {name}: {shown} ({took:.0f} s)", file=sys.stderr, flush=True)
    return found
