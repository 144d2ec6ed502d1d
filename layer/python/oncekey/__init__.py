"""oncekey makes a Lambda-backed API safe to retry: every Idempotency-Key takes effect once.

Importing it opens no connection and reads no environment. Each name is loaded on first use.
"""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.declared import (
        natural,
    )
    from oncekey.effects.operation import (
        Operation,
    )
    from oncekey.effects.running import (
        current_operation,
    )
    from oncekey.errors import (
        CallNotAnswered,
        CallUnfinished,
        ConditionFailed,
        ConfigurationError,
        EffectMisused,
        Final,
        InProgress,
        KeyMissing,
        KeyReused,
        NotExecuted,
        OncekeyError,
        OutcomeUnknown,
        Paused,
        QuotaExceeded,
        RequestRefused,
        ResultUnavailable,
        RunStopped,
        StoreError,
        StoreUnavailable,
        TransactionInvalid,
    )
    from oncekey.functions.decorator import (
        idempotent_function,
    )
    from oncekey.http.cors import (
        Cors,
    )
    from oncekey.http.decorator import (
        idempotent,
    )
    from oncekey.http.event import (
        HttpRequest,
        read_request,
    )
    from oncekey.http.preset import (
        IETF,
    )
    from oncekey.http.stripe_preset import (
        STRIPE,
    )
    from oncekey.quotas.quota import (
        Quota,
    )
    from oncekey.settlement.late import (
        settle,
    )
    from oncekey.settlement.resolvers import (
        Completed,
        Question,
        StillUnknown,
        resolver,
    )
    from oncekey.settlement.settlement import (
        Settlement,
    )
    from oncekey.store.dynamodb.store import (
        DynamoDBStore,
    )
    from oncekey.store.s3 import (
        ResponseBucket,
    )
    from oncekey.telemetry.operation_event import (
        OperationEvent,
    )
    from oncekey.tenants import (
        api_key_id,
        authorizer_value,
        iam_principal,
        jwt_claim,
        single_tenant,
    )

__all__ = [
    "IETF",
    "STRIPE",
    "CallNotAnswered",
    "CallUnfinished",
    "Completed",
    "ConditionFailed",
    "ConfigurationError",
    "Cors",
    "DynamoDBStore",
    "EffectMisused",
    "Final",
    "HttpRequest",
    "InProgress",
    "KeyMissing",
    "KeyReused",
    "NotExecuted",
    "OncekeyError",
    "Operation",
    "OperationEvent",
    "OutcomeUnknown",
    "Paused",
    "Question",
    "Quota",
    "QuotaExceeded",
    "RequestRefused",
    "ResponseBucket",
    "ResultUnavailable",
    "RunStopped",
    "Settlement",
    "StillUnknown",
    "StoreError",
    "StoreUnavailable",
    "TransactionInvalid",
    "api_key_id",
    "authorizer_value",
    "current_operation",
    "iam_principal",
    "idempotent",
    "idempotent_function",
    "jwt_claim",
    "natural",
    "read_request",
    "resolver",
    "settle",
    "single_tenant",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.declared": ("natural",),
        "oncekey.effects.operation": ("Operation",),
        "oncekey.effects.running": ("current_operation",),
        "oncekey.errors": (
            "CallNotAnswered",
            "CallUnfinished",
            "ConditionFailed",
            "ConfigurationError",
            "EffectMisused",
            "Final",
            "InProgress",
            "KeyMissing",
            "KeyReused",
            "NotExecuted",
            "OncekeyError",
            "OutcomeUnknown",
            "Paused",
            "QuotaExceeded",
            "RequestRefused",
            "ResultUnavailable",
            "RunStopped",
            "StoreError",
            "StoreUnavailable",
            "TransactionInvalid",
        ),
        "oncekey.functions.decorator": ("idempotent_function",),
        "oncekey.http.cors": ("Cors",),
        "oncekey.http.decorator": ("idempotent",),
        "oncekey.http.event": ("HttpRequest", "read_request"),
        "oncekey.http.preset": ("IETF",),
        "oncekey.http.stripe_preset": ("STRIPE",),
        "oncekey.quotas.quota": ("Quota",),
        "oncekey.settlement.late": ("settle",),
        "oncekey.settlement.resolvers": (
            "Completed",
            "Question",
            "StillUnknown",
            "resolver",
        ),
        "oncekey.settlement.settlement": ("Settlement",),
        "oncekey.store.dynamodb.store": ("DynamoDBStore",),
        "oncekey.store.s3": ("ResponseBucket",),
        "oncekey.telemetry.operation_event": ("OperationEvent",),
        "oncekey.tenants": (
            "api_key_id",
            "authorizer_value",
            "iam_principal",
            "jwt_claim",
            "single_tenant",
        ),
    },
)
