"""oncekey makes a Lambda-backed API safe to retry: every Idempotency-Key takes effect once.

Importing this opens no connection and reads no environment.
"""

from oncekey.decorator import idempotent
from oncekey.dynamodb_store import DynamoDBStore
from oncekey.errors import (
    CallNotAnswered,
    CallUnfinished,
    ConfigurationError,
    Final,
    InProgress,
    KeyMissing,
    KeyReused,
    NotExecuted,
    OncekeyError,
    OutcomeUnknown,
    QuotaExceeded,
    RequestRefused,
    ResultUnavailable,
    StoreError,
    StoreUnavailable,
)
from oncekey.function_decorator import idempotent_function
from oncekey.http_event import HttpRequest
from oncekey.ietf_preset import IETF
from oncekey.late_settlement import settle
from oncekey.ledger import LedgerComparison, compare_ledgers
from oncekey.ledger_sort import sorted_by_id
from oncekey.ledger_values import (
    Different,
    FieldDifference,
    LedgerField,
    LedgerNotSorted,
    LedgerTotals,
    LedgerUnfinished,
    OnlyOurs,
    OnlyTheirs,
)
from oncekey.operation import Operation, current_operation
from oncekey.operation_event import OperationEvent
from oncekey.quota import Quota
from oncekey.recorded_errors import (
    ConditionFailed,
    EffectMisused,
    RunStopped,
    TransactionInvalid,
)
from oncekey.resolvers import Completed, Question, StillUnknown, resolver
from oncekey.s3_bucket import ResponseBucket
from oncekey.settlement import Settlement
from oncekey.stripe_preset import STRIPE
from oncekey.tenants import api_key_id, authorizer_value, iam_principal, jwt_claim, single_tenant
from oncekey.webhook_decorator import webhook
from oncekey.webhook_delivery import Delivery, Publish
from oncekey.webhook_schemes import (
    GitHubSignature,
    ShopifySignature,
    StandardWebhooks,
    StripeSignature,
)

__all__ = [
    "IETF",
    "STRIPE",
    "CallNotAnswered",
    "CallUnfinished",
    "Completed",
    "ConditionFailed",
    "ConfigurationError",
    "Delivery",
    "Different",
    "DynamoDBStore",
    "EffectMisused",
    "FieldDifference",
    "Final",
    "GitHubSignature",
    "HttpRequest",
    "InProgress",
    "KeyMissing",
    "KeyReused",
    "LedgerComparison",
    "LedgerField",
    "LedgerNotSorted",
    "LedgerTotals",
    "LedgerUnfinished",
    "NotExecuted",
    "OncekeyError",
    "OnlyOurs",
    "OnlyTheirs",
    "Operation",
    "OperationEvent",
    "OutcomeUnknown",
    "Publish",
    "Question",
    "Quota",
    "QuotaExceeded",
    "RequestRefused",
    "ResponseBucket",
    "ResultUnavailable",
    "RunStopped",
    "Settlement",
    "ShopifySignature",
    "StandardWebhooks",
    "StillUnknown",
    "StoreError",
    "StoreUnavailable",
    "StripeSignature",
    "TransactionInvalid",
    "api_key_id",
    "authorizer_value",
    "compare_ledgers",
    "current_operation",
    "iam_principal",
    "idempotent",
    "idempotent_function",
    "jwt_claim",
    "resolver",
    "settle",
    "single_tenant",
    "sorted_by_id",
    "webhook",
]
