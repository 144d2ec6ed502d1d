"""A description that names a table which it does not have."""

from __future__ import annotations

from oncekey_local.description import Function, Service

SERVICE = Service(
    name="contradictory",
    functions=(Function(name="lost", handler="a.b", timeout_s=5, reads=("nowhere",)),),
    tables=(),
)
