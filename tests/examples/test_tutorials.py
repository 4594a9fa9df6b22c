"""The tutorials, followed from an empty folder: each step shows what its page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev.debezium.captures import MODES
from dev.debezium.engine import PREFIX
from tests.examples import tutorial

NAMES = sorted(page.stem for page in tutorial.PAGES.glob("*.md"))
MOST_WORDS = 900


@pytest.mark.kafka
@pytest.mark.timeout(2400)  # ten programs, each with a Spark of its own
@pytest.mark.parametrize("name", NAMES)
def test_a_reader_of_a_tutorial_sees_what_each_step_says(name: str, tmp_path: Path) -> None:
    for step, printed in tutorial.follow(name, tmp_path):
        assert tutorial.fits(step.shows, printed), f"{step.text}\nsays\n{step.shows}\nand prints\n{printed}"


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_is_short(name: str) -> None:
    prose = tutorial.without_blocks((tutorial.PAGES / f"{name}.md").read_text())
    assert len(prose.split()) <= MOST_WORDS


def test_the_connector_of_the_tutorial_has_the_settings_that_its_recording_was_made_with() -> None:
    (connector,) = (step for step in tutorial.steps((tutorial.PAGES / "cdc.md").read_text()) if step.kind == "json")
    settings = json.loads(connector.text)
    assert MODES["decimals_as_text"].items() <= settings.items()
    assert settings["topic.prefix"] == PREFIX
    assert settings["value.converter.schemas.enable"] == "false"


def test_a_text_with_dots_stands_for_what_differs() -> None:
    assert tutorial.fits("1 passed in ...\n", "1 passed in 0.4s\n")
    assert tutorial.fits("a\n...\nz\n", "a\nb\nc\nz\n")
    assert not tutorial.fits("a\nz\n", "a\nb\nz\n")
    assert not tutorial.fits("", "a\n")
