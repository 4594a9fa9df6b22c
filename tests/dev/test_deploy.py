"""The files of examples/deploy: they fit the schema of the operator, the options of `run`, the lock, and each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication
from pydantic import ValidationError

from dev.image import DOCKERFILE, Root, Step, steps
from dev.jars import ROOT
from watersmeet._spark.session import KNOWN
from watersmeet._worker.databases import _BATCHES_COLUMNS
from watersmeet.cli.run import read_config, run
from watersmeet.io.databases import BATCHES

DEPLOY = DOCKERFILE.parent
LOCKED = re.search(r"^pyspark==(\S+)", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)[1]  # type: ignore[index]
COPIED = {
    name for step in steps(DOCKERFILE.read_text()) if step.kind == "COPY" for name in step.text.split() if "/" in name
}


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KAFKA", "broker:9092")
    monkeypatch.chdir(DEPLOY)
    return read_config(DEPLOY / "run.toml")


def test_the_manifest_fits_the_operators_schema_with_each_field_and_type() -> None:
    manifest = read("kubernetes.yaml")
    found = SparkV1beta2SparkApplication.from_dict(manifest)
    assert found is not None
    # a field that the schema does not have is lost on the way
    assert found.to_dict() == manifest


@pytest.mark.parametrize(
    ("part", "field", "value"), [("executor", "cores", "two"), ("restartPolicy", "onFailureRetryInterval", "30s")]
)
def test_a_value_of_another_type_than_the_schemas_is_found(part: str, field: str, value: Any) -> None:
    manifest = read("kubernetes.yaml")
    manifest["spec"][part][field] = value
    with pytest.raises(ValidationError, match=field):
        SparkV1beta2SparkApplication.from_dict(manifest)


def test_a_field_that_the_schema_does_not_have_is_found() -> None:
    manifest = read("kubernetes.yaml")
    manifest["spec"]["driver"]["core"] = 1
    found = SparkV1beta2SparkApplication.from_dict(manifest)
    assert found is not None
    assert found.to_dict() != manifest


def test_the_manifest_mounts_its_volumes_starts_what_the_image_has_and_sets_what_the_page_of_deployment_says() -> None:
    spec = read("kubernetes.yaml")["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    mounted = {mount["name"] for part in ("driver", "executor") for mount in spec[part]["volumeMounts"]}
    assert mounted == volumes
    file = Path(spec["mainApplicationFile"].removeprefix("local://")).name
    assert f"examples/deploy/{file}" in COPIED
    assert spec["sparkVersion"] == LOCKED
    page = (ROOT / "docs" / "deploy.md").read_text()
    settings = re.search(r"If you make the session in another way, set at least\n\n```\n(.*?)```", page, re.DOTALL)
    assert settings is not None
    wanted = dict(line.split() for line in settings[1].splitlines())
    assert wanted.items() <= spec["sparkConf"].items()


def test_the_configuration_of_the_image_is_one_that_run_takes(options: Any) -> None:
    options.check()
    assert options.restart == 5


def test_the_image_has_the_locked_spark_and_files_that_there_are() -> None:
    text = DOCKERFILE.read_text()
    assert f"apache/spark:{LOCKED}" in text
    assert [name for name in COPIED if not name.startswith(("--", "/", "requirements/")) and name != "./"] != []
    missing = [name for name in COPIED if re.match(r"[a-z]", name) and not (ROOT / name).exists()]
    assert missing == []


def test_the_image_starts_drivers_and_executors_of_kubernetes_with_the_connector_that_it_keeps() -> None:
    text = DOCKERFILE.read_text()
    # Spark's program answers to `driver` and `executor`, and runs any other command as it is
    assert 'ENTRYPOINT ["/opt/entrypoint.sh"]' in text
    assert 'CMD ["tini", "--", "watersmeet", "run"' in text
    assert "*.jar /opt/connector\n" in text
    given = read("kubernetes.yaml")["spec"]["sparkConf"]
    for part in ("driver", "executor"):
        assert given[f"spark.{part}.extraClassPath"] == "/opt/connector/*"


def test_the_services_mount_files_that_there_are_and_wait_for_services_that_there_are(options: Any) -> None:
    services = read("compose.yaml")["services"]
    mounted = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert len(mounted) == 5
    assert [name for name in mounted if not (DEPLOY / name).is_file()] == []
    assert {name for service in services.values() for name in service.get("depends_on", [])} <= set(services)
    (job,) = read("prometheus.yaml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"clicks:{options.start['metrics_port']}"]}]
    # the image's own entry point is that of Kubernetes
    assert services["clicks"]["entrypoint"][-1] == "watersmeet"
    assert services["clicks"]["command"][0] == run.name
    known = {name for parameter in run.params for name in parameter.opts}
    assert {word for word in services["clicks"]["command"] if word.startswith("--")} <= known
    assert (services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]).endswith(
        services["clicks"]["environment"]["KAFKA"]
    )


def test_the_sources_and_dashboards_of_grafana_lie_where_the_services_mount_them() -> None:
    (source,) = read("grafana-sources.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read("grafana-folders.yaml")["providers"]
    assert any(
        f":{provider['options']['path']}/" in each for each in read("compose.yaml")["services"]["grafana"]["volumes"]
    )


def test_a_step_that_is_not_known_or_changes_the_system_is_said_and_not_passed_over(tmp_path: Path) -> None:
    assert Step("RUN", "apt-get update").left_out == "it changes the system"
    assert Step("RUN", "python -m pip list").left_out == ""
    root = object.__new__(Root)
    root.folder = root.place = tmp_path
    root.environment = {"PATH": "/usr/bin:/bin"}
    with pytest.raises(Exception, match="kind ADD are not known"):
        root.run(Step("ADD", "a b"))
    with pytest.raises(Exception, match="ended with 3"):
        root.run(Step("RUN", "exit 3"))
    root.run(Step("WORKDIR", "/opt/app"))
    root.run(Step("RUN", "pwd > /opt/said"))
    assert (tmp_path / "opt" / "said").read_text().strip() == str(tmp_path / "opt" / "app")


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def test_each_connector_that_a_page_names_is_the_one_that_is_known_to_work() -> None:
    group, name, version = KNOWN[0]
    named = {
        found
        for path in (ROOT / "docs").glob("*.md")
        for found in re.findall(r"[\w.]+:spark-sql-kafka[\w.:-]+", path.read_text())
    }
    assert named == {f"{group}:{name}:{version}"}


def test_the_page_of_databases_creates_the_table_of_batches_as_the_code_does() -> None:
    assert f"`CREATE TABLE {BATCHES} {_BATCHES_COLUMNS}`" in page("databases.md")


def test_no_page_asks_for_a_new_checkpoint_to_change_shards_and_tasks() -> None:
    assert "`shards` of a new checkpoint" not in page("tune.md")
    row = next(
        line for line in (ROOT / "docs" / "tune.md").read_text().splitlines() if line.startswith("| `lag` grows")
    )
    assert "`evolve=True`" in row
