"""Why a body does not fit its model, said without repeating anything that the client sent."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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
