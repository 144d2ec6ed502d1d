"""The description of a service of `effect_functions`, with a timeout of five seconds.

The function `patient` is `unrecorded` with a timeout that also a slow machine does not reach.
"""

from __future__ import annotations

from infra.service_environment import PROVIDER_API_KEY, PROVIDER_URL
from infra.service_resources import IDEMPOTENCY
from oncekey_local.description import Function, Route, Service, TableName


def _function(name: str, handler: str = "", timeout_s: int = 5) -> Function:
    return Function(
        name=name,
        handler=f"tests.support.effect_functions.{handler or name}",
        timeout_s=timeout_s,
        routes=(Route(method="POST", path=f"/{name}"),),
        environment={
            "ONCEKEY_TABLE": TableName("idempotency"),
            "ONCEKEY_LEASE_MARGIN_MS": "300",
            "PROVIDER_URL": PROVIDER_URL,
            "PROVIDER_API_KEY": PROVIDER_API_KEY,
        },
        reserves_in="idempotency",
    )


SERVICE = Service(
    name="payments",
    functions=(
        _function("repeatable"),
        _function("unrecorded"),
        _function("patient", handler="unrecorded", timeout_s=20),
    ),
    tables=(IDEMPOTENCY,),
)
