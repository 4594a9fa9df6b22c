"""A release: the files that carry its version agree, and two builds of one commit are the same bytes."""

from __future__ import annotations

import base64
import doctest
import hashlib
import io
import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from mkdocs.utils.yaml import yaml_load
from packaging.requirements import Requirement

import watersmeet as wm
from dev.docs import hooks, llms
from dev.file_manager import build as file_manager
from dev.release import build, check, components
from dev.versions import PAIRS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))
WRITES = {
    "check.yml": set[str](),
    "codeql.yml": {"security-events"},
    "docs.yml": {"contents"},
    "publish.yml": {"id-token", "attestations"},
}
"""What the jobs of a workflow may write."""


@pytest.mark.parametrize("module", [build, check, llms])
def test_the_examples_of_the_tools_are_true(module) -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_all_files_with_the_version_have_the_same_one() -> None:
    recipe = yaml_load((ROOT / "dev" / "conda" / "recipe.yaml").read_text())
    citation = yaml_load((ROOT / "CITATION.cff").read_text())
    assert {recipe["context"]["version"], citation["version"], build.version_of(ROOT)} == {wm.__version__}
    assert re.search(rf"^## {re.escape(wm.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_recipe_for_conda_needs_what_the_package_needs() -> None:
    run = yaml_load((ROOT / "dev" / "conda" / "recipe.yaml").read_text())["requirements"]["run"]
    kafka = [f"python-{need}" for need in PROJECT["optional-dependencies"]["kafka"]]
    wanted = [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"], *kafka]
    ours = {Requirement(need).name: Requirement(need).specifier for need in wanted}
    theirs = {name: Requirement(f"{name}{bounds}").specifier for name, bounds in (each.split(" ") for each in run)}
    assert {name: bounds for name, bounds in theirs.items() if name != "openjdk"} == ours


def test_each_claimed_version_of_python_and_spark_is_tried() -> None:
    pairs = (check.DAILY, *PAIRS)
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert sorted(python for python, _ in pairs) == claimed
    page = (ROOT / "docs" / "versions.md").read_text()
    rows = dict(re.findall(r"^\| (Python|PySpark) \| ([\d., ]+?) \|", page, re.MULTILINE))
    assert rows["Python"].split(", ") == claimed
    assert rows["PySpark"].split(", ") == sorted(spark for _, spark in pairs)


def test_the_project_names_no_address_until_a_release_is_given_one(tmp_path: Path) -> None:
    assert "urls" not in PROJECT
    (tmp_path / "src" / "watersmeet").mkdir(parents=True)
    (tmp_path / "src" / "watersmeet" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    for name in ("pyproject.toml", "README.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    build.with_addresses(tmp_path, "https://host/us/watersmeet")
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Source"] == "https://host/us/watersmeet"
    readme = (tmp_path / "README.md").read_text()
    assert "(https://host/us/watersmeet/blob/v1.2.3/docs/start.md)" in readme
    assert "(https://host/us/watersmeet/raw/v1.2.3/docs/performance.svg)" in readme
    assert [link for link in build.LINK.findall(readme) if not link[0].startswith("https:")] == []


def test_the_readme_of_the_wheel_has_a_program_and_its_output() -> None:
    program, shown = check.first_program((ROOT / "README.md").read_text())
    compile(program, "README.md", "exec")
    assert shown.startswith("[(1, 1, 100.0)")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_workflow_reads_as_yaml_says_that_it_is_untried_and_gives_no_more_rights_than_it_needs(path: Path) -> None:
    text = path.read_text()
    read = yaml_load(text)
    assert text.startswith("# Untried: no repository has ")
    if path.parent.name == "workflows":
        assert "write" not in str(read["permissions"])
        rights = (job.get("permissions", {}) for job in read["jobs"].values())
        assert {right for each in rights for right, given in each.items() if given == "write"} == WRITES[path.name]
        commands = re.findall(r"make ([a-z-]+)", text)
        makefile = (ROOT / "Makefile").read_text()
        assert [name for name in commands if f"\n{name}:" not in makefile] == []


def test_the_locks_of_users_are_the_versions_of_the_tests() -> None:
    def locked(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))

    users, daily = locked("runtime.txt"), locked("dev.txt")
    assert users
    assert users.items() <= daily.items()
    needs = [*PROJECT["dependencies"], *(need for each in PROJECT["optional-dependencies"].values() for need in each)]
    assert {Requirement(need).name for need in needs} <= set(users)


def test_the_list_of_pages_for_programs_has_each_page_of_the_menu_with_a_sentence() -> None:
    config = yaml_load((ROOT / "mkdocs.yml").read_text())
    outside = hooks.outside()
    text = llms.written("watersmeet", "Joins.", hooks.expanded(config["nav"]), outside)
    assert text.startswith("# watersmeet\n\n> Joins.\n\n## Start\n\n- [")
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", text))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} | set(outside.values())
    decisions = {page for page in pages if page.startswith("decisions/")}
    assert pages - decisions <= listed
    assert "- [Tune](tune.md): Look at the metrics of the query first." in text


def test_two_builds_of_one_commit_are_equal_and_the_wheel_lists_its_components() -> None:
    files = build.built_twice()
    (name,) = [name for name in files if name.endswith(".whl")]
    with zipfile.ZipFile(io.BytesIO(files[name])) as wheel:
        info = f"watersmeet-{wm.__version__}.dist-info"
        with zipfile.ZipFile(io.BytesIO(wheel.read(file_manager.JAR.relative_to("src").as_posix()))) as jar:
            for place in ("Conditional", "Local"):
                assert f"watersmeet/{place}CheckpointFileManager.class" in jar.namelist()
        place = f"{info}/sboms/watersmeet.cdx.json"
        listed = json.loads(wheel.read(place))
        record = wheel.read(f"{info}/RECORD").decode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(place)).digest()).decode().rstrip("=")
        assert f"{place},sha256={digest}," in record
    assert listed["metadata"]["component"]["version"] == wm.__version__
    found = {each["bom-ref"]: each["name"] for each in listed["components"]}
    (root,) = [each for each in listed["dependencies"] if each["ref"] == "root-component"]
    direct = {found[reference] for reference in root["dependsOn"]}
    assert {"pyspark", "pyarrow", "numpy", "pandas", "protobuf", "click", "confluent-kafka", "fastavro"} <= direct
    assert components.with_needs(listed, PROJECT) == listed
