"""The page of all public classes and settings of Kafka Streams, each with its counterpart here.

`kafka_streams.tsv` has a section for each package, and one of settings; a line has names, their counterpart, and a
remark. `python -m dev.docs.kafka_streams` compares it with the jar of Kafka Streams (`make jars`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dev.jars import jars
from dev.jvm import find_java

NAMES = Path(__file__).with_name("kafka_streams.tsv")
PACKAGE = "org.apache.kafka.streams"
SETTINGS = "Settings"
_CLASS = re.compile(r"^public .*?(?:class|interface|enum) (org\.apache\.[\w.$]+)", re.MULTILINE)
_SETTING = re.compile(r'String \w+_(?:CONFIG|PREFIX) = "([^"]+)";')
_HEAD = """# Every name of Kafka Streams

All public classes and settings of Kafka Streams 4.4, and what each is here; "not there" means that Spark has nothing to
build it on. [Coming from Kafka Streams](../../docs/coming_from_kafka_streams.md) has the methods, and what differs.
"""


class Counterpart(NamedTuple):
    """A line of the file.

    Parameters
    ----------
    section : the package, or "Settings".
    names : classes, of nested ones with the outer one's name before a dot; or settings.
    here : what they are here.
    remark : what differs, or why there is none; may be empty.
    """

    section: str
    names: tuple[str, ...]
    here: str
    remark: str


def counterparts(text: str | None = None) -> Iterator[Counterpart]:
    """The lines of the file, or of such a text."""
    section = ""
    for line in (NAMES.read_text(encoding="utf-8") if text is None else text).splitlines():
        if line.startswith("# "):
            section = line[2:]
        else:
            names, here, remark = line.split("\t")
            yield Counterpart(section, tuple(names.split(" ")), here, remark)


def page(text: str) -> str:
    """The page of the site: a table for each section."""
    parts, section = [_HEAD], ""
    for line in counterparts(text):
        if line.section != section:
            section = line.section
            title = f"`{section}`" if section != SETTINGS else section
            parts.append(f"\n## {title}\n\n| Kafka Streams | here | remark |\n|---|---|---|\n")
        names = ", ".join(f"`{name}`" for name in line.names)
        parts.append(f"| {names} | {line.here} | {line.remark} |\n")
    return "".join(parts)


def listed() -> set[str]:
    """All names of the file; of a class with its package."""
    return {
        name if line.section == SETTINGS else f"{line.section}.{name}" for line in counterparts() for name in line.names
    }


def names_of_jar(jar: Path, beside: list[Path]) -> set[str]:
    """The public classes outside of internal packages, and the settings, that a jar of Kafka Streams has.

    Parameters
    ----------
    jar, beside : of Kafka Streams, and those that it needs.

    Raises
    ------
    subprocess.CalledProcessError : javap refuses; standard error says why.
    """
    with zipfile.ZipFile(jar) as packed:
        files = [name.removesuffix(".class") for name in packed.namelist() if name.endswith(".class")]
    classes = [name.replace("/", ".") for name in files if "/internals/" not in name]
    named = [name for name in classes if name.startswith(PACKAGE) and not re.search(r"\$\d", name)]
    path = ":".join(map(str, [jar, *beside]))
    javap = shutil.which("javap", path=str(Path(find_java()).parent)) or "javap"
    asked = [javap, "-public", "-constants", "-cp", path]
    shown = subprocess.run([*asked, *named], capture_output=True, text=True, check=True).stdout
    settings = shown.partition(f"class {PACKAGE}.StreamsConfig ")[2].partition("\n}")[0]
    return {name.replace("$", ".") for name in _CLASS.findall(shown)} | set(_SETTING.findall(settings))


def main() -> int:
    """Say which names the jar has and the file has not, and the other way round."""
    (jar,) = [each for each in jars("streams") if re.match(r"kafka-streams-\d", each.name)]
    there, written = names_of_jar(jar, [each for each in jars("streams") if each != jar]), listed()
    for name in sorted(there - written):
        print(f"without a line: {name}")
    for name in sorted(written - there):
        print(f"not in {jar.name}: {name}")
    return 1 if there ^ written else 0


if __name__ == "__main__":
    sys.exit(main())
