"""A reader of the part of Terraform's language that the documentation uses.

Blocks with labels, nested blocks, and attributes that are texts, booleans, lists and references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\w.]+|[={}\[\],])')


@dataclass
class Block:
    """A block: its kind and labels, its attributes by name, and the blocks in it."""

    kind: str
    labels: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def all(self, kind: str) -> list[Block]:
        """The blocks of this kind in it, in order."""
        return [block for block in self.blocks if block.kind == kind]

    def one(self, kind: str) -> dict[str, Any]:
        """The attributes of the only block of this kind in it; empty if there is none."""
        found = self.all(kind)
        assert len(found) <= 1, f"{len(found)} blocks {kind} in {self.labels}"
        return found[0].attributes if found else {}


def read_hcl(text: str) -> list[Block]:
    """The blocks of a file. An AssertionError says where it is not understood."""
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match, f"not understood: {text[position : position + 40]!r}"
        tokens.append(match[1])
        position = match.end()
    outer = Block("", ())
    rest = _body(tokens, outer)
    assert not rest, f"a bracket too many, before {rest[:3]}"
    return outer.blocks


def _body(tokens: list[str], block: Block) -> list[str]:
    while tokens and tokens[0] != "}":
        name, *tokens = tokens
        if tokens[0] == "=":
            block.attributes[name], tokens = _value(tokens[1:])
            continue
        labels = tokens[: tokens.index("{")]
        inner = Block(name, tuple(label.strip('"') for label in labels))
        block.blocks.append(inner)
        end, *tokens = _body(tokens[len(labels) + 1 :], inner)
        assert end == "}", f"{name} is not closed"
    return tokens


def _value(tokens: list[str]) -> tuple[Any, list[str]]:
    first, *rest = tokens
    if first != "[":
        known: dict[str, Any] = {"true": True, "false": False}
        return known.get(first, first.strip('"')), rest
    listed = []
    while rest[0] != "]":
        value, rest = _value(rest)
        listed.append(value)
        rest = rest[1:] if rest[0] == "," else rest
    return listed, rest[1:]
