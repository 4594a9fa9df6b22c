"""Writes the kept texts of plans anew: `python -m tests.plans.write`."""

from __future__ import annotations

from dev.jars import spark_jars
from tests.plans.topologies import KEPT, KEPT_WITH_SPARK, kept, text_of
from watersmeet._spark.session import session


def main() -> None:
    """Write all of them."""
    spark = session("plans", master="local[1]", jars=spark_jars(), config={"spark.ui.enabled": "false"})
    for name in (*KEPT, *KEPT_WITH_SPARK):
        kept(name).write_text(text_of(name), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
