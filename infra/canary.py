"""The canary: a function that makes one payment an hour through the deployed API, and checks it.

It is deployed with `-c canary_customer=...` alone, because its payments are real ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infra.service_environment import FOR_LOGS
from oncekey_local.description import Function, ScheduleTrigger, Setting

if TYPE_CHECKING:
    from oncekey_local.description import Service

CANARY_API_URL = Setting("canary-api-url", local="http://127.0.0.1:8000")
CANARY_CUSTOMER = Setting("canary-customer", local="cus_canary")
# Its client at the issuer of the callers' tokens.
CANARY_CLIENT = Setting("canary-client", local="{}", secret=True)

CANARY_FUNCTION = Function(
    name="canary",
    handler="functions.canary.handler.handler",
    # Three requests of 10 s at most.
    timeout_s=40,
    memory_mb=256,
    schedule=ScheduleTrigger(every_minutes=60),
    environment={
        "CANARY_API_URL": CANARY_API_URL,
        "CANARY_CUSTOMER": CANARY_CUSTOMER,
        "CANARY_CLIENT": CANARY_CLIENT,
        **FOR_LOGS,
    },
    is_canary=True,
)


def with_canary(service: Service) -> Service:
    """The service with its canary."""
    return replace(service, functions=(*service.functions, CANARY_FUNCTION))
