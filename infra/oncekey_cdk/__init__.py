"""Constructs of the AWS CDK for whoever makes a service safe to retry.

    from oncekey_cdk import IdempotencyTable

Each is one statement with safe defaults, every one of which can be overridden; its resources are
attributes, and its grants allow exact actions on exact resources. What is asked wrongly is refused
at once, all of it in one ValueError; what only the finished app shows is an error of `cdk synth`.
The package imports the library and the CDK, and nothing of the reference service.
"""

from __future__ import annotations

from .audit_table import AuditTable
from .idempotency_table import IdempotencyTable
from .response_bucket import ResponseBucket
from .safe_table import SafeTable

__all__ = [
    "AuditTable",
    "IdempotencyTable",
    "ResponseBucket",
    "SafeTable",
]
