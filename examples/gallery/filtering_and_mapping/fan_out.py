"""Write one stream to several topics, each in another form.

Confluent's example FanoutLambda.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """One input is read once, however many outputs it has."""
    builder = wm.StreamsBuilder("fan-out")
    words = builder.stream("words", key="string", value="string")
    words.map_values(F.upper).to("words-in-capitals")
    words.map_values(F.length).to("lengths")
    words.map(lambda key, word: (word, F.reverse(word))).to("words-reversed")
    return builder.build()


INPUTS = [("words", "a", "hello", 0), ("words", "b", "Kafka", 1)]
EXPECTED = {
    "words-in-capitals": [("a", "HELLO", 0), ("b", "KAFKA", 1)],
    "lengths": [("a", 5, 0), ("b", 5, 1)],
    "words-reversed": [("hello", "olleh", 0), ("Kafka", "akfaK", 1)],
}
