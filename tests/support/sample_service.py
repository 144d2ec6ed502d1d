"""Descriptions of services made of the sample functions."""

from __future__ import annotations

from infra.service_environment import PROVIDER_API_KEY, PROVIDER_URL
from oncekey_local.description import (
    Attribute,
    Function,
    Index,
    Route,
    Service,
    Table,
    TableName,
)

_HERE = "tests.support.sample_functions"


def _function(name: str, *routes: Route, timeout_s: int = 29) -> Function:
    return Function(name=name, handler=f"{_HERE}.{name}", timeout_s=timeout_s, routes=routes)


_TABLE = Table(
    name="things",
    partition_key=Attribute(name="pk"),
    ttl_attribute="expires_at",
    indexes=(
        Index(
            name="due",
            partition_key=Attribute(name="due_shard"),
            sort_key=Attribute(name="due_at", type="N"),
        ),
    ),
)

SERVICE = Service(
    name="sample",
    functions=(
        Function(
            name="echo",
            handler=f"{_HERE}.echo",
            timeout_s=29,
            memory_mb=256,
            routes=(
                Route(method="POST", path="/echo"),
                Route(method="GET", path="/echo/{name}"),
                Route(method="ANY", path="/files/{path+}"),
            ),
            environment={
                "THINGS_TABLE": TableName("things"),
                "GREETING": "hello",
                "PROVIDER_URL": PROVIDER_URL,
                "PROVIDER_API_KEY": PROVIDER_API_KEY,
            },
        ),
        _function("meet", Route(method="POST", path="/meet")),
    ),
    tables=(_TABLE,),
)

# The ones that end badly stand apart: each costs two processes at the start.
FAILING = Service(
    name="failing",
    functions=(
        _function("respond", Route(method="POST", path="/respond")),
        _function("fail", Route(method="POST", path="/fail")),
        _function("leave", Route(method="POST", path="/leave")),
        _function("huge", Route(method="POST", path="/huge")),
        _function("spin", Route(method="POST", path="/spin")),
    ),
    tables=(),
)

BROKEN = Service(
    name="broken",
    functions=(
        Function(
            name="broken",
            handler="tests.support.broken_function.handler",
            timeout_s=5,
            routes=(Route(method="POST", path="/broken"),),
        ),
    ),
    tables=(),
)
