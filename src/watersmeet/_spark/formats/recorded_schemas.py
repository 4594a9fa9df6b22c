"""Schemas of formats that a start fixes, and a checkpoint records: law 2, a replay writes the same bytes.

A source without a schema goes on with the one that the checkpoint has, where its type is the same. A sink's schema is
registered, or looked up, before the first batch; its number stands in front of each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from watersmeet._plan.nodes import SinkNode, SourceNode
from watersmeet._plan.physical import Physical
from watersmeet._spark.session.credentials import handed_over
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.registered.client import Handed, Missing, RegistryClient
from watersmeet._worker.formats.registered.language import BadSchema
from watersmeet._worker.secrets import REGISTRIES
from watersmeet.errors import ChangedTopology, ConfigError
from watersmeet.io.formats import WrappingFormat
from watersmeet.io.registry import SchemaRegistry
from watersmeet.io.schema_formats import SchemaFormat

Settled = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By `reads` and `writes`, and by node and part: subject, version or number, and the schema itself."""


def settle(
    sources: Sequence[SourceNode], sinks: Sequence[SinkNode], known: Settled
) -> dict[str, dict[str, dict[str, Any]]]:
    """The schemas of a start; empty where no format has a registry's.

    Parameters
    ----------
    known : what the checkpoint has, of an earlier start.

    Raises
    ------
    ChangedTopology : the registry's latest schema is of another type than the one that the checkpoint reads by.
    ConfigError : the registry refuses a schema, does not have it, or does not answer.
    """
    old = known.get("reads", {})
    read, written = _forms(_origins(sources)), _forms((sink, sink.target) for sink in sinks)
    reads = {place: _read(form, old.get(place), place) for place, form, _ in read if _is_latest(form)}
    writes = {place: _written(form, kind) for place, form, kind in written if form.registry is not None}
    return {name: found for name, found in (("reads", reads), ("writes", writes)) if found}


def _origins(sources: Sequence[SourceNode]) -> list[tuple[SourceNode, Any]]:
    return [(source, source.origin) for source in sources]


def _forms(ends: Iterable[tuple[SourceNode | SinkNode, Any]]) -> Iterator[tuple[str, SchemaFormat, Any]]:
    """(place, format, type) of all parts that have a schema, of nodes with the topics that they read or write."""
    for node, end in ends:
        for part, form in end.formats.items():
            kind = getattr(node.shape, part)
            if isinstance(form, WrappingFormat) and form.field is not None and isinstance(kind, StructType):
                kind = kind[form.field].dataType
            inner = form.inner if isinstance(form, WrappingFormat) else form
            if isinstance(inner, SchemaFormat):
                yield f"{node.name}/{part}", inner, kind


def _with(form: Any, inner: SchemaFormat) -> Any:
    """The format, or one around it, with another schema."""
    return inner if isinstance(form, SchemaFormat) else replace(form, inner=inner)


def _is_latest(form: SchemaFormat) -> bool:
    return form.registry is not None and form.schema is None


def _read(form: SchemaFormat, known: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    found = schemas.latest(form)
    now = {"subject": found.subject, "version": found.version, "schema": schemas.whole_text(form)}
    if known is None or form.version is not None or known["subject"] != now["subject"]:
        return now
    if schemas.LANGUAGES[form.kind].type_of(known["schema"]) == schemas.type_of(form):
        return dict(known)
    raise ChangedTopology(
        "The registry's latest schema has another type than the schema in the checkpoint.",
        given=f"{place}: version {known['version']} of {known['subject']} in the checkpoint, {now['version']} now",
        hint=f"Read by the old one: wm.{form.kind}(registry=..., version={known['version']}); values of newer ones "
        "are read by it where they are compatible. Or begin a new checkpoint.",
    )


def _written(form: SchemaFormat, kind: Any) -> dict[str, Any]:
    language = schemas.LANGUAGES[form.kind]
    try:
        text = schemas.written_text(form, kind)
        whole = language.whole(text)
        if form.validate:
            language.check(whole)
    except BadSchema as error:
        raise schemas.refused(error, form, str(form.schema)) from None
    subject = form.subject_of(language.name_of(whole))
    if subject is None:
        raise ConfigError(
            f"subject_name_strategy={form.subject_name_strategy!r} needs a schema with a name.",
            given=f"subject_name_strategy={form.subject_name_strategy!r}, the {form.part}s of {form.topic!r}",
            hint='Take "TopicNameStrategy", or name it: subject="...".',
        )
    return {"subject": subject, "id": _id_of(form, subject, text), "schema": whole}


def _id_of(form: SchemaFormat, subject: str, text: str) -> int:
    assert form.registry is not None
    client, language = RegistryClient(form.registry.settings), schemas.LANGUAGES[form.kind]
    try:
        given = language.registration(text)
        return client.id_of(subject, given, language.registered_as, register=form.auto_register)
    except Missing as error:
        raise ConfigError(
            "The registry does not have the schema of a sink, and auto_register=False forbids to register it.",
            given=f"{error}; the schema is {language.display_text(text)[:300]}",
            hint="Register it, or leave out auto_register=False.",
        ) from None


# -- with what is settled ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Registries:
    """All registries of a topology, as its tasks reach them.

    Parameters
    ----------
    half : of their settings.
    order : the registries.
    """

    half: bytes = field(repr=False)
    order: tuple[SchemaRegistry, ...] = ()

    def handed(self, registry: Any) -> Any:
        """One of them."""
        return None if registry is None else Handed(self.half, [each is registry for each in self.order].index(True))


@contextmanager
def handed_registries(spark: SparkSession, sources: Sequence[SourceNode]) -> Iterator[Registries]:
    """The registries of sources, for tasks of a query that is started while it lasts."""
    found: list[SchemaRegistry] = []
    for _, form, _ in _forms(_origins(sources)):
        if form.registry is not None and not any(each is form.registry for each in found):
            found.append(form.registry)
    if not found:
        yield Registries(b"")
        return
    settings = {str(number): registry.settings for number, registry in enumerate(found)}
    with handed_over(spark, settings, REGISTRIES) as half:
        yield Registries(half, tuple(found))


def sources_with_schemas(sources: Sequence[SourceNode], known: Settled, registries: Registries) -> list[SourceNode]:
    """The sources with the recorded schemas in their formats, and registries as tasks reach them."""
    made = []
    for source in sources:
        parts = {}
        for place, form, _ in _forms(_origins([source])):
            text = known.get("reads", {}).get(place, {}).get("schema", form.schema)
            part = place.rsplit("/", 1)[1]
            made_of = replace(form, schema=text, version=None, registry=registries.handed(form.registry))
            parts[part] = _with(getattr(source.origin, part), made_of)
        made.append(replace(source, origin=replace(source.origin, **parts)) if parts else source)
    return made


def sinks_with_schemas(sinks: Sequence[SinkNode], known: Settled) -> list[SinkNode]:
    """The sinks with the recorded schemas and their numbers in their formats."""
    made = []
    for sink in sinks:
        parts = {}
        for place, form, kind in _forms([(sink, sink.target)]):
            if form.registry is not None:
                one = known.get("writes", {}).get(place)
                if one is None or schemas.misfit(replace(form, schema=one["schema"]), kind) is not None:
                    # a batch that was begun with another type is run again with this one
                    one = _written(form, kind)
                part = place.rsplit("/", 1)[1]
                made_of = replace(form, schema=one["schema"], id=one["id"], registry=None)
                parts[part] = _with(getattr(sink.target, part), made_of)
        made.append(replace(sink, target=replace(sink.target, **parts)) if parts else sink)
    return made


def with_sinks(physical: Physical, known: Settled) -> Physical:
    """The same plan with these sinks."""
    return replace(physical, plan=physical.plan.with_nodes(sinks_with_schemas(physical.plan.sinks, known)))
