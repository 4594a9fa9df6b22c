"""The file of `run --config`: variables and files are filled in, unknown names are refused, the command line wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.arrow import ArrowFunctions
from watersmeet.api.builder import StreamsBuilder
from watersmeet.cli.run import RunOptions, policy, read_config
from watersmeet.errors import ConfigError
from watersmeet.io.policies import DeadLetter, Policies, policies_of_run

WHOLE = """
topology = "shop.topologies:orders"
checkpoint = "${DATA}/orders"
master = "local[2]"

[start]
trigger = "1 second"
shards = 8
progress = true

[kafka]
bootstrap_servers = "${BROKER}:9092"
security_protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
sasl_username = "ann"
sasl_password = { file = "secret" }
retry_timeout = "1 minute"
consumer = { "fetch.max.bytes" = 1000 }

[policies]
on_undecodable = "skip"
on_drop = "dead-letter:late"

[serve]
address = "127.0.0.1:8815"
tables = ["open-orders"]

[spark]
"spark.ui.enabled" = false
"spark.app.note" = "$${plain}"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("BROKER", "broker-1")
    (tmp_path / "secret").write_text("canary$\n")
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_all_options_are_read_with_variables_and_secrets_from_files(folder: Path) -> None:
    found = read_config(written(folder, WHOLE))
    assert (found.topology, found.checkpoint, found.master) == ("shop.topologies:orders", "/data/orders", "local[2]")
    assert found.start == {"trigger": "1 second", "shards": 8, "progress": True}
    assert found.run_policies == Policies("skip", None, DeadLetter("late"))
    assert found.serve == {"address": "127.0.0.1:8815", "tables": ["open-orders"]}
    assert found.spark == {"spark.ui.enabled": "false", "spark.app.note": "${plain}"}
    kafka = found.connection
    assert kafka is not None
    assert (kafka.bootstrap_servers, kafka.retry_timeout_ms, kafka.options["sasl.password"]) == (
        "broker-1:9092",
        60_000,
        "canary$",
    )
    assert kafka.consumer == {"fetch.max.bytes": "1000"}
    assert "canary" not in repr(found)


def test_the_command_line_wins_over_the_file_option_by_option(folder: Path) -> None:
    read = read_config(written(folder, WHOLE))
    found = read.with_given(topology=None, checkpoint="/other", start={"shards": 2, "trigger": None, "evolve": True})
    assert (found.topology, found.checkpoint) == ("shop.topologies:orders", "/other")
    assert found.start == {"trigger": "1 second", "shards": 2, "progress": True, "evolve": True}


def test_a_run_that_ends_takes_no_interval_from_the_file(folder: Path) -> None:
    read = read_config(written(folder, WHOLE))
    found = read.with_given(start={"available_now": True, "trigger": None})
    assert "trigger" not in found.start
    assert read.with_given(start={"available_now": True, "trigger": "2 seconds"}).start["trigger"] == "2 seconds"


@pytest.mark.parametrize(
    ("text", "first", "hint"),
    [
        ("topologie = 'a:b'", "Unknown option topologie in", "Did you mean topology?"),
        ("[start]\nshard = 4", "Unknown option start.shard in", "Did you mean shards?"),
        ("[start]\nmetrics-port = 1", "Unknown option start.metrics-port in", "Did you mean metrics_port?"),
        ("[start]\nkafka = 'a:1'", "Unknown option start.kafka in", "There are allow_changed_functions"),
        ("[kafka]\nbootstrap_server = 'a:1'", "Unknown option kafka.bootstrap_server in", "bootstrap_servers?"),
        ("[serve]\nadress = 'a:1'", "Unknown option serve.adress in", "Did you mean address?"),
        ("[policies]\non_bad = 'skip'", "Unknown option policies.on_bad in", "on_"),
        ("[start]\nevolve = 'yes'", "start.evolve in", "Without quotes."),
        ("[start]\nshards = true", "start.shards in", "Without quotes."),
        ("start = 4", "start in", "Write [start]."),
        ("topology = 4", "topology in", "Put it into quotes."),
        ("[kafka]\nconsumer = 'x'", "kafka.consumer in", "Write [kafka.consumer]."),
        ("[kafka]\nsecurity.protocol = 'x'", "kafka.security in", '"security.protocol" = ...'),
        ("[kafka.consumer]\nfetch.max.bytes = 1", "kafka.consumer.fetch in", '"fetch.max.bytes" = ...'),
        ("[spark]\nspark.driver.memory = '2g'", "spark.spark in", '"spark.driver.memory" = ...'),
        ("topology = ", "is not TOML: Invalid value (at end of document)", "quotes"),
        ("checkpoint = '${GONE}'", "needs the variable GONE, which is not set", "export GONE=..."),
        ("[kafka]\nsasl_password = { file = 'gone' }", "kafka.sasl_password in", "A relative path begins"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_cure(folder: Path, text: str, first: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(written(folder, text))
    assert first in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("name", ["topology", "checkpoint", "master", "start", "kafka", "kafka.consumer", "serve"])
def test_no_error_shows_the_content_of_a_file(folder: Path, name: str) -> None:
    (folder / "secret").write_text("sasl_password=canary")
    wrong = {"topology": "[1, '${DATA}']", "checkpoint": "{ a = 'canary' }", "master": "['canary']"}
    text = wrong.get(name, "{ file = 'secret' }")
    with pytest.raises(ConfigError) as caught:
        read_config(written(folder, f"{name} = {text}"))
    assert f"{name} in " in caught.value.message
    assert "canary" not in str(caught.value)
    assert "/data" not in str(caught.value)


def test_options_are_checked_whole_before_a_start(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap_servers is missing"):
        RunOptions("a:b", "cp", kafka={"retry_timeout": "1 minute"}).check()
    with pytest.raises(ConfigError, match=r"Unknown option kafka\.servers, and kafka\.bootstrap_servers is missing"):
        RunOptions("a:b", "cp", kafka={"servers": "a:1"}).check()
    with pytest.raises(ConfigError, match="Unknown starting_offsets='first'"):
        RunOptions("a:b", "cp", kafka={"bootstrap_servers": "a:1", "starting_offsets": "first"}).check()
    for wrong in (
        {"flight_port": "8816"},
        {"token": 123},
        {"tables": "open-orders"},
        {"tables": [1]},
        {"max_bytes": "1 GB"},
        {"tls": 5},
    ):
        with pytest.raises(ConfigError, match=f"{next(iter(wrong))}="):
            RunOptions("a:b", "cp", serve={"address": "127.0.0.1:8815", **wrong}).check()
    with pytest.raises(ConfigError, match=r"serve\.address is missing"):
        RunOptions("a:b", "cp", serve={"tables": ["kept"]}).check()


def test_policies_of_a_run_take_the_place_of_the_builders_and_not_of_an_inputs() -> None:
    with policies_of_run(Policies(policy("on_undecodable", "skip"), None, policy("on_drop", "dead-letter:late"))):
        builder = StreamsBuilder(
            "policies", on_undecodable=DeadLetter("bad"), on_error="skip", _functions=ArrowFunctions()
        )
        builder.stream("usual", key="long", value="string").to("out")
        builder.stream("own", key="long", value="string", on_undecodable="fail").to("other")
        plan = builder.build().plan
    policies = {source.name: source.origin.policies for source in plan.sources}
    assert (policies["usual"].on_undecodable, policies["own"].on_undecodable) == ("skip", "fail")
    assert (plan.within.usual.on_error, plan.within.usual.on_drop) == ("skip", DeadLetter("late"))
    assert StreamsBuilder("later", _functions=ArrowFunctions())._operator_policies.usual.on_drop == "skip"
