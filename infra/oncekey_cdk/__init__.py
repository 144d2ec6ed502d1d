"""Constructs of the AWS CDK for a service that is safe to retry.

    from oncekey_cdk import IdempotencyTable, IdempotentFunction, IdempotentHttpApi

Each construct is one statement. Its safe defaults can be overridden, its resources are attributes,
and its grants allow exact actions on exact resources. Wrong arguments raise one ValueError with all
faults. Faults that only the finished app shows are errors of `cdk synth`. The package imports the
library, the types of a description and the CDK, and nothing of the reference service.
"""

from __future__ import annotations

from .audit_table import AuditTable
from .described.handlers_code import handlers_code
from .described.service import IdempotentService
from .described.service_resources import ServiceResources
from .http_api import IdempotentHttpApi
from .idempotency_table import IdempotencyTable
from .idempotent_function import IdempotentFunction
from .layer import OncekeyLayer
from .observability import Observability
from .operators import OncekeyOperators
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
    "IdempotentService",
    "Observability",
    "OncekeyChecks",
    "OncekeyLayer",
    "OncekeyOperators",
    "Outbox",
    "OutboxTable",
    "Reconciler",
    "ResponseBucket",
    "SafeTable",
    "ServiceResources",
    "UsagePlan",
    "handlers_code",
]
