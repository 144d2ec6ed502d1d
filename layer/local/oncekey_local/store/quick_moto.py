"""What moto and botocore work out anew at each call, kept for the next one.

No answer changes: what is kept follows from its key alone, and nobody alters it. To work it out
took more than half of moto's time.
"""

# ruff: noqa: SLF001 - what is replaced is no interface of moto's and botocore's

from __future__ import annotations

import inspect
from collections import deque
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from botocore.loaders import Loader
from moto.core import responses, utils
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing import expressions
from moto.sqs import models

if TYPE_CHECKING:
    from moto.core.model import StructureShape

# More than a service has expressions. Tests of random ones must not fill the memory.
_MOST_EXPRESSIONS = 4_096

# Parts of moto's and botocore's that are no interface, and have no types.
_updates: Any = expressions.UpdateExpressionParser  # type: ignore[attr-defined]
_conditions: Any = ConditionExpressionParser
_serializers: Any = BaseJSONSerializer
_loaders: Any = Loader
_tables: Any = Table
_serialize_structure = _serializers._serialize_type_structure
_lex_condition = _conditions._lex_condition_expression
_make_update = _updates.make
_query_table = _tables.query
_query_signature = inspect.signature(_query_table)
_all_items = _tables.all_items
# The attribute without which an item is not in the index that is being queried.
_indexed: ContextVar[str | None] = ContextVar("indexed", default=None)
# By what decides what a loader finds: moto's adds to the descriptions of the services.
_loaded: dict[Any, dict[Any, Any]] = {}
# What follows from a name or a class. moto asks it at each request.
_camelcase_to_underscores = cache(utils.camelcase_to_underscores)
_method_names_from_class = cache(utils.method_names_from_class)


@cache
def quicken() -> None:
    """Keep it from now on, in this process."""
    _serializers._serialize_type_structure = _serialize
    _conditions._lex_condition_expression = _lex
    # The tree of an update is copied before anything is put into it.
    _updates.make = lru_cache(_MOST_EXPRESSIONS)(_make_update)
    _loaders._cache = property(_read_by, _keep_shared)
    _tables.query = _query
    _tables.all_items = _items
    # These modules have them from another one.
    vars(responses)["camelcase_to_underscores"] = _camelcase_to_underscores
    vars(responses)["method_names_from_class"] = _method_names_from_class
    vars(models)["camelcase_to_underscores"] = _camelcase_to_underscores


def _query(table: Any, *arguments: Any, **options: Any) -> Any:
    """A query of an index sorts and looks at what is in it, where moto takes the whole table."""
    called = _query_signature.bind(table, *arguments, **options).arguments
    name = called.get("index_name")
    index = next((each for each in table.all_indexes() if each.name == name), None)
    token = _indexed.set(index and index.schema[0]["AttributeName"])
    try:
        return _query_table(table, *arguments, **options)
    finally:
        _indexed.reset(token)


def _items(table: Any) -> Any:
    attribute = _indexed.get()
    if attribute is None or table.range_key_attr:
        return _all_items(table)
    indexed = [item for item in table.items.values() if attribute in item.attrs]
    return sorted(indexed, key=lambda item: item.hash_key)


def _read_by(loader: Any) -> dict[Any, Any]:
    """What a loader of this kind has read, in whatever session: always the same files."""
    kind = (type(loader), type(loader.file_loader))
    places = (tuple(loader.search_paths), tuple(loader.extras_types))
    return _loaded.setdefault((kind, places), {})


def _keep_shared(_loader: Any, _empty: dict[Any, Any]) -> None:
    """A loader that is made begins with what is shared, where botocore's begins with nothing."""


def _serialize(
    serializer: Any,
    serialized: dict[str, Any],
    value: Any,
    shape: StructureShape,
    key: str,
) -> None:
    """The value of an attribute has one member, by its own name.

    moto looks for each of the ten under each of its aliases.
    """
    is_plain = type(value) is dict and shape.members.keys() >= value.keys()
    if shape.name != "AttributeValue" or not is_plain:
        _serialize_structure(serializer, serialized, value, shape, key)
        return
    wrapper: dict[str, Any] = {}
    for kind, content in value.items():
        if content is not None:
            serializer._serialize(wrapper, content, shape.members[kind], kind)
    serializer._default_serialize(serialized, wrapper, shape, key)


def _lex(parser: ConditionExpressionParser) -> deque[Any]:
    return deque(_lexed(parser.condition_expression or ""))


@lru_cache(_MOST_EXPRESSIONS)
def _lexed(expression: str) -> tuple[Any, ...]:
    parser = ConditionExpressionParser(expression, None, None)
    return tuple(_lex_condition(parser))
