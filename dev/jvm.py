"""Finds the Java that everything here runs on, and says clearly when there is none that will do.

Owns the rule "Java 17 or later, the one that Spark itself would take".
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

OLDEST_JAVA = 17
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""For a JVM whose code runs a few times: the second compiler takes a third of its CPU, and would pay only later."""

_INSTALL_HINT = (
    f"Hint: install a Java {OLDEST_JAVA} or later (a JRE is enough; on Debian or Ubuntu\n"
    "`apt-get install openjdk-17-jre-headless`, on macOS `brew install openjdk@17`), and have `java` on the\n"
    "PATH or JAVA_HOME set."
)


class JavaMissing(RuntimeError):
    """There is no Java, or only one that is too old; the message says what to do."""


def find_java(environ: Mapping[str, str] = os.environ) -> str:
    """The path of a java command that is new enough, where Spark looks too: JAVA_HOME, then the PATH."""
    home = environ.get("JAVA_HOME")
    if home:
        command: str | None = str(Path(home) / "bin" / "java")
        origin = f"JAVA_HOME ({home})"
    else:
        command = shutil.which("java", path=environ.get("PATH"))
        origin = "the PATH"
    if command is None or not Path(command).exists():
        raise JavaMissing(f"Java {OLDEST_JAVA} or later is needed; none was found through {origin}.\n{_INSTALL_HINT}")
    shown = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    text = (shown.stderr + shown.stdout).strip()
    major = java_major(text)
    if shown.returncode != 0 or major is None:
        raise JavaMissing(f"{command} (from {origin}) does not run: {text or 'it says nothing'}\n{_INSTALL_HINT}")
    if major < OLDEST_JAVA:
        raise JavaMissing(
            f"Java {OLDEST_JAVA} or later is needed; {command} (from {origin}) is Java {major}.\n{_INSTALL_HINT}"
        )
    return command


def java_major(version_text: str) -> int | None:
    """The major version in what `java -version` prints; None where there is none."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if found is None:
        return None
    first = int(found.group(1))
    # Java 8 and before call themselves 1.8
    return int(found.group(2) or 0) if first == 1 else first


def proxy_options(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Java's options for the proxies that pip and curl take from the environment; Java ignores those."""
    options = []
    for scheme in ("http", "https"):
        value = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY")
        if not value:
            continue
        parts = urlsplit(value if "://" in value else f"//{value}")
        if parts.hostname:
            options.append(f"-D{scheme}.proxyHost={parts.hostname}")
            options.append(f"-D{scheme}.proxyPort={parts.port or 80}")
    return options
