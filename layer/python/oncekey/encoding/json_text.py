"""Reads and writes JSON by the standard library's C functions, without its Python code per call.

`json.dumps` with options, and `json.loads` with hooks, make new objects for every call, which takes
longer than to write or read a small document.
"""

from __future__ import annotations

import json
from json import encoder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


_WHITE_SPACE = " \t\n\r"


def reader(decoder: json.JSONDecoder) -> Callable[[str], Any]:
    """A function that reads a JSON document, as `decoder` does.

    It raises `ValueError` where the text is no document, and `RecursionError` for a deep one.
    """

    def read(text: str) -> Any:
        text = text.strip(_WHITE_SPACE)
        value, end = decoder.raw_decode(text)
        if end != len(text):
            raise ValueError("there is more than one JSON document")
        return value

    return read


def writer(*, sort_keys: bool = False) -> Callable[[Any], str]:
    """A function that writes a value, which does not contain itself, as JSON without spaces.

    Text beyond ASCII is not escaped. It raises what `json.dumps` does: `ValueError` for NaN and the
    infinities, `TypeError` for other values, `RecursionError` for deep ones.
    """
    ordinary = json.JSONEncoder(
        ensure_ascii=False,
        check_circular=False,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
    )
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return ordinary.encode
    pieces = make(
        markers=None,
        default=ordinary.default,
        encoder=encoder.encode_basestring,
        indent=None,
        key_separator=":",
        item_separator=",",
        sort_keys=sort_keys,
        skipkeys=False,
        allow_nan=False,
    )

    def write(value: Any) -> str:
        return "".join(pieces(value, 0))

    return write
