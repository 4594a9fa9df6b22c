"""Spark's Kafka connector: the running version's own, else the newest one known to work, else what to pass.

The mirrors are folders, so nothing of this needs a network.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dev.jars import jars, spark_jars
from watersmeet._spark.session import KNOWN, SETTINGS, admin_client, kafka_jars
from watersmeet.errors import ConfigError

MIRROR = """<ivysettings>
  <settings defaultResolver="mirror"/>
  <caches defaultCacheDir="{root}/ivy"/>
  <resolvers>
    <filesystem name="mirror"><artifact pattern="{root}/mirror/[artifact]-[revision].[ext]"/></filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Of a mirror that has the known connector, and nothing else."""
    (tmp_path / "mirror").mkdir()
    for jar in map(Path, spark_jars()):
        shutil.copy(jar, tmp_path / "mirror")
    (tmp_path / "ivysettings.xml").write_text(MIRROR.format(root=tmp_path))
    return {SETTINGS: str(tmp_path / "ivysettings.xml")}


def test_the_known_connector_is_taken_where_the_versions_own_is_not_to_be_had_and_kept(
    settings: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = kafka_jars(settings, tmp_path / "home", "4.9.9")
    assert {Path(jar).name for jar in found} == {f"{name}-{revision}.jar" for _, name, revision in KNOWN}
    assert all(Path(jar).stat().st_size for jar in found)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "watersmeet: Spark's Kafka connector 4.9.9 is not to be had; taking 4.2.0, which works with it."
    ]
    shutil.rmtree(tmp_path / "mirror")
    assert kafka_jars(settings, tmp_path / "home", "4.9.9") == found
    assert capsys.readouterr().err == ""  # only the start that fetches it says which


def test_the_running_versions_own_connector_is_taken_where_there_is_one(
    settings: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "spark-sql-kafka-0-10_2.13-4.2.0.jar").rename(mirror / "spark-sql-kafka-0-10_2.13-4.9.9.jar")
    (found,) = kafka_jars(settings, tmp_path / "home", "4.9.9")
    assert Path(found).name == "spark-sql-kafka-0-10_2.13-4.9.9.jar"
    assert capsys.readouterr().err == ""


def test_where_none_can_be_had_the_error_says_what_to_pass(settings: dict[str, str], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "mirror")
    wanted = r"could not be fetched(.|\n)*not found(.|\n)*Hint: (.|\n)*jars=(.|\n)*kafka-clients-3\.9\.2\.jar"
    with pytest.raises(ConfigError, match=wanted) as failed:
        kafka_jars(settings, tmp_path / "home", "4.9.9")
    assert len(str(failed.value).splitlines()) == 3
    assert list((tmp_path / "home").iterdir()) == []


def test_the_client_that_asks_of_streams_groups_is_fetched_once(settings: dict[str, str], tmp_path: Path) -> None:
    name = "kafka-clients-4.4.0.jar"
    with pytest.raises(ConfigError, match=rf"could not be fetched(.|\n)*Hint: (.|\n)*--client \S*{name}"):
        admin_client(settings, tmp_path / "home")
    shutil.copy(next(jar for jar in jars("broker") if jar.name == name), tmp_path / "mirror")
    client = admin_client(settings, tmp_path / "home")
    shutil.rmtree(tmp_path / "mirror")
    assert admin_client(settings, tmp_path / "home") == client
    assert (client.name, client.stat().st_size > 1 << 20) == (name, True)
