"""The meaning of AWS errors: one table of error codes, and one of exceptions without an answer.

An error is an outage, contention, or final.
- An outage affects the next call of every caller. The call is retried, and counts for the circuit
  breaker.
- Contention affects one key, one tenant or one table. The call is retried, and does not count for
  the circuit breaker.
- A final error stays until somebody changes the deployment or the code. The call is not retried,
  and the error is logged.

Errors are recognised by their names, so that this module need not import the AWS SDK.
"""

from __future__ import annotations

import os
import re
import traceback
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(StrEnum):
    """What an error means for this call and for the next ones."""

    # The service does not answer, or it has failed.
    OUTAGE = "outage"
    # Another transaction, or a writer in another Region, uses the same items.
    CONFLICT = "conflict"
    # Our own first request of the same transaction is still being processed.
    IN_PROGRESS = "in-progress"
    # One key, one table or one account has reached its limit. The service is healthy.
    THROTTLED = "throttled"
    # No permission, no such table, no credentials: only a change of the deployment helps.
    CONFIGURATION = "configuration"
    # The request is invalid or cannot be built: a mistake in code.
    MISTAKE = "mistake"


_OUTAGE = {
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
}
_CONFLICT = {
    "ConditionalRequestConflict",
    "OperationAborted",
    "ReplicatedWriteConflictException",
    "TransactionConflict",
    "TransactionConflictException",
}
_IN_PROGRESS = {"TransactionInProgressException"}
_THROTTLED = {
    "BandwidthLimitExceeded",
    # The items under one key of a local index are full. It affects this key only.
    "ItemCollectionSizeLimitExceededException",
    "KmsThrottled",
    "LimitExceededException",
    "OverLimit",
    "PriorRequestNotComplete",
    # As the reason of a cancelled transaction: ProvisionedThroughputExceeded, ThrottlingError.
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingError",
    "ThrottlingException",
    "TooManyRequestsException",
}
# The service never accepts such a request.
_MISTAKE = {
    "BatchEntryIdsNotDistinct",
    "BatchRequestTooLong",
    "ConditionalCheckFailedException",
    "EmptyBatchRequest",
    "IdempotentParameterMismatchException",
    "InvalidAddress",
    "InvalidAttributeName",
    "InvalidAttributeValue",
    "InvalidBatchEntryId",
    "InvalidIdFormat",
    "InvalidMessageContents",
    "InvalidRequest",
    "MessageNotInflight",
    "ReceiptHandleIsInvalid",
    "SerializationException",
    "TooManyEntriesInBatchRequest",
    "TransactionCanceledException",
    "UnsupportedOperation",
    "ValidationException",
}
_KIND_OF_CODE = {
    **dict.fromkeys(_OUTAGE, Kind.OUTAGE),
    **dict.fromkeys(_CONFLICT, Kind.CONFLICT),
    **dict.fromkeys(_IN_PROGRESS, Kind.IN_PROGRESS),
    **dict.fromkeys(_THROTTLED, Kind.THROTTLED),
    **dict.fromkeys(_MISTAKE, Kind.MISTAKE),
}
_CONTENTION = {Kind.CONFLICT, Kind.IN_PROGRESS, Kind.THROTTLED}

# The kind of an exception that was raised in place of an answer, by the name of its class or of its
# nearest base class: those of botocore, urllib3 and the standard library.
_KIND_OF_EXCEPTION = {
    "ConnectionError": Kind.OUTAGE,
    "CredentialRetrievalError": Kind.OUTAGE,
    "HTTPClientError": Kind.OUTAGE,
    "HTTPError": Kind.OUTAGE,
    "HTTPException": Kind.OUTAGE,
    "IncompleteReadError": Kind.OUTAGE,
    "MetadataRetrievalError": Kind.OUTAGE,
    "ResponseParserError": Kind.OUTAGE,
    "NoCredentialsError": Kind.CONFIGURATION,
    "ParamValidationError": Kind.MISTAKE,
    # All other errors of botocore, such as missing credentials or a missing Region.
    "BotoCoreError": Kind.CONFIGURATION,
    "FileNotFoundError": Kind.CONFIGURATION,
    "PermissionError": Kind.CONFIGURATION,
    "OSError": Kind.OUTAGE,
    # Raised by code, not by DynamoDB. A retry would raise it again.
    "ArithmeticError": Kind.MISTAKE,
    "AssertionError": Kind.MISTAKE,
    "AttributeError": Kind.MISTAKE,
    "BufferError": Kind.MISTAKE,
    "ImportError": Kind.MISTAKE,
    "LookupError": Kind.MISTAKE,
    "MemoryError": Kind.MISTAKE,
    "NameError": Kind.MISTAKE,
    "RuntimeError": Kind.MISTAKE,
    "SyntaxError": Kind.MISTAKE,
    "TypeError": Kind.MISTAKE,
    "ValueError": Kind.MISTAKE,
}
# botocore wraps every exception that is raised while it sends.
_WRAPPER = "HTTPClientError"
# botocore's exceptions of an attempt that has sent nothing. Those of the direct transport say it.
_UNSENT = frozenset({"ConnectTimeoutError", "EndpointConnectionError"})
# The parts of a message that may be logged. The rest is left out, because it may quote a value.
_OF_THE_DEPLOYMENT = re.compile(
    r"The provided key element does not match the schema"
    r"|The number of conditions on the keys is invalid"
    r"|Query condition missed key schema element: [\w.-]{1,255}"
    r"|Missing the key [\w.-]{1,255} in the item"
    r"|Type mismatch for [Kk]ey [\w.-]{1,255} expected: \w{1,2} actual: \w{1,4}"
    r"|The table does not have the specified index: [\w.-]{1,255}"
    r"|Requested resource not found(: Table: [\w.:/-]{1,255} not found)?"
    r"|Cannot do operations on a non-existent table"
    r"|not authorized to perform: [\w:*]{1,100} on resource: [\w.:/*-]{1,500}"
    r"|The security token included in the request is (invalid|expired)"
)
# What botocore's exceptions mean, in place of the words of a service.
_SAID_OF = {
    "NoRegionError": "no Region is known: set AWS_REGION, or pass a client of one",
    "NoCredentialsError": "no credentials were found: in Lambda, the function's role gives them",
    "PartialCredentialsError": "no credentials were found: the key or its secret is missing",
}
_REASON_NAME = re.compile(r"[A-Za-z]{1,100}")


def kind_of_code(code: str, status: int = 0) -> Kind:
    """The kind of a service's error code, or of the reason of a cancelled transaction.

    The HTTP status decides about an unknown code.
    """
    # SQS's older protocol has a prefix.
    known = _KIND_OF_CODE.get(code.rpartition(".")[2])
    if known is not None:
        return known
    if status == 429:
        return Kind.THROTTLED
    return Kind.OUTAGE if status >= 500 else Kind.CONFIGURATION


def kind_of_exception(error: BaseException) -> Kind:
    """The kind of an exception that was raised in place of an answer.

    An unknown exception counts as an outage: the user's own client may have raised it.
    """
    if type(error).__name__ == _WRAPPER:
        inner = getattr(error, "kwargs", {}).get("error")
        if isinstance(inner, Exception) and kind_of_exception(inner) is Kind.MISTAKE:
            return Kind.MISTAKE
    names = (each.__name__ for each in type(error).__mro__)
    known = (_KIND_OF_EXCEPTION[name] for name in names if name in _KIND_OF_EXCEPTION)
    return next(known, Kind.OUTAGE)


def kind_of(error: BaseException) -> Kind:
    """The kind of a failure of an AWS client."""
    response = _response(error)
    if response is None:
        return kind_of_exception(error)
    return kind_of_code(
        _code(response), response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    )


def is_passing(error: BaseException) -> bool:
    """Whether an exception comes from an AWS client, and waiting may help."""
    is_of_aws = type(error).__module__.startswith("botocore.") or _response(error) is not None
    return is_of_aws and kind_of(error) not in {Kind.CONFIGURATION, Kind.MISTAKE}


def store_error(error: Exception, client: Any = None) -> StoreError:
    """A failure of `client` as a `StoreError`, whose message names its kind and never a value.

    A client of boto3's that retries by itself raises the error of its last attempt. If that one has
    sent nothing, an earlier one may have. A client that is not given may have retried.
    """
    kind, response = kind_of(error), _response(error)
    if response is None:
        name = type(error).__name__
    else:
        name = " ".join([_code(response), *_throttling_reasons(response)])
    is_mistake = kind is Kind.MISTAKE and response is None
    if is_mistake:
        name = f"{name}{_where(error)}: a mistake in the call, and no outage"
    failure = StoreError(
        name,
        transient=kind is Kind.OUTAGE or kind in _CONTENTION,
        contention=kind.value if kind in _CONTENTION else None,
        is_mistake=is_mistake,
    )
    failure.said = said_of_the_deployment(response or {}) or _SAID_OF.get(type(error).__name__, "")
    failure.is_unsent = getattr(error, "unsent", False) is True or (
        is_of_unsent(error) and _makes_one_attempt(client)
    )
    failure.is_after_retry = is_after_retry(error)
    return failure


def is_of_unsent(error: Exception | None) -> bool:
    """Whether botocore raises this after an attempt that has sent nothing."""
    return type(error).__name__ in _UNSENT


def is_after_retry(error: Exception) -> bool:
    """Whether botocore had sent the request before. Only an answer says it."""
    metadata = (_response(error) or {}).get("ResponseMetadata", {})
    return bool(metadata.get("RetryAttempts", 0))


def _makes_one_attempt(client: Any) -> bool:
    config = getattr(getattr(client, "meta", None), "config", None)
    # botocore translates `max_attempts` and AWS_MAX_ATTEMPTS to this.
    return (getattr(config, "retries", None) or {}).get("total_max_attempts") == 1


def said_of_the_deployment(response: dict[str, Any]) -> str:
    """The service's own words about its table, index or permissions, which contain no values."""
    message = str(response.get("Error", {}).get("Message", ""))
    found = _OF_THE_DEPLOYMENT.search(message)
    return found[0] if found else ""


def is_refusal(error: Exception) -> bool:
    """Whether DynamoDB answered that the condition of a write does not hold."""
    return _code(_response(error) or {}) == "ConditionalCheckFailedException"


def contention_of(code: str) -> str | None:
    """The kind of contention of an error code, or None."""
    kind = kind_of_code(code)
    return kind.value if kind in _CONTENTION else None


def _response(error: BaseException) -> dict[str, Any] | None:
    # The `response` of botocore's connection errors is None.
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else None


def _code(response: dict[str, Any]) -> str:
    return str(response.get("Error", {}).get("Code", "unknown"))


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    name = frames[-1].filename.rpartition(os.sep)[2]
    return f" at {name}:{frames[-1].lineno}"


def _throttling_reasons(response: dict[str, Any]) -> Iterator[str]:
    """DynamoDB's names for the limits that were reached: of a key range, a table or the account.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    """
    # ThrottlingException spells the field differently from the other errors.
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons") or []
    names = {str(each.get("reason")) for each in reasons}
    return (f"({name})" for name in sorted(names) if _REASON_NAME.fullmatch(name))
