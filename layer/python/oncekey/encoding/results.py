"""The results of idempotent functions as text: a replay equals the first answer, types included.

Plain JSON values are stored unchanged. Any other value is an object tagged with `$`. A dictionary
that itself has the key `$` is tagged as well, so that no two results can be confused. Reading is
safe, unlike pickle: it finds a dataclass, enum, named tuple or pydantic model by name in a module
that is already loaded, and fills in the fields. It calls no code of the class and imports nothing.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from oncekey.encoding.classes import Parts, put_together, take_apart
from oncekey.encoding.refusals import Unreadable, Unstorable, refusal, step_of_key
from oncekey.encoding.scalars import READERS, TAG, WRITERS, is_plain_text, node

# Deeper values are refused. Without this limit, the depth of Python's stack would decide, which
# differs between versions.
MAX_DEPTH = 100

_SEQUENCES: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_CLASSES = {"dataclass", "namedtuple", "model", "enum"}


def encode(value: object) -> str:
    """`value` as compact JSON text, from which `decode` makes an equal value of the same types.

    An object that occurs twice comes back as two objects. A value of a user-defined class is
    decoded once as a check, so the text can be read wherever the same classes are loaded.

    Raises:
        TypeError: `value`, or something inside it, cannot be stored. The message contains its path,
            its kind and what to do, never its value.
    """
    encoder = _Encoder()
    try:
        text = _dumps(encoder.write("result", value))
        if encoder.met_class:
            _check_decoded(text)
    except _NotStorable:
        raise
    except RecursionError:
        raise _too_deep("result") from None
    except Exception as error:
        # Raised by an object's own code, or for lack of memory. Its text may contain payload data,
        # so only its type is shown.
        raise _NotStorable(
            f"{encoder.path} cannot be stored, because reading it raised"
            f" {type(error).__name__}: return plain values instead"
        ) from error
    return text


def decode(text: str) -> Any:
    """The value that `encode` made `text` from.

    Raises:
        ValueError: `encode` did not make `text`, its tag is unknown to this release, or its class
            is gone or has different fields.
    """
    try:
        return _read(json.loads(text, parse_constant=_no_constant), 1)
    except Unreadable:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        # Their messages quote the text that they could not read.
        raise Unreadable(
            f"The stored result is malformed ({type(error).__name__}): it was not written by"
            " oncekey, or was changed since."
        ) from None
    except RecursionError:
        raise Unreadable(f"The stored result is nested deeper than {MAX_DEPTH} levels.") from None


def _dumps(tree: Any) -> str:
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Lone surrogates can only be written as escapes.
        return json.dumps(tree, separators=(",", ":"), allow_nan=False)
    return text


def _check_decoded(text: str) -> None:
    try:
        again = _dumps(_Encoder().write("result", decode(text)))
    except ValueError as error:
        raise _NotStorable(
            f"result cannot be stored, because it could not be read: {error}"
        ) from None
    if again != text:
        raise _NotStorable(
            "result would not come back equal, because one of its classes changes what it holds:"
            " return plain values instead"
        )


def _too_deep(path: str) -> TypeError:
    return _NotStorable(
        f"{path} is nested deeper than {MAX_DEPTH} levels, which cannot be stored: return a flatter"
        " value"
    )


class _NotStorable(TypeError):  # noqa: N818 -- a property of a value
    """A `TypeError` of ours. Its text needs no more context and contains no value."""


class _Encoder:
    """Makes JSON values of one result."""

    def __init__(self) -> None:
        self.met_class = False
        self._path: list[str] = []
        self._open: set[int] = set()

    @property
    def path(self) -> str:
        """The place in the result that the encoder has reached, also after an exception."""
        return "".join(self._path) or "result"

    def write(self, step: str, value: Any) -> Any:
        """`value` as JSON values. `step` is its place in the object that contains it."""
        self._path.append(step)
        write = WRITERS.get(type(value))
        try:
            tree = self._nested(value) if write is None else write(value)
        except Unstorable as found:
            raise _NotStorable(
                f"{''.join(self._path)} is {found.what}, which cannot be stored: {found.advice}"
            ) from None
        self._path.pop()
        return tree

    def _nested(self, value: Any) -> Any:
        if id(value) in self._open:
            raise Unstorable("a cycle back to what holds it", "return a value without cycles")
        if len(self._path) > MAX_DEPTH:
            raise _too_deep("".join(self._path[:3]) + "...")
        self._open.add(id(value))
        tree = self._container(value)
        self._open.remove(id(value))
        return tree

    def _container(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return self._dictionary(value)
        if kind is list or kind is tuple:
            items = [self.write(f"[{index}]", item) for index, item in enumerate(value)]
            return items if kind is list else node("tuple", items)
        if kind is set or kind is frozenset:
            # Sorted, so that equal sets have the same text in every process.
            return node(kind.__name__, sorted((self.write("{}", i) for i in value), key=_dumps))
        parts = take_apart(value)
        if parts is None:
            raise refusal(value)
        self.met_class = True
        return self._parts(parts)

    def _dictionary(self, value: dict[Any, Any]) -> Any:
        if TAG not in value and all(type(key) is str and is_plain_text(key) for key in value):
            return {key: self.write(step_of_key(key), item) for key, item in value.items()}
        pairs = [
            [self.write(f".keys()[{index}]", key), self.write(step_of_key(key), item)]
            for index, (key, item) in enumerate(value.items())
        ]
        return node("dict", pairs)

    def _parts(self, parts: Parts) -> dict[str, Any]:
        tree: dict[str, Any] = {TAG: parts.kind, "c": parts.class_name}
        if parts.kind == "enum":
            return tree | {"v": parts.member}
        tree["v"] = self._attributes(parts.fields)
        if parts.fields_set is not None:
            tree["set"] = self.write(".model_fields_set", parts.fields_set)
        if parts.extra is not None:
            tree["extra"] = self.write(".model_extra", parts.extra)
        if parts.private is not None:
            tree["private"] = self._attributes(parts.private)
        return tree

    def _attributes(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.write(f".{name}", value) for name, value in values.items()}


def _read(tree: Any, depth: int) -> Any:
    if not isinstance(tree, list | dict):
        return tree
    if isinstance(tree, dict) and tree.get(TAG) in READERS:
        return READERS[tree[TAG]](tree)
    if depth > MAX_DEPTH:
        raise Unreadable(f"The stored result is nested deeper than {MAX_DEPTH} levels.")
    below = depth + 1
    if isinstance(tree, list):
        return [_read(item, below) for item in tree]
    if TAG not in tree:
        return {key: _read(item, below) for key, item in tree.items()}
    kind = tree[TAG]
    if kind == "dict":
        return {_read(key, below): _read(item, below) for key, item in tree["v"]}
    if kind in _SEQUENCES:
        return _SEQUENCES[kind]([_read(item, below) for item in tree["v"]])
    if kind in _CLASSES:
        return put_together(_read_parts(kind, tree, below))
    raise Unreadable(
        f"The stored result has a part of the kind {str(kind)[:40]!r}, which this release of"
        " oncekey does not know: a newer one wrote it."
    )


def _read_parts(kind: str, tree: dict[str, Any], depth: int) -> Parts:
    if kind == "enum":
        return Parts(kind=kind, class_name=tree["c"], member=tree["v"])
    private = tree.get("private")
    return Parts(
        kind=kind,
        class_name=tree["c"],
        fields=_read_attributes(tree["v"], depth),
        fields_set=_read(tree["set"], depth) if "set" in tree else None,
        extra=_read(tree["extra"], depth) if "extra" in tree else None,
        private=None if private is None else _read_attributes(private, depth),
    )


def _read_attributes(values: dict[str, Any], depth: int) -> dict[str, Any]:
    return {name: _read(value, depth) for name, value in values.items()}


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)
