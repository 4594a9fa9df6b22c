"""A real Kafka broker for tests, the demo and benchmarks: one KRaft node in one JVM, on free loopback ports.

Owns the broker's whole life: its own temporary folder, formatting, start, the wait until it serves, its end.
The end is sure: on leaving the context, at the interpreter's exit, and, through a watchdog, when this process
is killed. Jars come from `make setup`. Topics are made with confluent-kafka, all else with Python alone.

with KafkaBroker() as broker:
        broker.create_topics(["orders", "customers"], partitions=4)
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)

From a shell: `python dev/broker.py run` (until Ctrl-C), or `start`, `status` and `stop`.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dev.jars import ROOT, JarsMissing, classpath
from dev.jvm import SHORT_LIVED, JavaMissing, find_java
from dev.program import Program

HOST = "127.0.0.1"
STATE_FILE = ROOT / ".broker" / "state.json"
# what the broker logs once it has registered, caught up and opened its listeners
_READY = "Kafka Server started"
_START_ATTEMPTS = 3
_LOG_TAIL = 30
_FOREVER = str(2**63 - 1)


class BrokerFailed(RuntimeError):
    """The broker did not start, or died; the message holds the end of its log."""


class KafkaBroker(Program):
    """One broker, from `start` (or `with`) to `stop`; `settings` are more lines of server.properties."""

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        folder: Path | None = None,
        outlive_us: bool = False,
        start_timeout: float = 120.0,
        port: int = 0,
        classes: Path | None = None,
    ) -> None:
        """With `folder` log and data stay there after the end; `outlive_us` is for the command line; `port` 0: any.

        `classes` is a folder with classes that settings name.
        """
        self._classes = classes
        self._settings = dict(settings or {})
        self._heap = heap
        self._keep_folder = folder is not None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="watersmeet-broker-"))
        self._outlive_us = outlive_us
        self._start_timeout = start_timeout
        self._wanted_port = port
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._admin: Any = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients take as `bootstrap.servers`."""
        if self._process is None:
            raise BrokerFailed("The broker is not running.\nHint: call start(), or use it in a `with`.")
        return f"{HOST}:{self._port}"

    @property
    def log_file(self) -> Path:
        """Everything the broker's JVM printed."""
        return self.folder / "broker.log"

    @property
    def pid(self) -> int:
        """The process id of the broker's JVM."""
        if self._process is None:
            raise BrokerFailed("The broker is not running.\nHint: call start(), or use it in a `with`.")
        return self._process.pid

    def start(self) -> None:
        """Formats the folder, starts the JVM and returns when it serves."""
        atexit.register(self.stop)
        try:
            for attempt in range(1, _START_ATTEMPTS + 1):
                try:
                    return self._start_once()
                except BrokerFailed as problem:
                    # between our asking for a free port and the broker's binding it, another may take it
                    if attempt == _START_ATTEMPTS or "Address already in use" not in str(problem):
                        raise
                    self._kill()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kills the JVM (its data is thrown away, so there is nothing to close) and removes its folder."""
        atexit.unregister(self.stop)
        self._admin = None
        self._kill()
        if not self._keep_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self) -> None:
        """Kills the JVM in the midst of whatever it does, and starts it again on the same port with the same data."""
        self._kill()
        # it would go on about the broker that is not there
        self._admin = None
        self._run(self.folder / "server.properties")

    def let_go(self) -> None:
        """Leaves the JVM to itself: it goes on when this process ends, and this object no longer knows it."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None:
            # Popen warns of a child that it has not seen end
            process.returncode = 0

    def is_running(self) -> bool:
        """Whether the JVM is alive."""
        return self._process is not None and self._process.poll() is None

    def create_topics(self, names: Iterable[str], partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Makes the topics and returns when the broker has them; a topic that exists already is an error."""
        # imported late: starting and stopping a broker must not need the kafka extra
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        if self._admin is None:
            # kept: a client that is given up right behind an answer can bring the process down (librdkafka still
            # has an event for it), seen on a busy machine
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        settings = dict(config or {})
        topics = [NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings) for name in names]
        for made in self._admin.create_topics(topics, operation_timeout=30).values():
            made.result(timeout=60)

    def log_tail(self, lines: int = _LOG_TAIL) -> str:
        """The last lines of the broker's log."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def _start_once(self) -> None:
        port, controller_port = free_ports(2)
        self._port = self._wanted_port or port
        self._admin = None
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        lines = server_properties(self._port, controller_port, data, self._settings)
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self._format(properties)
        self._run(properties)

    def _run(self, properties: Path) -> None:
        with self.log_file.open("wb") as log:
            # a session of its own: a Ctrl-C meant for the tests must reach us first, and we end the broker
            self._process = subprocess.Popen(
                [*self._java(), "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if not self._outlive_us:
            self._watchdog = kill_when_we_die(self._process.pid, None if self._keep_folder else self.folder)
        self._wait_until_ready(self._process)

    def _java(self) -> list[str]:
        return [
            find_java(),
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            # a killed JVM leaves its files behind: they are to lie where we clear up
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self.folder}",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            *("-cp", os.pathsep.join([classpath("broker"), *([str(self._classes)] if self._classes else [])])),
        ]

    def _format(self, properties: Path) -> None:
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's command lines take an id that begins with a dash for an option
        java, *options = self._java()
        command = [java, SHORT_LIVED, *options, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
        done = subprocess.run([*command, "-c", str(properties)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"Kafka could not format its folder:\n{done.stdout}{done.stderr}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_timeout
        while _READY not in self.log_file.read_text(errors="replace"):
            if process.poll() is not None:
                raise BrokerFailed(f"The broker ended with code {process.returncode}. Its log ends:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise BrokerFailed(
                    f"The broker was not ready after {self._start_timeout:.0f} s. Its log ends:\n{self.log_tail()}"
                )
            time.sleep(0.05)

    def _kill(self) -> None:
        process, self._process = self._process, None
        watchdog, self._watchdog = self._watchdog, None
        if process is not None:
            process.kill()
            process.wait()
        if watchdog is not None:
            # only after the broker is gone, so that there is no moment without a guard
            end_watchdog(watchdog)


def server_properties(port: int, controller_port: int, data: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The broker's settings: one node that is broker and controller, nothing replicated, nothing expiring."""
    one_node = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
    }
    alone = {
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    old_and_future_data = {
        # records of 2013 are past the default retention and would vanish; future ones would be refused
        "log.retention.ms": "-1",
        "log.message.timestamp.after.max.ms": _FOREVER,
        # a mistyped topic must be an error, not a new empty topic
        "auto.create.topics.enable": "false",
        # the cleaner's buffer is otherwise a quarter of the heap
        "log.cleaner.dedupe.buffer.size": "8388608",
    }
    return {**one_node, **alone, **old_and_future_data, **settings}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listened on a moment ago, all different, chosen by the system."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def end_watchdog(watchdog: subprocess.Popen[bytes]) -> None:
    """End a watchdog of `kill_when_we_die` when what it watched has ended."""
    watchdog.kill()
    watchdog.wait()
    if watchdog.stdin is not None:
        watchdog.stdin.close()


def kill_when_we_die(pid: int, folder: Path | None) -> subprocess.Popen[bytes]:
    """A watchdog that kills the process (and removes its folder) once we are gone, however we went.

    It waits on a pipe that only we hold open: unlike Linux's parent-death signal, that works on every Unix
    and does not fire when merely the thread that started the broker ends.
    """
    script = 'read -r _; kill -9 "$1" 2>/dev/null; if [ -n "$2" ]; then sleep 1; rm -rf "$2"; fi'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "watchdog", str(pid), str(folder or "")],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: run, start, status, stop."""
    parser = argparse.ArgumentParser(description="A real Kafka broker of one node on loopback.")
    parser.add_argument("command", choices=["run", "start", "status", "stop"])
    parser.add_argument("--topic", action="append", default=[], help="make this topic; may be given again")
    parser.add_argument("--partitions", type=int, default=1, help="of each topic (default 1)")
    parser.add_argument("--port", type=int, default=0, help="of run and start: the broker's (default: a free one)")
    options = parser.parse_args(arguments)
    try:
        return _COMMANDS[options.command](options)
    except (BrokerFailed, JarsMissing, JavaMissing) as problem:
        print(problem, file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    # a terminal that closes and a plain `kill` must end the broker as Ctrl-C does
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), KafkaBroker(port=options.port) as broker:
        broker.create_topics(options.topic, options.partitions) if options.topic else None
        print(f"{broker.bootstrap_servers}  (log: {broker.log_file}; Ctrl-C ends it)", flush=True)
        while broker.is_running():
            time.sleep(0.5)
        raise BrokerFailed(f"The broker has died. Its log ends:\n{broker.log_tail()}")
    return 0


def _start(options: argparse.Namespace) -> int:
    running = _running_in_background()
    if running:
        print(f"{running['bootstrap_servers']}  (was running already)")
        return 0
    shutil.rmtree(STATE_FILE.parent, ignore_errors=True)
    broker = KafkaBroker(folder=STATE_FILE.parent, outlive_us=True, port=options.port)
    broker.start()
    if options.topic:
        broker.create_topics(options.topic, options.partitions)
    STATE_FILE.write_text(json.dumps({"pid": broker.pid, "bootstrap_servers": broker.bootstrap_servers}))
    print(f"{broker.bootstrap_servers}  (log: {broker.log_file}; `stop` ends it)")
    broker.let_go()
    return 0


def _status(_: argparse.Namespace) -> int:
    running = _running_in_background()
    print(running["bootstrap_servers"] if running else "not running")
    return 0 if running else 3


def _stop(_: argparse.Namespace) -> int:
    running = _running_in_background()
    if running:
        os.kill(running["pid"], signal.SIGKILL)
    shutil.rmtree(STATE_FILE.parent, ignore_errors=True)
    print("stopped" if running else "not running")
    return 0


def _running_in_background() -> dict[str, Any] | None:
    """What `start` noted, if that process is still our broker: its number may be another program's by now."""
    if not STATE_FILE.exists():
        return None
    state: dict[str, Any] = json.loads(STATE_FILE.read_text())
    shown = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(state["pid"])], capture_output=True, text=True, check=False
    )
    return state if str(STATE_FILE.parent) in shown.stdout else None


_COMMANDS = {"run": _run, "start": _start, "status": _status, "stop": _stop}

if __name__ == "__main__":
    sys.exit(main())
