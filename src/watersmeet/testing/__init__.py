"""Testing a topology without a broker: `from watersmeet.testing import TopologyTestDriver`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.hints import missing_name

if TYPE_CHECKING:
    from watersmeet.testing.driver import TopologyTestDriver
    from watersmeet.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing_name("watersmeet.testing", __all__, name)
    from watersmeet.testing import driver  # it needs Spark, which what is beside it does without

    return getattr(driver, name)
