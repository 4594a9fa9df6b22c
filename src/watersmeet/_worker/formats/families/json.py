"""JSON texts: with the type that a user names, or of whatever a sink gets."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType

from watersmeet._worker.formats.families.family import Family
from watersmeet._worker.formats.json_types import nullable, readable
from watersmeet._worker.formats.serdes import JsonSerde, Serde
from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format


class Json(Family):
    """JSON texts."""

    def type_of(self, form: Format) -> DataType:
        """As of each family.

        Raises
        ------
        TopologyError : the schema does not parse, or JSON cannot be read as this type.
        """
        kind = _schema(form)
        if not readable(kind):
            raise TopologyError(
                f"JSON cannot be read as {kind.simpleString():.200}.",
                given=kind.simpleString(),
                hint="Maps need string keys; intervals, variants and void have no JSON of their own.",
            )
        return nullable(kind)

    def serde_of(self, form: Format, kind: DataType | None) -> Serde:
        """As of each family."""
        return JsonSerde(self.type_of(form) if kind is None else kind)

    def described(self, form: Format) -> str:
        """With its type, however the schema is spelt."""
        return str(form) if form.schema is None else f"{form.kind}({self.type_of(form).simpleString()})"

    def fits(self, form: Format, kind: DataType) -> bool:
        """As of each family."""
        return form.schema is None or self.type_of(form) == nullable(kind)

    def written_by_workers(self, form: Format, kind: DataType) -> bool:
        """As of each family."""
        return readable(kind) and self.fits(form, kind)

    def written_type(self, form: Format) -> str:
        """As of each family."""
        return "any type" if form.schema is None else super().written_type(form)

    def hint(self, form: Format, other: str) -> str:
        """As of each family."""
        return "A sink's JSON needs no schema: wm.json()."


def _schema(form: Format) -> DataType:
    if isinstance(form.schema, DataType):
        return form.schema
    try:
        return DataType.fromDDL(str(form.schema))
    except (PySparkException, ValueError) as error:
        raise TopologyError(
            f"The schema of a JSON format does not parse: {form.schema!r:.200}.",
            hint=f'Give fields and types: "id long, name string"; a schema of Avro is wm.avro(...), a JSON Schema '
            f"wm.json_schema(...). {str(error).strip().splitlines()[0]}",
        ) from None
