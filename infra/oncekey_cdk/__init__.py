"""Constructs of the AWS CDK for whoever makes a service safe to retry.

    from oncekey_cdk import IdempotencyTable, IdempotentFunction, IdempotentHttpApi

Each is one statement with safe defaults, every one of which can be overridden; its resources are
attributes, and its grants allow exact actions on exact resources. What is asked wrongly is refused
at once, all of it in one ValueError; what only the finished app shows is an error of `cdk synth`.
The package imports the library and the CDK, and nothing of the reference service.
"""

from __future__ import annotations

from .audit_table import AuditTable
from .http_api import IdempotentHttpApi
from .idempotency_table import IdempotencyTable
from .idempotent_function import IdempotentFunction
from .layer import OncekeyLayer
from .observability import Observability
from .outbox import Outbox, OutboxTable
from .reconciler import Reconciler
from .response_bucket import ResponseBucket
from .rest_api import IdempotentRestApi, UsagePlan
from .safe_table import SafeTable
from .synth_checks import OncekeyChecks

__all__ = [
    "AuditTable",
    "IdempotencyTable",
    "IdempotentFunction",
    "IdempotentHttpApi",
    "IdempotentRestApi",
    "Observability",
    "OncekeyChecks",
    "OncekeyLayer",
    "Outbox",
    "OutboxTable",
    "Reconciler",
    "ResponseBucket",
    "SafeTable",
    "UsagePlan",
]
