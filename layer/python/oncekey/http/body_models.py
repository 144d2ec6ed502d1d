"""What counts of a body that a model has to fit, and why it does not fit.

The members that the model reads count as they were sent. A refusal repeats nothing of a body.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.encoding.canonical import NotCanonical, canonical_json
from oncekey.errors import OncekeyError, RequestRefused
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# What code raises that was given something of another form than it expects, or nested deeper than
# a parser goes. Anything else is about the program and not about the request.
MISFITS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
_UNFIT = "The request does not have the form that this operation needs."

# A body may have a fault in each of a million members; who corrects one needs a few at a time.
_MOST_FAULTS = 10
_LONGEST_LOCATION = 100
_LONGEST_RULE = 200

# What pydantic's texts are filled with from the model. Anything else may be from the client.
_OF_THE_MODEL = {
    *("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "expected"),
    *("max_digits", "decimal_places", "whole_digits", "discriminator", "class", "class_name"),
    *("field_type", "actual_length", "expected_schemes", "expected_version"),
}
# What follows the first comma or colon of a text, if that is filled with it.
_AT_THE_END = {"error"}
# The entries of a schema that hold no schema; where there is no type, the entries are fields.
_NO_SCHEMAS = {"config", "default", "metadata", "serialization"}


class Model(Protocol):
    """A class that validates JSON, as pydantic's models do."""

    @classmethod
    def model_validate_json(cls, json_data: bytes, /) -> Any:
        """An instance; raises `ValueError` if the document does not fit."""
        ...


def model_body(body: bytes, model: type[Model]) -> tuple[str, bytes]:
    """What counts of `body`, once it has been found to fit `model`.

    That is what was sent and never what a dump says of it: a dump leaves out, masks and renames.
    The model only chooses among the top-level members: those that it reads count with their whole
    value, by the names on the wire; those that it ignores do not. Where it cannot be known what the
    model reads, everything counts. A body without a canonical form counts byte for byte.

    Limits: values that the model takes for the same, such as 1200 and "1200", are different, which
    refuses a retry that spells them anew. And a release that refuses what an earlier one took
    refuses the retries of completed requests too (400 in place of the stored answer).

    Raises:
        RequestRefused: it does not fit (`request-invalid`); no value of the body is repeated.
    """
    try:
        model.model_validate_json(body)
    except OncekeyError:
        raise
    except MISFITS as error:
        raise unfit(model, error, reasons(error, model)) from error
    try:
        return "model", canonical_json(body, only=_names_read(model))
    except NotCanonical:
        return "model bytes", body


def unfit(selector: Any, error: Exception, told: str = "") -> RequestRefused:
    """The refusal of a request that `selector` could not make anything of.

    Without `told`, the error may as well be a mistake in the author's code, so it is logged.
    """
    if told:
        detail = f"The body is not a valid {selector.__name__}: {told}."
        return RequestRefused("request-invalid", detail)
    name = getattr(selector, "__qualname__", type(selector).__qualname__)
    telemetry.request_not_understood(name, error)
    return RequestRefused("request-invalid", _UNFIT)


def _names_read(model: type[Model]) -> frozenset[str] | None:
    """The names of the top-level members that can make a difference to an instance; None: any."""
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
    # Members that no field names are unseen only by a model that ignores them and that runs none of
    # its author's code on the body as a whole. Whatever is not known to be harmless is not.
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
        # A path, or a list of them; what a path leads into counts as a whole.
        paths: Iterable[Any] = [alias] if isinstance(alias[0], str) else alias
        yield from (path[0] for path in paths)


def reasons(error: Exception, model: type) -> str:
    """Where and by which rules a body does not fit `model`; empty if the error is not about that.

    At most ten faults are told. In a location stand the names that the model itself gives, and
    indexes of lists; any other name, such as a key of a dictionary, is `*`. A rule is told in
    pydantic's words as far as these are filled from the model; otherwise by its type, as are the
    rules of an author's own.
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
    # Only pydantic's own rules come with an address; another one may bear the same name.
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
