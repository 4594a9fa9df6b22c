"""Random queries are kept up to date: at each cut of a history the view has the rows that a batch query gives."""

from dataclasses import replace

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType
from sqlglot import exp

from proof.sql.generate import Table
from proof.sql.run import Case, Outcome, case_of, check, run
from watersmeet.sql.rows import VALUE, Expressions, literal, root

ROWS = {
    "t": Table("t", {"id": "BIGINT", "x": "INT", "s": "STRING"}, ("id",), ()),
    "u": Table("u", {"id": "BIGINT", "y": "INT"}, ("id",), ()),
}


def changed(query, *changes):
    """The case of a query over `t` and `u`, compared after each change: (table, id, row or None)."""
    history = [(ROWS[table], (key,), row) for table, key, row in changes]
    return Case(
        1, list(ROWS.values()), query, history, list(range(1, len(history) + 1)), frozenset({2, len(history)}), 2
    )


def differences(case):
    outcome = Outcome()
    check(case, outcome)
    assert not outcome.refused
    return outcome.different


def test_random_queries_have_the_rows_of_a_batch_query_at_each_cut():
    outcome, end = run(1, 25, spark=None, part=0, seconds=1e9)
    assert (end, outcome.same, outcome.different, outcome.refused) == (26, 25, [], {})


@pytest.mark.parametrize("first", range(1000, 1400, 100))
def test_many_random_queries_have_the_rows_of_a_batch_query_at_each_cut(first):
    outcome, _ = run(first, 100, spark=None, part=0, seconds=1e9)
    assert outcome.different == []


def test_a_random_query_is_the_same_through_spark(spark):
    case, outcome = case_of(3), Outcome()
    check(replace(case, cuts=case.cuts[-2:]), outcome, spark)
    assert (outcome.same, outcome.through_spark, outcome.different) == (1, 1, [])


def test_a_type_is_remembered_by_the_text_and_by_the_types_that_it_reads(spark):
    expressions, total = Expressions(), exp.Add(this=root(VALUE, "x"), expression=literal(1))
    for kind in (IntegerType(), LongType(), IntegerType()):
        assert expressions.types([total], {VALUE: StructType().add("x", kind)}) == [kind]


def test_columns_before_a_subquery_read_the_rows_that_have_its_value():
    query = (
        "SELECT a.x + b.x AS c, a.s, (SELECT MAX(y) FROM u WHERE u.id = a.x) AS most FROM t a JOIN t b ON a.id = b.x"
    )
    changes = [
        ("t", 1, {"x": 1, "s": "a"}),
        ("u", 1, {"y": 5}),
        ("t", 2, {"x": 1, "s": "b"}),
        ("u", 1, None),
        ("t", 1, {"x": 2, "s": "c"}),
    ]
    assert differences(changed(query, *changes)) == []


def test_an_aggregate_may_read_a_subquery():
    query = "SELECT s, SUM(x + (SELECT COUNT(*) FROM u WHERE u.y = t.x)) AS total FROM t GROUP BY s"
    changes = [("t", 1, {"x": 1, "s": "a"}), ("u", 1, {"y": 1}), ("u", 2, {"y": 1}), ("t", 2, {"x": 2, "s": "a"})]
    assert differences(changed(query, *changes)) == []


def test_a_row_whose_further_value_is_null_meets_none_and_stays_in_an_anti_join():
    query = "SELECT a.id, a.s FROM t a LEFT ANTI JOIN t b ON a.x = b.id AND a.s = b.s"
    changes = [("t", 1, {"x": 2, "s": None}), ("t", 2, {"x": 1, "s": "a"}), ("t", 1, {"x": 2, "s": "a"})]
    assert differences(changed(query, *changes)) == []


def test_the_key_of_a_row_that_an_inner_join_meets_is_never_null():
    query = "SELECT a.s FROM t a JOIN u b ON a.x = b.id WHERE b.id NOT IN (SELECT id FROM t)"
    changes = [("u", 2, {"y": 1}), ("t", 1, {"x": 2, "s": "a"}), ("t", 2, {"x": 1, "s": "b"}), ("t", 2, None)]
    assert differences(changed(query, *changes)) == []


def test_a_full_join_by_key_of_a_table_with_itself_loses_a_deleted_row():
    query = "SELECT a.x AS one, b.x AS other FROM t a FULL JOIN (SELECT * FROM t WHERE x > 1) b ON a.id = b.id"
    changes = [
        ("t", 1, {"x": 1, "s": "a"}),
        ("t", 1, {"x": 2, "s": "a"}),
        ("t", 2, {"x": 3, "s": "b"}),
        ("t", 1, None),
        ("t", 2, {"x": 0, "s": "b"}),
        ("t", 2, None),
    ]
    assert differences(changed(query, *changes)) == []


UNION = "SELECT x FROM t UNION ALL SELECT y FROM u ORDER BY x LIMIT 2"
PLACES = "SELECT id, s, ROW_NUMBER() OVER (PARTITION BY s ORDER BY x, id) AS n FROM t"
TELLING = {
    "what stands behind a union is of its whole": UNION,
    "so it is within IN": f"SELECT id FROM t WHERE x IN ({UNION})",
    "and within FROM": f"SELECT q.x + 1 AS z FROM ({UNION}) q",
    "and behind a query in parentheses": "(SELECT id, x FROM t) ORDER BY x, id LIMIT 1",
    "and of one side of a union": "((SELECT x FROM t) ORDER BY x DESC LIMIT 1) UNION ALL SELECT y FROM u",
    "columns of a table have other names": "SELECT q.x, q.id FROM t AS q(x, id, s)",
    "and those of a query": "SELECT x, s FROM (SELECT x, s, id FROM t) AS q(s, x, i)",
    "and those of WITH": "WITH q(id, x) AS (SELECT x, id FROM t) SELECT id, x FROM q WHERE id > 1",
    "a place is that one alone": "SELECT id, s FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY x, id) = 2",
    "by its name, too": f"{PLACES} QUALIFY n = 2",
    "and ordered by it": f"{PLACES} QUALIFY n <= 2 ORDER BY n DESC, s LIMIT 1",
    "a bound of one table is not that of another": (
        f"SELECT a.id FROM ({PLACES}) a JOIN (SELECT id, 1 AS n FROM u) r ON a.id = r.id WHERE r.n <= 1 AND a.n <= 2"
    ),
    "a bound comes after a LIMIT": f"SELECT id FROM ({PLACES} QUALIFY n <= 9 ORDER BY id LIMIT 2) q WHERE n <= 1",
    "a column as its table is called": "SELECT x.id, z.s FROM t x JOIN t z ON x.id = z.x",
    "EXISTS does not care how many": "SELECT id FROM t WHERE EXISTS (SELECT DISTINCT y FROM u WHERE u.y = t.x LIMIT 1)",
    "and by the value of a subquery": (
        "SELECT DISTINCT s, (SELECT MAX(y) FROM u WHERE u.id = t.x) AS z FROM t ORDER BY z DESC, s LIMIT 2"
    ),
    "distinct rows are ordered": "SELECT DISTINCT s, x + 1 AS z FROM t ORDER BY x + 1 DESC, s LIMIT 2",
}


@pytest.mark.parametrize("query", TELLING.values(), ids=list(TELLING))
def test_a_query_that_was_read_wrong_once_has_the_rows_of_a_batch_query(query):
    changes = [
        ("t", 1, {"x": 1, "s": "a"}),
        ("t", 2, {"x": 2, "s": "a"}),
        ("u", 1, {"y": 2}),
        ("t", 3, {"x": 2, "s": "b"}),
        ("u", 3, {"y": 1}),
        ("t", 4, {"x": 0, "s": "b"}),
        ("u", 2, {"y": 7}),
        ("t", 1, None),
    ]
    assert differences(changed(query, *changes)) == []


def test_a_case_that_differs_is_told_with_its_seed():
    class Other(Case):
        @property
        def script(self):
            return super().script.replace("x > 1", "x > 2")

    case = changed("SELECT x FROM t WHERE x > 1", ("t", 1, {"x": 2, "s": "a"}))
    outcome = Outcome()
    check(Other(**vars(case)), outcome)
    assert outcome.different[0].startswith("seed 1 after 1, view: missing {'(2,)': 1}")
