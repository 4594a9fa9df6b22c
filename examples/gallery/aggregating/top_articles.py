"""Keep the three most viewed articles of each industry.

Confluent's TopArticlesLambdaExample; the tutorial "How to find the top N results".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Views become counts of articles, and these counts, by industry, the best two."""
    builder = wm.StreamsBuilder("top-articles")
    views = builder.stream("views", key="string", value=wm.json("article string, industry string, flags array<string>"))
    articles = views.filter(lambda view: F.array_contains(view["flags"], "ARTICLE"))
    counts = articles.group_by(lambda view: F.struct(view["industry"], view["article"])).count()
    by_industry = counts.group_by(
        lambda key, n: (key["industry"], F.struct(key["article"].alias("article"), n.alias("views")))
    )
    top = by_industry.agg(articles=wm.top_k(k=2, by=lambda row: row["views"], value=lambda row: row["article"]))
    top.map_values(lambda row: row["articles"]).to("top-articles", value=wm.json())
    return builder.build()


def _view(article: str, industry: str = "news", flag: str = "ARTICLE") -> dict[str, object]:
    return {"article": article, "industry": industry, "flags": ["SAFE", flag]}


INPUTS = [
    ("views", "u1", _view("tides"), 0),
    ("views", "u2", _view("winds"), 1),
    ("views", "u1", _view("about us", flag="PAGE"), 2),
    ("views", "u3", _view("stars"), 3),
    ("views", "u1", _view("stars"), 4),
    ("views", "u2", _view("gears", "technology"), 5),
]
EXPECTED = {
    "top-articles": [
        ("news", ["tides"], 0),
        ("news", ["tides", "winds"], 1),
        ("news", ["tides", "winds"], 3),
        ("news", ["stars", "tides"], 4),
        ("technology", ["gears"], 5),
    ]
}
