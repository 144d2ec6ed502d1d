"""Results of user-defined classes, taken apart and put together without running their code.

An object is rebuilt from its state, and its class is not called. An `__init__`, `__post_init__` or
validator may reject its own earlier result, change it again, or have side effects. For the same
reason, pydantic models do not use `model_dump` and `model_validate`: serialisers, aliases,
`exclude` and masked secrets lose data that validation cannot restore.
"""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field
from enum import Flag
from functools import cached_property
from types import MemberDescriptorType
from typing import Any

from oncekey.encoding.class_names import class_name, find_class, kind_of
from oncekey.encoding.refusals import Unreadable, Unstorable

# `Page[Order](...)` notes its type arguments here. They are no part of its value.
_ORIGIN = "__orig_class__"
_MODEL_SLOTS = {"__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one object.

    Attributes:
        kind: `dataclass`, `namedtuple`, `model`, or `enum`.
        class_name: module and qualified name, with a colon between them.
        fields: its fields; an enum has none.
        member: an enum's member by name, or a combination of flags by value.
        fields_set: the fields of a model that were given, if not all were.
        extra: the undeclared fields of a model, if it allows any.
        private: a model's private attributes, if it declares any.
    """

    kind: str
    class_name: str
    fields: dict[str, Any] = dataclasses.field(repr=False, default_factory=dict)
    member: str | int | None = field(default=None, repr=False)
    fields_set: list[str] | None = None
    extra: dict[str, Any] | None = field(default=None, repr=False)
    private: dict[str, Any] | None = field(default=None, repr=False)


def take_apart(value: Any) -> Parts | None:
    """The parts of `value`, or None if its class is of no kind that can be rebuilt.

    Raises:
        Unstorable: the class is of such a kind, but this object could not be rebuilt.
    """
    cls: Any = type(value)
    kind = kind_of(cls)
    if kind is None:
        return None
    name = class_name(cls)
    if kind == "enum":
        return Parts(kind=kind, class_name=name, member=_member(value))
    if kind != "namedtuple":
        _check_fillable(cls)
    if kind == "model":
        return _model_parts(name, value)
    fields = _tuple_fields(value) if kind == "namedtuple" else _dataclass_fields(value)
    return Parts(kind=kind, class_name=name, fields=fields)


def _check_fillable(cls: type) -> None:
    try:
        object.__new__(cls)
    except TypeError:
        # For example a dataclass that is also a dict or an exception: it has more than attributes.
        raise Unstorable(
            f"of a class that builds on a type other than object ({cls.__qualname__})",
            "hold that part in a field",
        ) from None


def _tuple_fields(value: Any) -> dict[str, Any]:
    cls = type(value)
    fields = dict(zip(cls._fields, value, strict=True))
    values, slots = _state(value)
    _check_fields(cls, set(fields) | set(values) | set(slots), set(fields))
    return fields


def _dataclass_fields(value: Any) -> dict[str, Any]:
    cls = type(value)
    values, slots = _state(value)
    # A default that `__init__` does not assign is an attribute of the class only.
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(cls)
        if field.default is not dataclasses.MISSING
        and inspect.getattr_static(cls, field.name, None) is field.default
    }
    state = defaults | values | slots
    names = [field.name for field in dataclasses.fields(cls)]
    _check_fields(cls, set(state), set(names))
    return {name: state[name] for name in names}


def _member(value: Any) -> str | int:
    name = value._name_
    if type(value).__members__.get(name) is value:
        return str(name)
    if isinstance(value, Flag):
        return int(value._value_)
    raise Unstorable("an enum's member that its class does not list", "return a listed one")


def _model_parts(name: str, value: Any) -> Parts:
    cls = type(value)
    values, slots = _state(value)
    _check_fields(cls, set(values) | (set(slots) - _MODEL_SLOTS), set(cls.model_fields))
    private, given = slots["__pydantic_private__"], slots["__pydantic_fields_set__"]
    return Parts(
        kind="model",
        class_name=name,
        fields=values,
        fields_set=None if given == set(values) else sorted(given),
        extra=slots["__pydantic_extra__"],
        private=private,
    )


def _state(value: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes in the object's dictionary and in its slots, which are a part of its value."""
    state: Any = object.__getstate__(value)
    values, slots = state if isinstance(state, tuple) else (state, None)
    cached = {
        name
        for base in type(value).__mro__
        for name, item in vars(base).items()
        if isinstance(item, cached_property)
    }
    cached.add(_ORIGIN)
    return {k: v for k, v in (values or {}).items() if k not in cached}, slots or {}


def _check_fields(cls: type, found: set[str], declared: set[str]) -> None:
    if found == declared:
        return
    beside, unset = sorted(found - declared), sorted(declared - found)
    what = f"has {beside[0]} beside its fields" if beside else f"has no value for {unset[0]}"
    raise Unstorable(
        f"a {cls.__qualname__} that {what}", "declare what it holds as fields, and give all of them"
    )


def put_together(parts: Parts) -> Any:
    """The object that `parts` were taken from.

    Raises:
        Unreadable: the class is gone, is no longer of this kind, or has different fields.
    """
    cls: Any = find_class(parts.kind, parts.class_name)
    if parts.kind == "enum":
        return _find_member(cls, parts)
    if parts.kind == "namedtuple":
        _check_unchanged(parts, cls._fields)
        return tuple.__new__(cls, [parts.fields[name] for name in cls._fields])
    value = object.__new__(cls)
    if parts.kind == "dataclass":
        _check_unchanged(parts, [field.name for field in dataclasses.fields(cls)])
        for name, item in parts.fields.items():
            object.__setattr__(value, name, item)
        return value
    return _fill_model(value, cls, parts)


def _fill_model(value: Any, cls: Any, parts: Parts) -> Any:
    _check_unchanged(parts, cls.model_fields)
    if (parts.extra is None) == (cls.model_config.get("extra") == "allow"):
        raise _changed(parts, "allows other fields beside its own")
    if (parts.private is None) == bool(cls.__private_attributes__) or not (
        set(parts.private or ()) <= set(cls.__private_attributes__)
    ):
        raise _changed(parts, "has other private attributes")
    given = parts.fields if parts.fields_set is None else parts.fields_set
    object.__setattr__(value, "__dict__", dict(parts.fields))
    slots = {"fields_set": set(given), "extra": parts.extra, "private": parts.private}
    for name, item in slots.items():
        # The class of a root model has None in place of some of the slots.
        slot = f"__pydantic_{name}__"
        if isinstance(inspect.getattr_static(cls, slot), MemberDescriptorType):
            object.__setattr__(value, slot, item)
    return value


def _find_member(cls: Any, parts: Parts) -> Any:
    if isinstance(parts.member, str) and parts.member in cls.__members__:
        return cls.__members__[parts.member]
    try:
        if type(parts.member) is int and issubclass(cls, Flag):
            return cls(parts.member)
    except ValueError:
        pass
    raise _changed(parts, "lacks the stored member")


def _check_unchanged(parts: Parts, fields: Any) -> None:
    gained, lost = sorted(set(fields) - set(parts.fields)), sorted(set(parts.fields) - set(fields))
    if gained or lost:
        raise _changed(parts, f"has gained {gained or 'no'} and lost {lost or 'no'} fields")


def _changed(parts: Parts, how: str) -> Unreadable:
    return Unreadable(
        f"The stored result is of the class {parts.class_name}, which has changed since: it {how}."
        " Keep the class as it is while results are kept, or give the new one another name."
    )
