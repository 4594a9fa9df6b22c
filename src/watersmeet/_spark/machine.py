"""The machine at a start: memory, folders, Java, versions of Spark and Python, settings, and brokers that answer."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext

from watersmeet._worker import kafka_client
from watersmeet.errors import ConfigError, passing
from watersmeet.io.kafka import Kafka

BESIDE_HEAP = 512 << 20
"""Bytes that a driver and one worker need besides the JVM's heap."""
LEAST_ROOM = 256 << 20
"""Bytes that a folder for temporary files must have: what one small batch shuffles, and the sockets of workers."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory() -> int | None:
    """Bytes of memory that this process may have: of the machine, or of its container; None where it is not known."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        return None
    for limit in _LIMITS:
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        limits += [int(text)] if text.isdecimal() else []
    return min(limits)


def checked_memory(heap: str, available: int | None) -> str:
    """The memory, as text.

    Parameters
    ----------
    heap : of the JVM, as Spark writes it: "1g".
    available : bytes that there are; None: not known.
    """
    if available is None:
        return "not known"
    heap_bytes = bytes_of(heap)
    if heap_bytes is not None and heap_bytes + BESIDE_HEAP > available:
        raise ConfigError(
            f"The JVM's heap, spark.driver.memory={heap!r}, and {BESIDE_HEAP >> 20} MB for Python do not fit into "
            f"{available / (1 << 30):.1f} GiB of memory.",
            hint="Give the machine or the container more memory (2 GiB is enough for a start), or the heap less: "
            'wm.session(config={"spark.driver.memory": "512m"}), or in a file of `run`: [spark], then '
            '"spark.driver.memory" = "512m".',
        )
    return f"{available / (1 << 30):.1f} GiB, of which the JVM's heap may take {heap}"


def bytes_of(text: str) -> int | None:
    """The bytes that Spark means by a size: "512m"; None: it means none."""
    size = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    return int(size[1]) * _UNITS[size[2]] if size else None


def temporary_folders(local_dirs: str | None) -> list[str]:
    """The folders in which Spark puts temporary files.

    Parameters
    ----------
    local_dirs : what `spark.local.dir` says; the environment wins over it.
    """
    usual = "/tmp" if sys.platform == "linux" else tempfile.gettempdir()  # the JVM's own; on Linux it reads no TMPDIR
    setting = os.environ.get("SPARK_LOCAL_DIRS") or local_dirs or usual
    return list(dict.fromkeys(filter(None, setting.split(","))))


def checked_folders(folders: Iterable[str], least: int = LEAST_ROOM) -> str:
    """The folders for temporary files, as text.

    Parameters
    ----------
    least : bytes that each must have free.
    """
    summaries, failures = [], []
    for folder in folders:
        try:
            place = _nearest_existing(folder)  # Spark makes what is missing of it
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"0")
            free = shutil.disk_usage(place).free
        except OSError as error:
            failures.append(
                ConfigError(
                    f"The folder for temporary files {folder!r} cannot be written to: {error.strerror or error}.",
                    hint="Name another: SPARK_LOCAL_DIRS=/path.",
                )
            )
            continue
        if free < least:
            raise ConfigError(
                f"The folder for temporary files {folder!r} has {free >> 20} MB left, and {least >> 20} MB are needed.",
                hint="Remove files there, or name another folder: SPARK_LOCAL_DIRS=/path.",
            )
        summaries.append(f"{folder} ({free / (1 << 30):.1f} GiB free)")
    if not summaries and failures:
        raise failures[0]
    return ", ".join(summaries)


def _nearest_existing(folder: str) -> Path:
    path = Path(folder).absolute()
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())


def checked_jars(jars: Iterable[str]) -> str:
    """Paths of jars, as text."""
    paths = list(jars)
    for jar in paths:
        path = jar.removeprefix("file:")
        if ":" not in path and not any(mark in path for mark in "*?[") and not os.path.isfile(path):
            raise ConfigError(
                f"The jar {jar!r} is not there.",
                hint="Name the path of a file of this machine; without jars=, wm.session(kafka=True) fetches Spark's "
                "Kafka connector.",
            )
    return ", ".join(Path(jar).name for jar in paths)


# Which master of Spark is configured, before there is a session: watersmeet chooses none where anybody has.

HEAP = "spark.driver.memory"
_ONE_JVM = re.compile(r"local(\[[^\]]*\])?")
_PROPERTY = re.compile(r"^\s*([\w.\-]+)(?:\s*[=:]\s*|\s+)(.*?)\s*$")


def is_one_jvm(master: str) -> bool:
    """Whether all runs in the driver's JVM; `local-cluster[...]` has executors of its own, if on this machine."""
    return _ONE_JVM.fullmatch(master) is not None


def configured_master() -> str | None:
    """The master that spark-submit, the environment or Spark's files name; None where none does.

    In Spark's own order: the command line, its settings, the file of settings, the variable MASTER. SPARK_REMOTE, which
    names a server of Spark Connect, is in the place of a master.
    """
    if "SPARK_REMOTE" in os.environ:
        return f"remote {os.environ['SPARK_REMOTE']}"
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _master_of_the_jvm()
    master, _, _ = _of_the_command_line()
    return master or default_settings().get("spark.master") or os.environ.get("MASTER")


def default_settings() -> dict[str, str]:
    """The settings of Spark's file of defaults, where there is one, and in place of them the submitted ones."""
    _, overrides, file = _of_the_command_line()
    return {**_properties(_defaults_file() if file is None else Path(file)), **overrides}


def submitted_settings() -> dict[str, str]:
    return _of_the_command_line()[1]


def _master_of_the_jvm() -> str | None:
    """Under spark-submit the JVM is there before Python is, and has read everything."""
    try:
        # what making the context does first; it has no public name
        SparkContext._ensure_initialized()
    except AttributeError:
        return None
    return SparkConf().get("spark.master")


def _of_the_command_line() -> tuple[str | None, dict[str, str], str | None]:
    """The master, the settings and the file of settings that arguments for spark-submit name."""
    words = iter(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    master, settings, file = None, dict[str, str](), None
    for word in words:
        option, joined, value = word.partition("=")
        if option not in ("--master", "--conf", "-c", "--properties-file", "--driver-memory"):
            continue
        value = value if joined else next(words, "")
        if option == "--master":
            master = value
        elif option == "--properties-file":
            file = value
        elif option == "--driver-memory":
            settings[HEAP] = value
        else:
            name, _, content = value.partition("=")
            settings[name] = content
    return master, settings, file


def folder_of_settings() -> Path:
    """Spark's folder of files with settings; it need not be there."""
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    return Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"))


def _defaults_file() -> Path:
    return folder_of_settings() / "spark-defaults.conf"


def _properties(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    lines = file.read_text(errors="replace").splitlines()
    matches = [_PROPERTY.match(line) for line in lines if not line.lstrip().startswith(("#", "!"))]
    return {match[1]: match[2] for match in matches if match is not None}


# The Java that Spark starts: which one it is, and whether Spark runs on it.
#
# A JDK has a file `release` with its version, so no JVM is started to ask for it; one without that file is run once.

OLDEST, NEWEST = 17, 25
_JAVA_SECONDS = 60
_GET = (
    f"Install Java {OLDEST} or 21 (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install "
    "openjdk@21`), or set JAVA_HOME to the folder of one."
)
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_SMALL = frozenset({"i386", "i486", "i586", "i686", "x86", "arm", "arm32"})


@dataclass(frozen=True)
class Java:
    """A Java."""

    program: Path  # its path
    version: str  # such as "17.0.15"
    machine: str  # the processor that it is for; "" where it is not known

    def __str__(self) -> str:
        return f"{self.version}, {self.program}" + (f", {self.machine}" if self.machine else "")

    @property
    def major(self) -> int:
        """The first number; before Java 9 it stood second."""
        first, _, tail = self.version.partition(".")
        return int(re.match(r"\d+", tail if first == "1" else first)[0])  # type: ignore[index]


def java_program() -> str | None:
    """The program that Spark starts: of JAVA_HOME, else of the PATH; None: there is none on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def is_set_by_spark() -> bool:
    """Whether Spark runs a script before it looks for Java, which may set JAVA_HOME."""
    return not os.environ.get("SPARK_ENV_LOADED") and (folder_of_settings() / "spark-env.sh").is_file()


def found_java() -> Java:
    """The Java of this machine, on which Spark runs."""
    program = java_program()
    if program is None:
        raise ConfigError("No Java was found: JAVA_HOME is not set, and the PATH has no `java`.", hint=_GET)
    _check_home(program)
    java = _described(Path(program))
    of = f" (JAVA_HOME={os.environ['JAVA_HOME']!r})" if os.environ.get("JAVA_HOME") else " (the first on the PATH)"
    if not OLDEST <= java.major <= NEWEST:
        fault = "too old" if java.major < OLDEST else "too new"
        raise ConfigError(
            f"Java {java.version} is {fault}, Spark needs Java {OLDEST} to {NEWEST}: {java.program}{of}.", hint=_GET
        )
    architecture = _machine(platform.machine())
    small = java.machine in _SMALL
    # macOS runs programs for the other processor by itself
    if java.machine and (small or (sys.platform == "linux" and java.machine != architecture)):
        raise ConfigError(
            f"Java {java.program}{of} is for {java.machine}, and this machine is {architecture}.", hint=_GET
        )
    return java


def _check_home(program: str) -> None:
    home = os.environ.get("JAVA_HOME")
    if not home or shutil.which(program):
        return
    # JAVA_HOME=.../bin, or the program itself
    above = Path(home).parents[:2] if os.path.exists(home) else []
    near = next((folder for folder in above if shutil.which(str(folder / "bin" / "java"))), None)
    path_java = shutil.which("java")
    unset = f", or unset it: the PATH has {path_java}" if path_java else ""
    cure = f"JAVA_HOME={str(near)!r}" if near else f"JAVA_HOME must be the folder of a Java {OLDEST} to {NEWEST}"
    raise ConfigError(f"JAVA_HOME={home!r} has no program bin/java.", hint=f"{cure}{unset}.")


def _described(program: Path) -> Java:
    """The version and the processor, from the file that a JDK has, else from the program."""
    real_path = program.resolve()
    try:
        listed = (real_path.parents[1] / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        listed = ""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', listed, re.MULTILINE))
    if re.match(r"\d", release.get("JAVA_VERSION", "")):
        return Java(real_path, release["JAVA_VERSION"], _machine(release.get("OS_ARCH", "")))
    return _probe(program)


def _probe(program: Path) -> Java:
    try:
        done = subprocess.run(
            [str(program), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_JAVA_SECONDS,
        )
        text, code = done.stderr + done.stdout, done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        text, code = str(error), 1
    version = re.search(r'^\s*java\.version = (\S+)|version "([^"]+)"', text, re.MULTILINE)
    if code != 0 or version is None:
        reason = next((line.strip() for line in text.splitlines() if line.strip()), "it prints nothing")
        raise ConfigError(f"Java does not run: {program}: {reason:.160}", hint=_GET)
    machine = re.search(r"^\s*os\.arch = (\S+)", text, re.MULTILINE)
    return Java(program, version[1] or version[2], _machine(machine[1] if machine else ""))


def _machine(name: str) -> str:
    return _MACHINES.get(name.lower(), name.lower())


# Python, PySpark, and the Spark that it starts: whether they are of versions that fit each other.

NEWEST_PYTHON = (3, 13)
"""The newest that was tried; pyproject.toml has the same."""
_VERSIONS_SECONDS = 60


def checked_python(workers: str | None, version: tuple[int, ...] = sys.version_info[:2]) -> str:
    """This Python and that of the workers, as text.

    Parameters
    ----------
    workers : the program that PYSPARK_PYTHON names, if workers run on this machine.
    version : of this Python, two numbers.
    """
    if version > NEWEST_PYTHON:
        raise ConfigError(
            f"Python {'.'.join(map(str, version))} has not been tried with watersmeet: it runs on Python 3.11 to "
            f"{'.'.join(map(str, NEWEST_PYTHON))}.",
            hint="Make an environment of one of these: python3.13 -m venv .venv.",
        )
    if workers and workers != sys.executable:
        _check_workers(workers, version)
    return f"{platform.python_version()}, {sys.executable}"


def _check_workers(program: str, version: tuple[int, ...]) -> None:
    expected = ".".join(map(str, version))
    hint = f"Unset PYSPARK_PYTHON: the workers then run {sys.executable}."
    try:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run(
            [program, "-c", code], capture_output=True, text=True, check=False, timeout=_VERSIONS_SECONDS
        )
        worker_version = done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        worker_version = ""
    if worker_version != expected:
        problem = (
            f"is Python {worker_version}, and this one is {expected}" if worker_version else "is not a Python that runs"
        )
        raise ConfigError(f"PYSPARK_PYTHON={program!r} {problem}.", hint=hint)


def checked_spark() -> str:
    """PySpark and the Spark that it starts, as text."""
    package = Path(pyspark.__file__).resolve().parent
    _check_installed(package)
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return f"{pyspark.__version__}, {package}"
    if not Path(home, "bin", "spark-submit").is_file():
        raise ConfigError(
            f"SPARK_HOME={home!r} has no bin/spark-submit, so it is not a Spark.",
            hint=f"Unset SPARK_HOME: PySpark has a Spark {pyspark.__version__} of its own.",
        )
    version = spark_version(Path(home))
    if version is not None and _minor(version) != _minor(pyspark.__version__):
        raise ConfigError(
            f"SPARK_HOME={home!r} is Spark {version}, and PySpark is {pyspark.__version__} ({package}).",
            hint="Unset SPARK_HOME: PySpark has a Spark of its own. Or install the PySpark of that version.",
        )
    return f"{pyspark.__version__}, {package}; SPARK_HOME={home} is Spark {version or 'of an unknown version'}"


def _check_installed(package: Path) -> None:
    try:
        installed = distribution("pyspark")
    except PackageNotFoundError:
        return
    home = os.environ.get("SPARK_HOME")
    if home and package.is_relative_to(Path(home).resolve()):
        return  # that Spark's own, which it starts itself
    place = Path(str(installed.locate_file("pyspark"))).resolve()
    if place != package and _minor(installed.version) != _minor(pyspark.__version__):
        raise ConfigError(
            f"Python imports PySpark {pyspark.__version__} from {package}, but {installed.version} is installed in "
            f"{place.parent}.",
            hint=f"Take {package.parent} from PYTHONPATH, or install pyspark=={pyspark.__version__}.",
        )


def spark_version(home: Path) -> str | None:
    """The version of the Spark in a folder; None where its jars do not name it."""
    names = [re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name) for jar in home.glob("jars/spark-core_*.jar")]
    return next((name[1] for name in names if name is not None), None)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


# All checks of the machine: a session raises the first that fails, `watersmeet doctor` lists them all.


@dataclass(frozen=True)
class SessionConfig:
    """The session that is about to start."""

    settings: Mapping[str, str] = field(default_factory=dict)  # Spark's, those of its files included
    jars: Sequence[str] = ()  # paths that the user gave
    here: bool = True  # whether all of it runs on this machine

    @classmethod
    def of(cls, master: str, jars: Sequence[str], config: Mapping[str, str]) -> SessionConfig:
        # PySpark puts PYSPARK_SUBMIT_ARGS behind its own settings, and the JVM's heap is the one that is named last
        heap = {name: value for name, value in submitted_settings().items() if name == HEAP}
        return cls({**default_settings(), **config, **heap}, jars, here=is_one_jvm(master))

    @property
    def heap(self) -> str:
        return self.settings.get(HEAP) or os.environ.get("SPARK_DRIVER_MEMORY") or "1g"


def checks(session: SessionConfig) -> dict[str, Callable[[], str]]:
    """By name, each check: it returns what was found, or raises ConfigError."""
    workers = os.environ.get("PYSPARK_PYTHON") if session.here else None
    probes: dict[str, Callable[[], str]] = {
        "Python": lambda: checked_python(workers),
        "PySpark": checked_spark,
        "Java": lambda: str(found_java()),
        "memory": lambda: checked_memory(session.heap, memory()),
        "temporary files": lambda: checked_folders(temporary_folders(session.settings.get("spark.local.dir"))),
    }
    if is_set_by_spark():
        del probes["Java"]
    if session.jars:
        probes["jars"] = lambda: checked_jars(session.jars)
    return probes


def check_machine(session: SessionConfig) -> None:
    """Raise unless Spark can start here; no JVM is started to find out."""
    for check in checks(session).values():
        check()


# Kafka as this machine sees it: whether a broker answers, under the names that the brokers give themselves.

_BROKERS_SECONDS = 5.0
_FILES = "the broker's own is wanted in ssl_ca_location= if it has signed itself"
_START = (
    "Start Kafka, or correct the address and the port; in a container `localhost` is the container "
    "(docs/runbook.md#kafka)."
)
_ADVERTISED = (
    "Clients use that name: correct `advertised.listeners` of the broker, or make the name known to this machine "
    "(docs/runbook.md#kafka)."
)
_FAULTS = (
    (
        ("unsupported SASL mechanism", "Unsupported SASL mechanism", "mechanism handshake failed"),
        "The broker at {} does not take the login's mechanism.",
        "Ask for one that the brokers have, such as sasl_mechanism='SCRAM-SHA-512' or 'PLAIN'",
    ),
    (
        ("SASL", "Authentication failed"),
        "The broker at {} refuses the login.",
        "Check sasl_username=, sasl_password= and sasl_mechanism= against the users that the brokers know",
    ),
    (
        ("hostname mismatch", "IP address mismatch"),
        "The broker at {} has a certificate for another name.",
        "Put the name of the certificate into bootstrap_servers, and into the brokers' advertised.listeners",
    ),
    (
        ("verify failed", "self-signed", "unable to get local issuer", "unknown ca"),
        "The broker at {} has a certificate that this machine does not trust.",
        f"Name the file with the certificate of its authority: ssl_ca_location='ca.pem'; {_FILES}",
    ),
    (
        ("certificate required", "bad certificate", "handshake failure", "certificate unknown"),
        "The broker at {} wants a certificate of the client.",
        "Give it: ssl_certificate_location= and ssl_key_location= here, ssl.keystore.* in consumer={...}",
    ),
    (
        (
            "wrong version number",
            "PLAINTEXT broker",
            "packet length too long",
            "unexpected eof",
            "record layer failure",
        ),
        "The broker at {} does not speak TLS.",
        "Leave SSL out of security_protocol=, or take the port with TLS",
    ),
)
"""Words of OpenSSL and librdkafka, the message, and the cure."""


def checked_brokers(kafka: Kafka) -> str:
    """The brokers and the number of topics, as text."""
    kafka_client.client()
    _check_ports(kafka)
    metadata = _metadata(kafka)
    addresses = [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()]
    for name in addresses:
        _check_name(kafka, [name])
    return f"{', '.join(sorted(addresses))}; {len(metadata.topics)} topics"


def check_brokers(kafka: Kafka) -> None:
    """Raise unless Kafka answers: what a start asks first, since its clients would wait and not say why."""
    if kafka_client.can_ask(kafka):
        kafka_client.admin(kafka)  # its settings need no broker
    _check_ports(kafka)
    if kafka_client.can_ask(kafka):
        _check_name(kafka, [f"{broker.host}:{broker.port}" for broker in _metadata(kafka).brokers.values()])


def _check_ports(kafka: Kafka) -> None:
    _check_one([server.strip() for server in kafka.bootstrap_servers.split(",")], "No broker answers at", _START)


def _check_name(kafka: Kafka, names: list[str]) -> None:
    _check_one(names, f"Kafka answers at {kafka.bootstrap_servers}, but a broker calls itself", _ADVERTISED)


def _check_one(servers: list[str], message: str, hint: str) -> None:
    """Raise unless one of these servers can be reached."""
    failures: list[str] = []
    for server in servers:
        failure = _unreached(server)
        if not failure:
            return
        failures.append(f"{server}: {failure}")
    raise passing(ConfigError(f"{message} {'; '.join(failures)}.", hint=hint))


def _metadata(kafka: Kafka) -> Any:
    """The brokers and topics, as the client has them."""
    errors: list[Any] = []
    admin = kafka_client.admin(kafka, error_cb=errors.append)
    until = time.monotonic() + 2 * _BROKERS_SECONDS
    while True:
        try:
            return admin.list_topics(timeout=1)
        except kafka_client.client().KafkaException as error:
            admin.poll(0)
            fault = _fault(kafka, [failure.str() for failure in errors])
            if fault is not None:
                raise fault from None
            if time.monotonic() > until:
                raise _silent(kafka, error.args[0]) from None


def _fault(kafka: Kafka, texts: list[str]) -> ConfigError | None:
    """The error of TLS or of the login, as soon as the client has seen one."""
    for words, message, cure in _FAULTS:
        if any(word in text for text in texts for word in words):
            return ConfigError(message.format(kafka.bootstrap_servers), hint=f"{cure}.")
    if "security.protocol" not in kafka.options:
        server = next((address for address in kafka.bootstrap_servers.split(",") if not _unreached(address)), "")
        spoken = _spoken(server) if server else ""
        if spoken:
            return ConfigError(
                f"The port {server} speaks {spoken}, and the connection is without TLS.",
                hint="A port with TLS needs security_protocol='SSL', or 'SASL_SSL' with a login."
                if spoken == "TLS"
                else "Give the address of a broker, and not of a REST proxy, a registry or a page.",
            )
    return None


def _silent(kafka: Kafka, error: Any) -> ConfigError:
    return passing(
        ConfigError(
            f"{kafka.bootstrap_servers} is open, but does not answer as Kafka does: {error.name()}.",
            hint="A port with TLS or a login needs it in wm.Kafka: security_protocol=, sasl_mechanism= and the rest; "
            "`watersmeet doctor --config run.toml` tries them.",
        )
    )


def _spoken(server: str) -> str:
    """TLS or HTTP, where a port speaks one of them; "" otherwise."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = server.strip().rpartition(":")
    place = (host.strip("[]"), int(port))
    try:
        with (
            socket.create_connection(place, _BROKERS_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=place[0]),
        ):
            return "TLS"
    except ssl.SSLError as error:
        # a server that asks for a certificate ends the handshake by an alert of TLS
        if "ALERT" in str(error.reason):
            return "TLS"
    except OSError:
        return ""
    try:
        with socket.create_connection(place, _BROKERS_SECONDS) as plain:
            plain.settimeout(_BROKERS_SECONDS)
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return "HTTP" if plain.recv(5) == b"HTTP/" else ""
    except OSError:
        return ""


def _unreached(server: str) -> str:
    """Why no connection can be made; "" if one was made."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _BROKERS_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:  # also of a name or a port that there cannot be
        return getattr(error, "strerror", None) or str(error)
    return ""
