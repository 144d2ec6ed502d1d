"""The description of a service of `stripe_functions`."""

from __future__ import annotations

from infra.service_resources import IDEMPOTENCY
from oncekey_local.description import Function, Route, Service, TableName

SERVICE = Service(
    name="stripe-like",
    functions=(
        Function(
            name="customers",
            handler="tests.support.stripe_functions.customers",
            timeout_s=20,
            routes=(Route(method="POST", path="/v1/customers"),),
            environment={"ONCEKEY_TABLE": TableName("idempotency")},
            reserves_in="idempotency",
        ),
    ),
    tables=(IDEMPOTENCY,),
)
