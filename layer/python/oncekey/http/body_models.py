"""Fingerprints by a model: which parts of a body count, and why a body does not fit its model.

The members that the model reads count as they were sent. A refusal never contains a body's values.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.clock import is_beyond_the_calendar
from oncekey.encoding.canonical import NotCanonical, canonical_json
from oncekey.errors import OncekeyError, RequestRefused
from oncekey.misfits import MISFITS
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_UNFIT = "The request does not have the form that this operation needs."

# A body may have a million faults. A client needs only a few at a time to correct it.
_MOST_FAULTS = 10
_LONGEST_LOCATION = 100
_LONGEST_RULE = 200

# Values in pydantic's messages that come from the model. Any other value may be from the client.
_OF_THE_MODEL = {
    *("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "expected"),
    *("max_digits", "decimal_places", "whole_digits", "discriminator", "class", "class_name"),
    *("field_type", "actual_length", "expected_schemes", "expected_version"),
}
# Values that pydantic puts after the first comma or colon of a message.
_AT_THE_END = {"error"}
# Entries of a schema that contain no schema. In a dict without a type, every entry is a field.
_NO_SCHEMAS = {"config", "default", "metadata", "serialization"}


class Model(Protocol):
    """A class that validates JSON, as pydantic's models do."""

    @classmethod
    def model_validate_json(cls, json_data: bytes, /) -> Any:
        """An instance; raises `ValueError` if the document does not fit."""
        ...


def model_body(body: bytes, model: type[Model]) -> tuple[str, bytes]:
    """The kind and the bytes of the part of `body` that counts, after checking it with `model`.

    The sent values count, and not the model's dump, because a dump leaves out, masks and renames.
    The model only selects top-level members by their names on the wire. Members that it reads count
    with their whole value; members that it ignores do not count. If it is not known which members
    the model reads, all count. A body without a canonical form counts byte for byte.

    Limits: values that are the same to the model, such as 1200 and "1200", differ here, so a retry
    that spells a value differently is refused. If a release refuses bodies that an earlier one
    accepted, it also refuses retries of completed requests (400 and not the stored answer).

    Raises:
        RequestRefused: it does not fit (`request-invalid`). The message has no value of the body.
    """
    try:
        model.model_validate_json(body)
    except OncekeyError:
        raise
    except (*MISFITS, OSError) as error:
        if not isinstance(error, MISFITS) and not is_beyond_the_calendar(error):
            raise
        raise unfit(model, error, reasons(error, model)) from error
    try:
        return "model", canonical_json(body, only=_names_read(model))
    except NotCanonical:
        return "model bytes", body


def unfit(selector: Any, error: Exception, told: str = "") -> RequestRefused:
    """The refusal of a request that `selector` failed on.

    Without `told`, the cause may also be a mistake in the author's code, so the error is logged.
    """
    if told:
        detail = f"The body is not a valid {selector.__name__}: {told}."
        return RequestRefused("request-invalid", detail)
    name = getattr(selector, "__qualname__", type(selector).__qualname__)
    telemetry.request_not_understood(name, error)
    return RequestRefused("request-invalid", _UNFIT)


def _names_read(model: type[Model]) -> frozenset[str] | None:
    """The names of the top-level members that can affect an instance; None if any member can."""
    found = _plain_model(model)
    if found is None:
        return None
    config, fields = found
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return frozenset(
        wire_name
        for name, field in fields.items()
        for wire_name in (*_wire_names(name, field), *([name] if by_name else []))
    )


def _plain_model(model: type[Model]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    # A member without a field has no effect only if the model ignores extra members and runs no
    # author's code on the whole body. If this is not certain, all members count.
    schema = getattr(model, "__pydantic_core_schema__", None)
    validate = getattr(model.model_validate_json, "__func__", None)
    if schema is None or getattr(validate, "__module__", None) != "pydantic.main":
        return None
    definitions: dict[str, Any] = {}
    while schema["type"] in {"definitions", "definition-ref", "function-after"}:
        definitions |= {each["ref"]: each for each in schema.get("definitions", [])}
        is_reference = schema["type"] == "definition-ref"
        schema = definitions[schema["schema_ref"]] if is_reference else schema["schema"]
    if schema["type"] != "model" or schema.get("custom_init"):
        return None
    config, inner = schema.get("config", {}), schema["schema"]
    extra = inner.get("extra_behavior") or config.get("extra_fields_behavior") or "ignore"
    if inner["type"] != "model-fields" or extra != "ignore":
        return None
    return config, inner["fields"]


def _wire_names(name: str, field: Mapping[str, Any]) -> Iterator[str]:
    """The names under which pydantic finds a field in a JSON object: its aliases, or its own."""
    alias = field.get("validation_alias")
    if alias is None:
        yield name
    elif isinstance(alias, str):
        yield alias
    else:
        # A path or a list of paths. The top-level member of a path counts as a whole.
        paths: Iterable[Any] = [alias] if isinstance(alias[0], str) else alias
        yield from (path[0] for path in paths)


def reasons(error: Exception, model: type) -> str:
    """Where a body does not fit `model` and by which rules; empty if `error` says neither.

    The text names at most ten faults. A location contains names from the model and indexes of
    lists. Any other name, such as a dictionary's key, is shown as `*`. A rule is shown in
    pydantic's words if all values in them come from the model. Otherwise, and for an author's own
    rules, only its type is shown.
    """
    validation_error = getattr(sys.modules.get("pydantic_core"), "ValidationError", ())
    if not isinstance(error, validation_error):
        return ""
    told_by: Any = error
    faults: list[dict[str, Any]] = told_by.errors(include_input=False)
    known = set(_names(getattr(model, "__pydantic_core_schema__", {})))
    told = "; ".join(
        f"{_location(fault['loc'], known)}: {_rule(fault)}" for fault in faults[:_MOST_FAULTS]
    )
    more = len(faults) - _MOST_FAULTS
    return f"{told}; and {more} more" if more > 0 else told


def _location(parts: tuple[str | int, ...], known: set[str]) -> str:
    shown = [str(part) if isinstance(part, int) or part in known else "*" for part in parts]
    return _shortened(".".join(shown) or "body", _LONGEST_LOCATION)


def _rule(fault: dict[str, Any]) -> str:
    filled_with = set(fault.get("ctx", ())) - _OF_THE_MODEL
    # Only pydantic's own rules have a URL. An author's rule may have the same type name.
    if "url" in fault and not filled_with:
        return _shortened(fault["msg"], _LONGEST_RULE)
    if "url" in fault and filled_with == _AT_THE_END:
        return _shortened(re.split("[,:]", fault["msg"])[0], _LONGEST_RULE)
    kind = fault["type"]
    return kind if re.fullmatch("[a-z_]{1,60}", kind) else "not valid"


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _names(schema: Any) -> Iterator[str]:
    """Every name that a model, or one inside it, gives to a member: fields and aliases."""
    open_parts: list[Any] = [schema]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, list | tuple):
            open_parts.extend(part)
        elif isinstance(part, dict):
            yield from _texts(part.get("validation_alias"))
            yield from _texts(part.get("name"))
            fields = part.get("fields")
            yield from fields if isinstance(fields, dict) else ()
            beside = _NO_SCHEMAS if isinstance(part.get("type"), str) else ()
            open_parts.extend(value for key, value in part.items() if key not in beside)


def _texts(alias: Any) -> Iterator[str]:
    # A name, a path, or a list of paths.
    if isinstance(alias, str):
        yield alias
    elif isinstance(alias, list):
        for part in alias:
            yield from _texts(part)
