"""Testing a topology without a broker: `from millpond.testing import TopologyTestDriver`.

Beside it stand the aids of millpond's own proof: the oracle, recordings and conformance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millpond.names import missing

if TYPE_CHECKING:
    from millpond.testing.driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing("millpond.testing", __all__, name)
    from millpond.testing import driver  # it needs Spark, which what is beside it does without

    return getattr(driver, name)
