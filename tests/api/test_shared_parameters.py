"""Parameters that several methods share are told once, and shown by each."""

from __future__ import annotations

import inspect
import re

import pytest

import watersmeet as wm
from watersmeet.api.handle import ELSEWHERE, parameters_of

HANDLES = [wm.KStream, wm.KTable, wm.WTable, wm.GlobalKTable, wm.StreamsBuilder]


def one(a: int, b: int, *, c: int, d: int = 0) -> None:
    """One.

    Parameters
    ----------
    a, b : the first
        and the second.
    c : the third.
    d : the fourth.

    Raises
    ------
    ValueError : never.
    """


def test_what_a_method_says_nothing_of_is_told_as_by_the_other_in_the_order_of_the_signature() -> None:
    @parameters_of(one)
    def other(a: int, b: int, *, c: int) -> None:
        """Another.

        Parameters
        ----------
        c : another third.

        Other parameters as for `one`.
        """

    assert (
        inspect.getdoc(other)
        == """Another.

Parameters
----------
a, b : the first
    and the second.
c : another third.

Raises
------
ValueError : never."""
    )


@pytest.mark.parametrize("handle", HANDLES)
def test_help_shows_each_parameter_of_joins_inputs_and_outputs(handle: type) -> None:
    methods = {name: getattr(handle, name) for name in dir(handle) if not name.startswith("_")}
    told = [each for name, each in methods.items() if re.search("join$|^to$|^through$|^stream$|table$", name)]
    assert told
    for method in told:
        text = inspect.getdoc(method) or ""
        named = {name for names in re.findall(r"^(\w+(?:, \w+)*) : ", text, re.MULTILINE) for name in names.split(", ")}
        if named:  # a method of few words has them in its first sentence
            raised = {name for name in named if name.endswith("Error")}
            assert set(inspect.signature(method).parameters) - {"self"} == named - raised, method
        assert not ELSEWHERE.search(text), method
