"""A description with a handler in a module that does not exist."""

from __future__ import annotations

from oncekey_local.description import Function, Service

SERVICE = Service(
    name="misdescribed",
    functions=(Function(name="lost", handler="tests.support.nowhere.handler", timeout_s=5),),
    tables=(),
)
