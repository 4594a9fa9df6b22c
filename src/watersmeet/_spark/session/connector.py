"""Spark's Kafka connector: the jars of the running Spark's version, or of the newest one that is known to work with it.

Fetched with the Ivy that PySpark ships, once for each version of PySpark, into the user's cache folder; later sessions
find them there. Spark would fetch them by itself (`spark.jars.packages`), but only the one version, at every start
again, with 60 lines on the console; and where that version is not to be had the JVM ends.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import pyspark

from watersmeet._spark.session.machine.java import java_program
from watersmeet.errors import ConfigError

SCALA = "2.13"
CONNECTOR = f"spark-sql-kafka-0-10_{SCALA}"
KNOWN = (
    ("org.apache.spark", CONNECTOR, "4.2.0"),
    ("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
"""The newest connector that was tried with PySpark from 4.1 on, and what it needs besides Spark's own jars."""
SETTINGS = "spark.jars.ivySettings"
"""Spark's name for the path of a file that tells Ivy of a mirror."""
_SECONDS = 600

# Of the connector's own needs Spark's jars have all but those of these organisations; a second copy does harm.
_FOREIGN = r"""<exclude org="^(?!org\.apache\.(spark|kafka|commons)$).*" matcher="regexp"/>
    <exclude org="org.apache.spark" module="^(?!spark-(sql|token-provider)-kafka).*" matcher="regexp"/>
    <exclude org="org.apache.commons" module="^(?!commons-pool2$).*" matcher="regexp"/>"""


def kafka_package() -> str:
    """Coordinates of the Kafka connector for the running Spark."""
    return f"org.apache.spark:{CONNECTOR}:{pyspark.__version__}"


def kafka_jars(settings: Mapping[str, str], home: Path | None = None, version: str = pyspark.__version__) -> list[str]:
    """Paths of the connector's jars: those at hand, or fetched now.

    Parameters
    ----------
    settings : Spark's; of them `spark.jars.ivySettings` counts.
    home : the folder that holds them; default: of this user's cache.
    version : of Spark.

    Raises
    ------
    ConfigError : neither the version's own connector nor the known one can be had.
    """
    home = _cache_home() if home is None else home
    found = at_hand(home, version)
    if found:
        _say_which(found[0].parent.name, version)
        return [str(jar) for jar in found]
    said = ""
    for name, wanted in ((version, _exact(version)), (f"{version}-known", _known())):
        folder = home / name
        said = _fetched(wanted, folder, settings.get(SETTINGS))
        if not said:
            _say_which(name, version)
            return [str(jar) for jar in sorted(folder.glob("*.jar"))]
    raise ConfigError(
        "Spark's Kafka connector could not be fetched.",
        given=said,
        hint="Fetch these jars where there is a network and pass their paths, wm.session(jars=[...]): "
        + ", ".join(f"{name}-{revision}.jar" for _, name, revision in KNOWN)
        + f'. Or name a mirror in an Ivy settings file: config={{"{SETTINGS}": "ivysettings.xml"}}.',
    )


def at_hand(home: Path | None = None, version: str = pyspark.__version__) -> list[Path]:
    """The connector's jars that were fetched before; those of the version itself come first.

    Parameters
    ----------
    home, version : as for `kafka_jars`.
    """
    home = _cache_home() if home is None else home
    listed = [sorted((home / name).glob("*.jar")) for name in (version, f"{version}-known")]
    return next(filter(None, listed), [])


def _say_which(name: str, version: str) -> None:
    if name != version:
        print(
            f"watersmeet: Spark's Kafka connector {version} is not to be had; "
            f"taking {KNOWN[0][2]}, which works with it.",
            file=sys.stderr,
        )


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet" / "kafka-connector"


def _exact(version: str) -> str:
    whole = f'<dependency org="org.apache.spark" name="{CONNECTOR}" rev={quoteattr(version)} conf="default->default"/>'
    return f"{whole}\n    {_FOREIGN}"


def _known() -> str:
    return "\n    ".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->default" transitive="false"/>'
        for org, name, rev in KNOWN
    )


def _fetched(wanted: str, folder: Path, settings: str | None) -> str:
    """Have Ivy lay the wanted jars into the folder, all or none; what went wrong, nothing if all is well."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
            into = Path(staging) / "jars"
            asked = Path(staging) / "ivy.xml"
            asked.write_text(
                '<ivy-module version="2.0">\n  <info organisation="watersmeet" module="session"/>\n'
                f'  <configurations><conf name="default"/></configurations>\n  <dependencies>\n    {wanted}\n'
                "  </dependencies>\n</ivy-module>\n"
            )
            done = subprocess.run(
                _ivy(asked, into, settings), capture_output=True, text=True, check=False, timeout=_SECONDS
            )
            if done.returncode != 0:
                return _reason(done.stdout.splitlines() + done.stderr.splitlines())
            shutil.rmtree(folder, ignore_errors=True)
            # renamed when it is whole: what a start that breaks off leaves is not taken for it
            into.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return ""


def _ivy(asked: Path, into: Path, settings: str | None) -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return [
        java_program() or "java",
        *_proxies(),
        *("-cp", os.path.join(spec.submodule_search_locations[0], "jars", "*"), "org.apache.ivy.Main"),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(asked), "-confs", "default", "-types", "jar", "bundle", "-warn"),
        *("-retrieve", str(into / "[artifact]-[revision].[ext]")),
    ]


def _proxies() -> list[str]:
    """Java's options for the proxies that pip takes from the environment; Java passes those over."""
    found = []
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY") or ""
        parts = urlsplit(value if "://" in value else f"//{value}")
        if parts.hostname:
            found += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
    return found


def _reason(lines: Iterable[str]) -> str:
    """Of Ivy's report the lines that say what is missing, each once."""
    telling = [line.strip(" \t:") for line in lines if "not found" in line or "error" in line.lower()]
    return "; ".join(dict.fromkeys(telling))[:500] or "Ivy has failed without a word"
