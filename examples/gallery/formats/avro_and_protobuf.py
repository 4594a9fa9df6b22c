"""Read films in Avro, and write them in Protobuf; no registry is needed where the schemas are in the program.

Confluent's tutorial "How to convert a stream's serialization format"; the GenericAvro and SpecificAvro examples.
"""

import watersmeet as wm

FILM = """
{"type": "record", "name": "Film", "fields": [
  {"name": "id", "type": "long"}, {"name": "title", "type": "string"}, {"name": "year", "type": ["null", "int"]}]}
"""


def topology() -> wm.Topology:
    """The types of the stream follow from the schema of Avro, and the message of Protobuf from them."""
    builder = wm.StreamsBuilder("avro-and-protobuf")
    films = builder.stream("films-avro", key="string", value=wm.avro(FILM))
    films.select_key(lambda film: film["id"]).to("films-by-id", value=wm.json())
    return builder.build()


INPUTS = [("films-avro", None, {"id": 1, "title": "Lethal Weapon", "year": 1992}, 0)]
EXPECTED = {"films-by-id": [(1, {"id": 1, "title": "Lethal Weapon", "year": 1992}, 0)]}
