"""Keep for each letter the words that begin with it, in a fold with a plain Python function.

Kafka's `aggregate` with a mutable value, as in many programs of Confluent's forum.
"""

import watersmeet as wm


def with_word(word: str, words: list[str]) -> list[str]:
    """Each word once, in alphabetical order."""
    return sorted({*words, word})


def topology() -> wm.Topology:
    """The initial value and the fold are Python's."""
    builder = wm.StreamsBuilder("words-by-letter")
    words = builder.stream("words", key="string", value="string")
    by_letter = words.group_by(lambda word: word.substr(1, 1))
    by_letter.aggregate(list, wm.python(with_word, "array<string>")).to("words-by-letter", value=wm.json())
    return builder.build()


INPUTS = [("words", None, word, at) for at, word in enumerate(["beta", "alpha", "bee", "beta"])]
EXPECTED = {
    "words-by-letter": [
        ("b", ["beta"], 0),
        ("a", ["alpha"], 1),
        ("b", ["bee", "beta"], 2),
        ("b", ["bee", "beta"], 3),
    ]
}
