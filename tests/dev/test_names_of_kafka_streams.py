"""Every public class and setting of Kafka Streams has a line with a counterpart that exists; the search finds it."""

from __future__ import annotations

import inspect
import re

import pytest

from dev.docs import kafka_streams
from dev.docs.kafka_streams import SETTINGS, counterparts, listed, names_of_jar, page
from dev.jars import JARS
from tests.dev.test_coming_from_kafka_streams import NAME, found
from tests.dev.test_docs_site import separator_of_the_search

LINES = list(counterparts())
NOTHING = ("not there", "not needed")


def test_each_name_has_one_line():
    names = [(line.section, name) for line in LINES for name in line.names]
    assert len(names) == len(set(names)) == len(listed()) > 340


@pytest.mark.skipif(not (JARS / "streams").exists(), reason="the jars of Kafka Streams are those of make jars")
def test_the_names_are_those_of_the_jar():
    jars = sorted((JARS / "streams").glob("*.jar"))
    (jar,) = [each for each in jars if re.match(r"kafka-streams-4\.4\.\d", each.name)]
    assert names_of_jar(jar, [each for each in jars if each != jar]) == listed()


def test_each_line_has_a_counterpart_that_exists_or_a_reason():
    nothing = [line for line in LINES if line.here in NOTHING]
    assert [line.names for line in nothing if not line.remark] == []
    assert [line.names for line in nothing if line.here == "not there" and "Spark" not in line.remark] == []
    assert [line.names for line in LINES if line.here not in NOTHING and not NAME.search(line.here)] == []
    for name, parameter in NAME.findall("\n".join(f"{line.here} {line.remark}" for line in LINES)):
        thing = found(name)
        assert not parameter or parameter in inspect.signature(thing).parameters, f"{name}({parameter}=)"


def test_the_search_of_the_site_finds_each_name():
    separator = separator_of_the_search()
    found_words = set(re.split(separator, page(kafka_streams.NAMES.read_text())))
    for line in LINES:
        for name in line.names:
            assert set(re.split(separator, name)) - {""} <= found_words


def test_the_page_has_a_table_for_each_package():
    shown = page("# a.b\nC D\t`wm.KStream`\t\n# Settings\nx.y\tnot needed\tno x\n")
    assert "## `a.b`\n\n| Kafka Streams | here | remark |\n|---|---|---|\n| `C`, `D` | `wm.KStream` |  |\n" in shown
    assert shown.endswith(
        f"## {SETTINGS}\n\n| Kafka Streams | here | remark |\n|---|---|---|\n| `x.y` | not needed | no x |\n"
    )
