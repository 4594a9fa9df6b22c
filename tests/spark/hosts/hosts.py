"""Hosts on one machine: network namespaces with addresses of their own, joined by a bridge, for tests of a cluster.

All hosts see the same files. A host can be cut off and put back, and its link can be slow. It needs Linux, root and
`ip`; `hosts` skips the test that asks for it where one of them is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NETWORK = "10.77.0"
_LOOK_SECONDS = 0.05


class Hosts:
    """The hosts, by name; `hosts` makes them.

    A slow host is joined by a relay, since not all kernels have netem.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._own = {name: f"wm{os.getpid()}-{number}" for number, name in enumerate(names, 1)}
        self._hub = f"wm{os.getpid()}-hub"
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._relays: list[subprocess.Popen[bytes]] = []

    def make(self, slow: float | None, loss: float) -> None:
        """Make them all.

        Parameters
        ----------
        slow : milliseconds that a packet takes from a host to another; None joins them by plain pairs of devices.
        loss : the share of the packets that are lost on the way; only with `slow`.
        """
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "add", "name", "hub", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "dev", "hub", "up")
        for name, own in self._own.items():
            _ip("netns", "add", own)
            _ip("-n", own, "link", "set", "dev", "lo", "up")
            port = f"port{self._numbers[name]}"
            if slow is None:
                _ip("-n", own, "link", "add", "name", "net", "type", "veth", "peer", "name", port, "netns", self._hub)
            else:
                self._relay(own, port, slow / 2, loss / 2)
            _ip("-n", self._hub, "link", "set", "dev", port, "master", "hub", "up")
            _ip("-n", own, "addr", "add", f"{self.address(name)}/24", "dev", "net")
            _ip("-n", own, "link", "set", "dev", "net", "up")

    def address(self, name: str) -> str:
        """The address of a host."""
        return f"{NETWORK}.{self._numbers[name]}"

    def within(self, name: str) -> tuple[str, ...]:
        """What stands before a command that is to run in a host; the process keeps its number."""
        return ("ip", "netns", "exec", self._own[name])

    def cut(self, name: str) -> None:
        """Cut a host off: nothing comes or goes, and nobody is told."""
        _ip("-n", self._hub, "link", "set", "dev", f"port{self._numbers[name]}", "down")

    def put_back(self, name: str) -> None:
        """End the cut."""
        _ip("-n", self._hub, "link", "set", "dev", f"port{self._numbers[name]}", "up")

    def remove(self) -> None:
        """Remove all hosts, with every process that is left in one."""
        for own in (*self._own.values(), self._hub):
            _remove(own)
        for relay in self._relays:
            relay.kill()
            relay.communicate()

    def _relay(self, own: str, port: str, slow: float, loss: float) -> None:
        program = [sys.executable, str(Path(__file__).with_name("relay.py")), self._hub, port, str(slow), str(loss)]
        relay = subprocess.Popen(["ip", "netns", "exec", own, *program], stdout=subprocess.PIPE)
        self._relays.append(relay)
        assert relay.stdout is not None
        assert relay.stdout.readline() == b"ready\n"


@contextmanager
def hosts(*names: str, slow: float | None = None, loss: float = 0.0) -> Iterator[Hosts]:
    """Hosts of these names, until the end; the test is skipped where the machine has none."""
    lacks = missing(relay=slow is not None)
    if lacks:
        pytest.skip(f"hosts of network namespaces need {lacks}")
    remove_abandoned()
    made = Hosts(names)
    try:
        made.make(slow, loss)
        yield made
    finally:
        made.remove()


def remove_abandoned() -> None:
    """Remove hosts whose test was killed, so that it could not remove them itself."""
    for own in re.findall(r"^wm\d+-\w+", _ip("netns", "list"), flags=re.MULTILINE):
        if not Path(f"/proc/{own[2:].split('-')[0]}").exists():
            _remove(own)


def missing(*, relay: bool = False) -> str:
    """What the machine lacks for hosts; "" if nothing."""
    if sys.platform != "linux":
        return "Linux"
    if shutil.which("ip") is None:
        return "the command ip (iproute2)"
    if os.geteuid() != 0:
        return "root"
    if relay and not Path("/dev/net/tun").exists():
        return "/dev/net/tun"
    name = f"wm{os.getpid()}-probe"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "name", "one", "type", "veth", "peer", "name", "other")
        _ip("-n", name, "link", "add", "name", "hub", "type", "bridge")
    except OSError as error:
        return f"rights that root does not have here, or a kernel with veth and bridge ({error})"
    finally:
        _ip("netns", "del", name, check=False)
    return ""


def wait_for(found: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a file is there, or fail with the end of the log if the process ends before."""
    while not found.exists():
        if process.poll() is not None:
            pytest.fail(f"{process.args!r} ended with {process.returncode}:\n{log.read_text()[-3_000:]}")
        time.sleep(_LOOK_SECONDS)


def _remove(own: str) -> None:
    for process in _ip("netns", "pids", own, check=False).split():
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    _ip("netns", "del", own, check=False)


def _ip(*given: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *given], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise OSError(f"ip {' '.join(given)}: {done.stderr.strip()}")
    return done.stdout
