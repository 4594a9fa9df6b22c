"""The components of a wheel (an SBOM, by PEP 770), which CycloneDX's own tool lists from the locked requirements."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9._-]+")


def write_components(target: Path, tree: Path, version: str, python: Path, environment: dict[str, str]) -> None:
    """Write the list of a tree's components.

    Parameters
    ----------
    target : the file; its folder is made.
    tree : with pyproject.toml and requirements/runtime.txt.
    version : of watersmeet, which pyproject.toml leaves to the package.
    python : of the environment with the tools.
    environment : with SOURCE_DATE_EPOCH, which is the time of the list.
    """
    project = tree / "pyproject.components.toml"
    project.write_text((tree / "pyproject.toml").read_text().replace('dynamic = ["version"]', f'version = "{version}"'))
    command = [str(python), "-W", "ignore", "-m", "cyclonedx_py", "requirements", "requirements/runtime.txt"]
    options = ["--pyproject", project.name, "--mc-type", "library", "--spec-version", "1.6", "--output-reproducible"]
    done = subprocess.run([*command, *options], cwd=tree, env=environment, capture_output=True, text=True, check=True)
    target.parent.mkdir(parents=True)
    found = with_needs(json.loads(done.stdout), tomllib.loads(project.read_text())["project"])
    target.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def with_needs(components: dict[str, Any], project: dict[str, Any]) -> dict[str, Any]:
    """The list, in which watersmeet depends on what pyproject.toml names; extras count."""
    groups = (project["dependencies"], *project["optional-dependencies"].values())
    needs = {_plain(need) for group in groups for need in group}
    reference = components["metadata"]["component"]["bom-ref"]
    direct = sorted(each["bom-ref"] for each in components["components"] if _plain(each["name"]) in needs)
    others = [each for each in components["dependencies"] if each["ref"] != reference]
    return {**components, "dependencies": [{"ref": reference, "dependsOn": direct}, *others]}


def _plain(need: str) -> str:
    found = NAME.match(need)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""
