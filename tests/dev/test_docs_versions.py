"""Versions of the docs site side by side: what `make docs-version` leaves on the branch gh-pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import MOST_MS, Shown

pytestmark = pytest.mark.proof
"""The site is built three times."""
ROOT = Path(__file__).resolve().parents[2]
MADE_OF = ("mkdocs.yml", "docs", "dev", "src", "proof", "tests/golden", "examples")


def git(repository: Path, *arguments: str) -> str:
    shown = subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True)
    return shown.stdout


def put(repository: Path, version: str, alias: str = "") -> None:
    """As `make docs-version` does it, in another repository."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["sh", "dev/docs/version.sh", version, alias]
    subprocess.run(command, cwd=repository, check=True, capture_output=True, env=os.environ | {"PATH": path})


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the site's sources, of which two versions and the main branch have been put side by side."""
    there = tmp_path_factory.mktemp("versions")
    without = shutil.ignore_patterns("__pycache__")
    for name in MADE_OF:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, there / name, ignore=without)
        else:
            shutil.copy(ROOT / name, there / name)
    for file in ROOT.glob("*.md"):
        shutil.copy(file, there / file.name)
    git(there, "init", "-q", "-b", "main")
    git(there, "config", "user.name", "docs")
    git(there, "config", "user.email", "docs@localhost")
    git(there, "add", ".")
    git(there, "commit", "-q", "-m", "sources")
    put(there, "0.1", "latest")
    (there / "docs" / "laws.md").write_text("# Laws\n\nThose of the next version.\n")
    put(there, "0.2", "latest")
    put(there, "dev")
    return there


def test_each_version_has_its_own_pages_and_the_newest_is_the_one_that_the_site_opens_with(repository: Path) -> None:
    before, now = (git(repository, "show", f"gh-pages:{version}/laws.html") for version in ("0.1", "0.2"))
    assert "Those of the next version." in now
    assert "Those of the next version." not in before
    assert git(repository, "cat-file", "-p", "gh-pages:latest") == "0.2"
    assert 'url=latest/"' in git(repository, "show", "gh-pages:index.html")


def test_the_menu_of_versions_lists_all_and_each_page_asks_for_it(repository: Path) -> None:
    listed = json.loads(git(repository, "show", "gh-pages:versions.json"))
    assert {each["version"]: each["aliases"] for each in listed} == {"dev": [], "0.2": ["latest"], "0.1": []}
    assert '"provider": "mike"' in git(repository, "show", "gh-pages:0.1/laws.html")


def test_a_site_of_which_no_version_is_the_latest_opens_with_the_first(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--single-branch", str(repository), "first")
    there = tmp_path / "first"
    git(there, "config", "user.name", "docs")
    git(there, "config", "user.email", "docs@localhost")
    put(there, "dev")
    assert 'url=dev/"' in git(there, "show", "gh-pages:index.html")


def test_a_version_without_a_name_is_refused_with_the_command(repository: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        put(repository, "")
    assert b"Hint: make docs-version VERSION=" in refused.value.stderr


def test_a_reader_sees_the_other_versions_in_a_menu_and_loads_nothing_from_elsewhere(
    repository: Path, browser: Browser, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--branch", "gh-pages", str(repository), "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        shown = Shown(browser.new_page())
        shown.page.goto(f"http://127.0.0.1:{server.server_port}/")
        expect(shown.page.locator(".md-version__current")).to_have_text("0.2", timeout=MOST_MS)
        assert shown.page.locator(".md-version__link").all_inner_texts() == ["dev", "0.2", "0.1"]
        assert {url.split("/")[2] for url in shown.asked} == {f"127.0.0.1:{server.server_port}"}
    finally:
        server.shutdown()
        server.server_close()
