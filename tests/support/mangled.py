"""JSON documents with a few changes anywhere in them, as hypothesis draws them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

# Any text that a Python string can be, lone surrogates and control characters among it.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**53, 10**40, 1.5, -0.0, 1e308, float("nan"), float("inf")]),
    ANY_TEXT,
    st.sampled_from(
        ["", " ", "null", "true", "0", "x" * 5_000, "é" * 300, "\x00", "\ud800", "%zz"]
    ),
)


def _deep(levels: int) -> Any:
    document: Any = "x"
    for _ in range(levels):
        document = [document]
    return document


JUNK = st.one_of(
    _SCALARS,
    st.recursive(
        _SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
        max_leaves=6,
    ),
    st.integers(100, 600).map(_deep),
)


@st.composite
def mangled(draw: st.DrawFn, document: Any) -> Any:
    """`document` with one to three members dropped, replaced, renamed, repeated or exchanged."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(changed))
        if not places:
            break
        holder, name = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["replace", "replace", "drop", "rename", "exchange", "wrap"]))
        if how == "drop":
            del holder[name]
        elif how == "rename" and isinstance(holder, dict):
            holder[draw(ANY_TEXT)] = holder.pop(name)
        elif how == "exchange":
            other, there = draw(st.sampled_from(places))
            holder[name], value = copy.deepcopy(other[there]), copy.deepcopy(holder[name])
            other[there] = value
        elif how == "wrap":
            holder[name] = [holder[name]]
        else:
            holder[name] = copy.deepcopy(draw(JUNK))
    return changed


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Where each member is: the object or array that has it, and its name or index."""
    members: Any = ()
    if isinstance(document, dict):
        members = document.items()
    elif isinstance(document, list):
        members = enumerate(document)
    for name, value in list(members):
        yield document, name
        yield from _places(value)
