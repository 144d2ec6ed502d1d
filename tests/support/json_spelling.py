"""The many spellings of one JSON value."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def respelled(value: Any, chance: Any) -> str:
    """`value` as JSON, spelt by chance."""
    space = chance.choice(["", " ", "\n\t\r "])
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        inner = f"{space},{space}".join(
            f"{respelled(name, chance)}{space}:{respelled(item, chance)}" for name, item in items
        )
        return f"{space}{{{inner}{space}}}"
    if isinstance(value, list):
        return f"[{space}{f',{space}'.join(respelled(item, chance) for item in value)}]{space}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=chance.choice([True, False]))
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return respelled_number(value, chance)


def respelled_number(number: float, chance: Any) -> str:
    """`number` exactly, in one of its many spellings."""
    exact = Decimal(repr(number))
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    whole = "-" * sign + "".join(map(str, digits)).lstrip("0")
    spellings = [json.dumps(number), f"{exact:e}", f"{exact:E}"]
    if number:
        spellings.append(f"{whole}e{exponent}" if exponent or len(digits) < 16 else repr(number))
    if abs(exponent) < 20:
        spellings.append(f"{exact:f}" + ("" if exponent < 0 else ".0"))
    return str(chance.choice(spellings))
