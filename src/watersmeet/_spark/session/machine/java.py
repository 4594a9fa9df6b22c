"""The Java that Spark starts: which one it is, and whether Spark runs on it.

A JDK has a file `release` with its version, so no JVM is started to ask for it; one without that file is run once.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from watersmeet._spark.session.master import folder_of_settings
from watersmeet.errors import ConfigError

OLDEST, NEWEST = 17, 25
_SECONDS = 60
_GET = (
    f"Install Java {OLDEST} or 21 (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install "
    "openjdk@21`), or set JAVA_HOME to the folder of one."
)
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_SMALL = frozenset({"i386", "i486", "i586", "i686", "x86", "arm", "arm32"})


@dataclass(frozen=True)
class Java:
    """A Java.

    Parameters
    ----------
    program : its path.
    version : such as "17.0.15".
    machine : the processor that it is for; "" where it is not known.
    """

    program: Path
    version: str
    machine: str

    def __str__(self) -> str:
        return f"{self.version}, {self.program}" + (f", {self.machine}" if self.machine else "")

    @property
    def major(self) -> int:
        """The first number; before Java 9 it stood second."""
        first, _, rest = self.version.partition(".")
        return int(re.match(r"\d+", rest if first == "1" else first)[0])  # type: ignore[index]


def java_program() -> str | None:
    """The program that Spark starts: of JAVA_HOME, else of the PATH; None: there is none on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def is_set_by_spark() -> bool:
    """Whether Spark runs a script before it looks for Java, which may set JAVA_HOME."""
    return not os.environ.get("SPARK_ENV_LOADED") and (folder_of_settings() / "spark-env.sh").is_file()


def found_java() -> Java:
    """The Java of this machine, on which Spark runs.

    Raises
    ------
    ConfigError : there is none, or Spark does not run on it.
    """
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
    here = _machine(platform.machine())
    small = java.machine in _SMALL
    # macOS runs programs for the other processor by itself
    if java.machine and (small or (sys.platform == "linux" and java.machine != here)):
        raise ConfigError(f"Java {java.program}{of} is for {java.machine}, and this machine is {here}.", hint=_GET)
    return java


def _check_home(program: str) -> None:
    home = os.environ.get("JAVA_HOME")
    if not home or shutil.which(program):
        return
    # JAVA_HOME=.../bin, or the program itself
    above = Path(home).parents[:2] if os.path.exists(home) else []
    near = next((each for each in above if shutil.which(str(each / "bin" / "java"))), None)
    others = shutil.which("java")
    unset = f", or unset it: the PATH has {others}" if others else ""
    cure = f"JAVA_HOME={str(near)!r}" if near else f"JAVA_HOME must be the folder of a Java {OLDEST} to {NEWEST}"
    raise ConfigError(f"JAVA_HOME={home!r} has no program bin/java.", hint=f"{cure}{unset}.")


def _described(program: Path) -> Java:
    """The version and the processor, from the file that a JDK has, else from the program."""
    whole = program.resolve()
    try:
        listed = (whole.parents[1] / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        listed = ""
    said = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', listed, re.MULTILINE))
    if re.match(r"\d", said.get("JAVA_VERSION", "")):
        return Java(whole, said["JAVA_VERSION"], _machine(said.get("OS_ARCH", "")))
    return _asked(program)


def _asked(program: Path) -> Java:
    try:
        done = subprocess.run(
            [str(program), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
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
