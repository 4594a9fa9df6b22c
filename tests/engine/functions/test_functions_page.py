"""The page of the functions that run in the level has a line for each kernel."""

from __future__ import annotations

import re
from pathlib import Path

from watersmeet._engine.expressions.evaluate import FAMILIES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "functions.md"
CLASSES = {
    "arithmetic": ("Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus UnaryPositive Abs"),
    "bits": "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight ShiftRightUnsigned",
    "comparisons": ("EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual Greatest Least"),
    "conditions": (
        "And Or Not CaseWhen If Coalesce In IsNull IsNotNull IsNaN NaNvl NullIfResult With "
        "CommonExpressionDef CommonExpressionRef"
    ),
    "casts": "Cast",
    "texts": (
        "Length OctetLength BitLength Concat ConcatWs StringTrim StringTrimLeft StringTrimRight Substring "
        "Left Right StringLPad StringRPad StringRepeat Reverse Ascii StringTranslate SubstringIndex SplitPart "
        "FormatString"
    ),
    "searches": "StartsWith EndsWith Contains Like StringInstr StringLocate StringReplace StringSplit",
    "regular expressions": "RLike RegExpExtract RegExpExtractAll RegExpReplace RegExpCount RegExpSubStr",
    "encodings": "Md5 Sha1 Sha2 Crc32 Base64 Hex",
    "letters": "Upper Lower",
    "dates and times": (
        "Year Quarter Month DayOfMonth DayOfYear DayOfWeek WeekDay WeekOfYear DayName MonthName LastDay "
        "NextDay UnixDate DateFromUnixDate Hour Minute Second DateAdd DateSub DateDiff AddMonths TruncDate "
        "TruncTimestamp UnixSeconds UnixMillis UnixMicros SecondsToTimestamp MillisToTimestamp "
        "MicrosToTimestamp TimestampAddInterval SubtractTimestamps ExtractANSIIntervalDays ParseToDate "
        "ParseToTimestamp UnixTimestamp ToUnixTimestamp FromUnixTime DateFormatClass"
    ),
    "rounding": "Floor Ceil Round BRound Rint Sqrt Signum ToRadians ToDegrees Factorial Bin",
    "hashes": "Murmur3Hash XxHash64",
    "structs": "CreateNamedStruct GetStructField UpdateFields WithField DropField",
    "arrays and maps": (
        "CreateArray GetArrayItem Get ElementAt GetMapValue Size ArraySize ArrayContains SortArray MapKeys MapValues"
    ),
    "functions of elements": (
        "ArrayTransform ArrayFilter ArrayExists ArrayForAll ArrayAggregate MapFilter TransformValues "
        "LambdaFunction NamedLambdaVariable"
    ),
    "made of arrays": (
        "ArrayDistinct ArrayUnion ArrayExcept ArrayIntersect ArraysOverlap ArrayPosition ArrayRemove "
        "ArrayAppend ArrayPrepend ArrayCompact ArrayRepeat ArrayJoin ArrayMax ArrayMin ArraySort ArraysZip "
        "Slice Flatten Sequence"
    ),
    "made of maps": "CreateMap MapFromArrays MapFromEntries MapEntries MapConcat MapContainsKey",
    "calls": "PythonUDF RaiseError",
}
"""Spark's classes of the functions in each line of the page."""


def test_each_class_that_has_a_kernel_is_in_a_line_of_the_page_of_functions():
    # the first table of the page; another one names the most used functions
    text = PAGE.read_text().partition("## ")[0]
    rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("| ")]
    assert [row[1].strip() for row in rows[1:]] == list(CLASSES)
    listed = [name for names in CLASSES.values() for name in names.split()]
    assert sorted(listed) == sorted(name for family in FAMILIES for name in (*family.kernels, *family.lazy))
