"""Many JSON objects at once: what is accepted is what one by one gives, and what is doubtful is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tests.spark.formats.test_json import NO_JSON, OTHER_TYPE, SPLICED, TOO_LARGE, Texts, damage
from watersmeet._worker.formats import json
from watersmeet._worker.formats.json import one_by_one


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


INNER = struct(v=IntegerType(), w=ArrayType(struct(t=StringType())))
KIND = struct(
    l=LongType(),
    i=IntegerType(),
    b=ByteType(),
    o=BooleanType(),
    t=StringType(),
    y=DateType(),
    ts=TimestampType(),
    ntz=TimestampNTZType(),
    n=INNER,
    a=ArrayType(LongType()),
    d=DoubleType(),
    f=FloatType(),
)


class Known(Texts):
    """Texts without fields that the type does not name."""

    def object(self, members: list[tuple[str, str]]) -> str:
        return super().object([member for member in members if member[0] != "other"])


def texts_of(seed: int, count: int) -> tuple[Known, list[str]]:
    made = Known(seed)
    return made, [text for text in (made.of(KIND) for _ in range(count)) if text != "null"]


def accepted(texts: list[str | None], kind: DataType = KIND) -> pa.Array | None:
    """What is read at once; it must be what is read one by one."""
    found = json.read(kind, pa.array(texts, pa.string()))
    if found is not None:
        wanted, flaws = one_by_one(kind, texts)
        assert not flaws
        assert found.type == wanted.type
        assert repr(found.to_pylist()) == repr(wanted.to_pylist())
    return found


def test_what_is_read_at_once_is_what_is_read_one_by_one() -> None:
    _, fine = texts_of(7, 600)
    # words for NaN and infinities are for the other way
    plain = [text for text in fine if "NaN" not in text and "Infinity" not in text and "e292" not in text]
    assert accepted([*plain[:50], None, *plain[50:], None]) is not None
    assert sum(accepted([text]) is not None for text in fine) > len(fine) // 2


def test_fields_that_the_type_does_not_name_are_skipped_at_once_too() -> None:
    drawn = Texts(11)
    mixed = [text for text in (drawn.of(KIND) for _ in range(150)) if '"other"' in text]
    assert not any(accepted([text]) for text in mixed)
    texts = [text.replace("[{}, 1e5]", '[{}, {"z": 1e5}]') for text in mixed]
    assert sum(accepted([text]) is not None for text in texts) > len(texts) // 2
    others = [
        '{"u":1,"l":1}',
        '{"l":2,"u":null,"n":{"x":"1","w":[{"z":1.5,"t":"a"}]}}',
        '{"x":{"l":"no number"},"l":3}',
    ]
    assert accepted([*others, None, "{}"]) is not None
    # a field that is now this and now that
    accepted(['{"u":1}', '{"u":"1"}', '{"u":{}}'])
    made = [damage(drawn.random, text.encode()).decode(errors="ignore") for text in texts]
    for text in made:
        accepted(['{"l":1}', text])


@pytest.mark.parametrize("beside", [[], ['{"l":1}'], ['{"t":"}{"}', '{"n":{"w":[]}}']], ids=len)
def test_what_is_damaged_is_never_another_value(beside: list[str]) -> None:
    made, fine = texts_of(8, 1_000)
    damaged = [damage(made.random, text.encode()).decode(errors="ignore") for text in fine]
    some = [accepted([*beside[:1], text, *beside[1:]]) is not None for text in damaged]
    assert 0 < sum(some) < len(some)


def test_a_text_and_its_neighbour_are_never_put_right_together() -> None:
    made, fine = texts_of(9, 300)
    pick = made.random
    for text, other in zip(fine, reversed(fine), strict=True):
        at = pick.randrange(len(text))
        assert accepted([text[:at], text[at:] + other]) is None or at in (0, len(text))
        accepted(["{" + text[:at] + "}", "{" + other[at:] + "}", text])
        accepted([text + other, other[:at] + "}"])


@pytest.mark.parametrize("raws", [NO_JSON, OTHER_TYPE, TOO_LARGE, SPLICED], ids=["none", "other", "large", "spliced"])
def test_what_has_a_reason_is_refused_with_all_beside_it(raws: list[bytes]) -> None:
    for raw in raws:
        text = raw.decode()
        if one_by_one(KIND, [text])[1]:
            assert accepted(['{"l":1}', text, '{"t":"}{"}']) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"l":null,"l":1}',
        '{"n":{"v":null,"v":1}}',
        '{"n":null,"n":{"v":1}}',
        '{"n":{"w":[{"t":"x","t":"y"}]}}',
        '{"\\u006c":1,"l":1}',
        '{"d":NaN}',
        '{"f":-Infinity}',
        '{"f":1e39}',
        '{"t":"\\ud800"}',
        '{"l":1}\0',
        '{"l":1}\0{"l":2}',
        '{"y":"2020-02-30"}',
        '{"L":1}',
        '{"u":NaN}',
        '{"u":{"v":[1.5,-Infinity]}}',
        '{"n":{"u":[{"v":NaN}]}}',
        '{"u":1,"u":1}',
        '{"n":{"u":null,"u":null}}',
        '{"n":{"V":1}}',
        '{"n":{"w":[{"T":"x"}]}}',
        '{"u":"\\ud800"}',
        '{"u":01}',
        '{"u":' + '{"u":' * 100_000 + "1" + "}" * 100_001,
        '{"u":' + "[" * 100_000 + "]" * 100_000 + "}",
        "{}x{}",
        "",
    ],
)
def test_what_is_doubtful_is_refused(text: str) -> None:
    assert accepted(['{"l":1}', text]) is None


def test_a_type_that_the_parser_does_not_know_is_read_one_by_one() -> None:
    for kind in (DecimalType(5, 2), MapType(StringType(), LongType()), LongType()):
        assert accepted(["{}"], struct(x=kind) if not isinstance(kind, LongType) else kind) is None
