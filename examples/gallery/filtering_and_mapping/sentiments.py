"""Split posts by language, translate the foreign ones, take the currencies out that they name, and score each.

The crypto sentiment chapter of "Mastering Kafka Streams and ksqlDB": branch, a service, merge, flatMapValues, Avro.
"""

from pyspark.sql import functions as F

import watersmeet as wm

CURRENCIES = ["bitcoin", "ethereum"]
WORDS = {"bueno": "good", "malo": "bad", "bitcoin": "bitcoin"}


async def translate(post: dict[str, object]) -> str:
    """A service, as if over the network."""
    return " ".join(WORDS.get(word, word) for word in str(post["text"]).split())


def topology() -> wm.Topology:
    """Posts in, a score for each currency out."""
    builder = wm.StreamsBuilder("sentiments")
    posts = builder.stream("posts", key="string", value=wm.json("text string, lang string, retweet boolean"))
    original = posts.filter_not(lambda post: post["retweet"])
    parts = original.split({"english": lambda post: post["lang"] == "en"}, default="other")
    english = parts["english"].map_values(lambda post: post["text"])
    translated = parts["other"].map_async(translate, returns="string")
    texts = english.merge(translated).map_values(lambda text: F.lower(text))
    scores = texts.flat_map_values(
        lambda text: F.transform(
            F.filter(F.array(*map(F.lit, CURRENCIES)), lambda name: F.array_contains(F.split(text, " "), name)),
            lambda name: F.struct(
                name.alias("currency"),
                F.when(text.contains("good"), 1).when(text.contains("bad"), -1).otherwise(0).alias("score"),
            ),
        )
    )
    scores.select_key(lambda row: row["currency"]).to("scores", value=wm.json())
    return builder.build()


def _post(text: str, lang: str = "en", retweet: bool = False) -> dict[str, object]:
    return {"text": text, "lang": lang, "retweet": retweet}


INPUTS = [
    ("posts", "1", _post("Bitcoin is good ethereum too"), 0),
    ("posts", "2", _post("Bitcoin is good", retweet=True), 1),
    ("posts", "3", _post("malo bitcoin", "es"), 2),
    ("posts", "4", _post("nothing"), 3),
]
EXPECTED = {
    "scores": [
        ("bitcoin", {"currency": "bitcoin", "score": 1}, 0),
        ("ethereum", {"currency": "ethereum", "score": 1}, 0),
        ("bitcoin", {"currency": "bitcoin", "score": -1}, 2),
    ]
}
