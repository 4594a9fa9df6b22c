"""Mistakes on the command line are answered before Spark starts: no Java runs for any of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from watersmeet.cli import commands
from watersmeet.cli.commands import main

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import watersmeet as wm

def usual(application="usual"):
    builder = wm.StreamsBuilder(application)
    builder.stream("in", key="long", value="string").to("out")
    return builder.build()

for each in (1, 2):
    pass
number = 1
class Kind:
    pass
"""
RUN = ["run", "shop:usual", "--checkpoint", "cp"]
MISTAKES: list[tuple[list[str], str]] = [
    (["describe", "gone:usual"], "there is no module 'gone' here"),
    (["describe", "pack.gone:usual"], "there is no module 'pack.gone' here"),
    (["describe", "shop"], "it must be module:name"),
    (["describe", "shop:usuall"], "Did you mean shop:usual?"),
    (["draw", "shop:number"], "shop:number is not a topology: its type is int"),
    (["draw", "shop:Kind"], "shop:Kind is not a topology: its type is type"),
    (["draw", "broken:topology"], "The module 'broken' of broken:topology is not Python: '(' was never closed, line 2"),
    (RUN, "shop:usual reads the Kafka topic 'in', and --kafka is left out."),
    (["run", "shop:usual", "--checkpoint", "shop.py"], "The checkpoint 'shop.py' is a file."),
    (["run", "shop:usual", "--checkpoint", "pack"], "is a folder with other files in it: __init__.py"),
    ([*RUN, "--kafka", "broker"], "Kafka needs the addresses of its servers with their ports, and got 'broker'"),
    ([*RUN, "--trigger", "soon"], "trigger"),
    ([*RUN, "--shards", "0"], "The number of shards must be 1 or more"),
    ([*RUN, "--trigger", "1 second", "--available-now"], "not both"),
    ([*RUN, "--metrics-port", "x"], "metrics_port must be a port"),
    ([*RUN, "--serve", "0.0.0.0:8815"], "token= and tls= are missing"),
    ([*RUN, "--serve", "8815"], "8815"),
    ([*RUN, "--on-drop", "fail"], "Unknown policy on_drop='fail'."),
    ([*RUN, "--on-undecodable", "ignore"], 'Take "fail", "skip" or "dead-letter:TOPIC".'),
    (["run", "--config", "gone.toml"], "--config='gone.toml' cannot be read"),
    (["diff", "cp", "shop:usual"], "No topology of watersmeet has been started with this checkpoint."),
    (["diff", "cp", "shop:usual", "--previous", "shop:usual"], "--previous shop:usual belongs to --replay."),
    (["diff", "cp", "shop:usual", "--replay", "--inputs"], "--inputs needs --previous: it says what the inputs are."),
    (["diff", "pack", "shop:usual"], "No topology of watersmeet has been started with this checkpoint."),
    (["stores", "cp"], "No topology of watersmeet has been started with this checkpoint."),
    (["state", "pack", "store"], "No topology of watersmeet has been started with this checkpoint."),
    (["describe", "shop.py:usual"], "A module has no .py: shop:usual."),
    (["draw", "shop:usual", "-o", "shop.png"], "--output shop.svg, which a browser shows"),
    (["diff", "shop:usual", "cp"], "The checkpoint 'shop:usual' is the name of a topology."),
    (["drops", "http://127.0.0.1:8815"], "is an address of HTTP, and no folder."),
    (["metrics", "cp"], "No topology of watersmeet has been started with this checkpoint."),
]
OF_CLICK: list[tuple[list[str], str]] = [
    (["state", "cp", "store", "--limit", "-5"], "-5 is not in the range x>=1"),
    (["stores", "cp", "--batch", "-1"], "-1 is not in the range x>=0"),
    ([*RUN, "--shard", "4"], "Did you mean one of: '--restart', '--shards'?"),
    ([*RUN, "--shards", "many"], "'many' is not a valid integer"),
    (["run", "--checkpoint", "cp"], "Missing argument TOPOLOGY, or topology = ..."),
    (["run", "shop:usual"], "Missing option --checkpoint, or checkpoint = ..."),
    (["rum"], "No such command 'rum'"),
    (["state", "cp"], "Missing argument 'STORE'"),
]
PROGRAM = """
import json, sys
from click.testing import CliRunner
from watersmeet.cli import commands
from watersmeet.cli.commands import main
results = [CliRunner().invoke(main, args) for args in json.loads(sys.stdin.read())]
print(json.dumps([(each.exit_code, each.output, repr(each.exception)) for each in results]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str, str]]:
    folder = tmp_path_factory.mktemp("commands")
    java = folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n: > {folder}/started\n")
    java.chmod(0o755)
    (folder / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (folder / "shop.py").write_text(MODULE)
    (folder / "broken.py").write_text("import os\nprint(\n")
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("raise RuntimeError('imported before there is a session')\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([args for args, _ in MISTAKES + OF_CLICK]),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAVA_HOME": str(java.parents[1])},
    )
    found = [(code, output, error) for code, output, error in json.loads(done.stdout)]
    assert len(found) == len(MISTAKES) + len(OF_CLICK)
    java_runs = [args for (args, _), (_, output, _) in zip(MISTAKES, found, strict=False) if "JVM" in output]
    assert (java_runs, (folder / "started").exists(), (folder / "cp").exists()) == ([], False, False)
    return found


def test_each_mistake_is_answered_with_a_hint_before_any_java_is_started(answers: list[tuple[int, str, str]]) -> None:
    for (args, wanted), (code, output, error) in zip(MISTAKES, answers, strict=False):
        assert (code, wanted in output, "Hint: " in output) == (1, True, True), (args, output, error)


def test_what_click_refuses_ends_with_2_and_names_what_was_meant(answers: list[tuple[int, str, str]]) -> None:
    for (args, wanted), (code, output, error) in zip(OF_CLICK, answers[len(MISTAKES) :], strict=True):
        assert (code, wanted in output) == (2, True), (args, output, error)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_the_help_of_each_command_has_examples_with_options_that_it_has(name: str) -> None:
    command = main.commands[name]
    text = CliRunner().invoke(main, [name, "--help"]).output
    lines = [line.strip() for line in text.split("Examples:\n")[1].splitlines() if "watersmeet" in line]
    assert lines
    known = {option for parameter in command.params for option in parameter.opts}
    for line in lines:
        words = line.split()
        assert words[:2] == ["watersmeet", name]
        assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("def made(spark, shards): ...", "of 2 arguments: spark, shards.\nHint: Name a function of the Spark session"),
        ("def made():\n    raise KeyError('orders')", "Error: KeyError: 'orders'\n  File "),
    ],
)
def test_a_function_that_cannot_make_a_topology_is_answered_with_the_users_lines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, answer: str
) -> None:
    (tmp_path / "makes.py").write_text(f"{body}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "makes", raising=False)
    monkeypatch.setattr(commands, "session", lambda **_: None)
    result = CliRunner().invoke(main, ["describe", "makes:made"])
    assert (result.exit_code, answer in result.output, "watersmeet/cli" in result.output) == (1, True, False), result
    monkeypatch.delitem(sys.modules, "makes", raising=False)
