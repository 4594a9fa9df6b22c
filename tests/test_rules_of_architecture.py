"""The rules of `test_architecture`, each tried on samples that break it and samples that keep it."""

import pytest

from tests.test_architecture import (
    engine_test_breaches,
    jvm_breaches,
    layer_breaches,
    oracle_breaches,
    package_breaches,
    private_reaches,
    worker_breaches,
)

BAD = [
    (layer_breaches, "watersmeet._engine.operators.tables", "from watersmeet._worker.state import Store"),
    (layer_breaches, "watersmeet._plan.nodes", "from watersmeet import _engine"),
    (layer_breaches, "watersmeet._engine.operators.tables", "import watersmeet"),
    (
        layer_breaches,
        "watersmeet._spark.dataflow.compile",
        "def late():\n    from watersmeet.api.streams import KStream",
    ),
    (layer_breaches, "watersmeet._engine.operators.tables", "from ..._spark import state"),
    (layer_breaches, "watersmeet.errors", "from . import hints, _plan"),
    (layer_breaches, "watersmeet.testing.driver", "from proof.oracle import Topology"),
    (layer_breaches, "watersmeet._engine.__init__", "from ..builder import StreamsBuilder"),
    (package_breaches, "watersmeet._engine.operators.tables", "import pandas as pd"),
    (package_breaches, "watersmeet._engine.operators.tables", "from pyspark.sql import DataFrame"),
    (package_breaches, "watersmeet._plan.nodes", "import pyspark.sql.functions as F"),
    (package_breaches, "watersmeet.testing.topics", "import pyspark"),
    (
        package_breaches,
        "watersmeet._engine.operators.tables",
        "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
    ),
    (layer_breaches, "watersmeet.unheard_of", "import struct"),
    (
        oracle_breaches,
        "proof.oracle.tables.table",
        "from watersmeet._engine.matching.match import pairs",
    ),
    (oracle_breaches, "proof.oracle.tables.table", "from watersmeet.testing.driver import run"),
    (oracle_breaches, "proof.oracle.tables.table", "import numpy as np"),
    (worker_breaches, "watersmeet._worker.formats.serdes", "from pyspark.sql import Column"),
    (worker_breaches, "watersmeet._worker.pack", "from pyspark import TaskContext"),
    (layer_breaches, "watersmeet._worker.pack", "from watersmeet._spark.dataflow import stage"),
    (jvm_breaches, "watersmeet._spark.dataflow.compile", "from py4j.java_gateway import JavaObject"),
    (jvm_breaches, "watersmeet._spark.dataflow.compile", "spark._jvm.System.gc()"),
    (jvm_breaches, "watersmeet._spark.dataflow.compile", "getattr(frame, '_jdf')"),
    (private_reaches, "watersmeet.api.joins", "def joined(left, right):\n    return right._node"),
    (private_reaches, "watersmeet.api.tables", "class T:\n    def to(self):\n        self.to_stream()._sink(1)"),
    (engine_test_breaches, "tests.engine.test_table", "import pyspark"),
    (engine_test_breaches, "tests.engine.test_table", "from watersmeet._spark import state"),
    (engine_test_breaches, "tests.engine.test_table", "from watersmeet import StreamsBuilder"),
    (engine_test_breaches, "tests.engine.test_table", "from dev.broker import KafkaBroker"),
]
GOOD = [
    (
        layer_breaches,
        "watersmeet._engine.operators.tables",
        "from watersmeet._plan.nodes import Table\nfrom . import runs",
    ),
    (
        layer_breaches,
        "watersmeet.api.tables",
        "if TYPE_CHECKING:\n    from watersmeet.builder import StreamsBuilder",
    ),
    (
        layer_breaches,
        "watersmeet.api.builder",
        "from watersmeet.api.streams import KStream\nfrom watersmeet._spark import compile",
    ),
    (
        package_breaches,
        "watersmeet._engine.operators.tables",
        "import numpy as np\nimport pyarrow.compute as pc\nimport struct",
    ),
    (package_breaches, "watersmeet.api.streams", "from pyspark.sql import Column"),
    (worker_breaches, "watersmeet._worker.formats.serdes", "from pyspark.sql.types import DataType"),
    (worker_breaches, "watersmeet._worker.process", "from pyspark import TaskContext"),
    (
        oracle_breaches,
        "proof.oracle.tables.table",
        "from watersmeet.errors import Generation\nimport struct",
    ),
    (jvm_breaches, "watersmeet._spark.dataflow.compile", "'''No py4j here.'''\n_joined = 1"),
    (
        private_reaches,
        "watersmeet.api.handle",
        "class H:\n    def _side(self): ...\ndef side_of(h): return h._side",
    ),
    (private_reaches, "watersmeet.api.tables", "class T:\n    def to(self):\n        return self._side"),
    (
        engine_test_breaches,
        "tests.engine.test_table",
        "from proof.oracle import Topology\nimport numpy",
    ),
]


@pytest.mark.parametrize(("rule", "module", "source"), BAD)
def test_a_sample_that_breaks_a_rule_is_found(rule, module, source):
    assert len(rule(source, module)) == 1


@pytest.mark.parametrize(("rule", "module", "source"), GOOD)
def test_a_sample_that_keeps_a_rule_passes(rule, module, source):
    assert rule(source, module) == []
