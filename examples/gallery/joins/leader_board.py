"""Keep the three best scores of each video game, with the names of player and game.

The leader board of "Mastering Kafka Streams and ksqlDB".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Scores meet a table of players and a global table of games."""
    builder = wm.StreamsBuilder("leader-board")
    scores = builder.stream(
        "score-events", key="string", value=wm.json("score double, product_id long, player_id long")
    )
    players = builder.table("players", key="string", value=wm.json("id long, name string"))
    products = builder.global_table("products", key="string", value=wm.json("id long, name string"))
    by_player = scores.select_key(lambda score: score["player_id"].cast("string"))
    with_player = by_player.join(players, lambda score, player: score.withField("player", player["name"]))
    with_product = with_player.join(
        products,
        lambda row, product: row.withField("game", product["name"]),
        key=lambda row: row["product_id"].cast("string"),
    )
    best = with_product.group_by(lambda row: row["game"]).agg(
        best=wm.top_k(k=3, by=lambda row: row["score"], value=lambda row: F.struct(row["player"], row["score"])),
        store="leader-boards",
    )
    best.to_stream().map_values(lambda row: row["best"]).to("high-scores", value=wm.json())
    return builder.build()


def _score(score: float, product: int, player: int) -> dict[str, object]:
    return {"score": score, "product_id": product, "player_id": player}


INPUTS = [
    ("products", "1", {"id": 1, "name": "Super Smash"}, 0),
    ("players", "1", {"id": 1, "name": "Elyse"}, 0),
    ("players", "2", {"id": 2, "name": "Mitch"}, 0),
    ("score-events", None, _score(1000.0, 1, 1), 1),
    ("score-events", None, _score(2000.0, 1, 2), 2),
    ("score-events", None, _score(500.0, 9, 2), 3),
]
EXPECTED = {
    "high-scores": [
        ("Super Smash", [{"player": "Elyse", "score": 1000.0}], 1),
        ("Super Smash", [{"player": "Mitch", "score": 2000.0}, {"player": "Elyse", "score": 1000.0}], 2),
    ]
}
