"""Which error of AWS is which: one table for DynamoDB, SQS and S3, one for calls without answer.

An error is an outage, contention, or final. An outage says something about the next call, whoever
makes it: it is asked again, and counts for the circuit breaker. Contention says something about one
key, one tenant or one table: it is asked again, and counts for nobody else. What is final stays as
it is until somebody changes the deployment or the code, so it is not asked again, and the log names
it.

Errors are known by their names, so that nothing of the AWS SDK is imported here.
"""

from __future__ import annotations

import re
import traceback
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(StrEnum):
    """What an error means for the call that met it, and for the next ones."""

    # Nobody answers, or the service itself has failed.
    OUTAGE = "outage"
    # A transaction, or a writer in another Region, is at the same items.
    CONFLICT = "conflict"
    # Our own first sending of the same transaction is still at work.
    IN_PROGRESS = "in-progress"
    # One key, one table or one account has more to do than it takes. The service is well.
    THROTTLED = "throttled"
    # No permission, no such table, no credentials: only a change of the deployment helps.
    CONFIGURATION = "configuration"
    # The request itself is wrong, or cannot be made: a mistake in code.
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
    # The items under one key of a local index are full: that key's trouble, and nobody else's.
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
# The request is not one that the service takes, whoever sends it and whenever.
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

# What an exception is that came in place of an answer, by the name of its class or of one that it
# is derived from, the nearest first: botocore's, urllib3's and the standard library's.
_KIND_OF_EXCEPTION = {
    "ConnectionError": Kind.OUTAGE,
    "CredentialRetrievalError": Kind.OUTAGE,
    "HTTPClientError": Kind.OUTAGE,
    "HTTPError": Kind.OUTAGE,
    "HTTPException": Kind.OUTAGE,
    "IncompleteReadError": Kind.OUTAGE,
    "MetadataRetrievalError": Kind.OUTAGE,
    "ResponseParserError": Kind.OUTAGE,
    "ParamValidationError": Kind.MISTAKE,
    # All else of botocore's own, such as missing credentials or a missing Region.
    "BotoCoreError": Kind.CONFIGURATION,
    "FileNotFoundError": Kind.CONFIGURATION,
    "PermissionError": Kind.CONFIGURATION,
    "OSError": Kind.OUTAGE,
    # Raised by code, whatever DynamoDB does: sent again, it is raised again.
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
# botocore wraps whatever is raised while it sends.
_WRAPPER = "HTTPClientError"
# What a message may say in a log. The rest of a message is left out: it may quote a value.
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
_REASON_NAME = re.compile(r"[A-Za-z]{1,100}")


def kind_of_code(code: str, status: int = 0) -> Kind:
    """What an error code of a service, or the reason of a cancelled transaction, means.

    One that nobody knows is judged by its HTTP status.
    """
    # SQS's older protocol has a prefix.
    known = _KIND_OF_CODE.get(code.rpartition(".")[2])
    if known is not None:
        return known
    if status == 429:
        return Kind.THROTTLED
    return Kind.OUTAGE if status >= 500 else Kind.CONFIGURATION


def kind_of_exception(error: BaseException) -> Kind:
    """What an exception means that came in place of an answer.

    One that nobody knows is taken for a lost answer: a client of the user's own may have it.
    """
    if type(error).__name__ == _WRAPPER:
        inner = getattr(error, "kwargs", {}).get("error")
        if isinstance(inner, Exception) and kind_of_exception(inner) is Kind.MISTAKE:
            return Kind.MISTAKE
    names = (each.__name__ for each in type(error).__mro__)
    known = (_KIND_OF_EXCEPTION[name] for name in names if name in _KIND_OF_EXCEPTION)
    return next(known, Kind.OUTAGE)


def kind_of(error: BaseException) -> Kind:
    """What a failure of a client of AWS means."""
    response = _response(error)
    if response is None:
        return kind_of_exception(error)
    return kind_of_code(
        _code(response), response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    )


def is_passing(error: BaseException) -> bool:
    """Whether an exception comes from a client of AWS, and waiting may help."""
    is_of_aws = type(error).__module__.startswith("botocore.") or _response(error) is not None
    return is_of_aws and kind_of(error) not in {Kind.CONFIGURATION, Kind.MISTAKE}


def store_error(error: Exception) -> StoreError:
    """What a failure of a client means. The message names the kind of failure, never a value."""
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
    failure.said = said_of_the_deployment(response or {})
    return failure


def said_of_the_deployment(response: dict[str, Any]) -> str:
    """What a service says of its table, index or permissions: sentences that can hold no value."""
    message = str(response.get("Error", {}).get("Message", ""))
    found = _OF_THE_DEPLOYMENT.search(message)
    return found[0] if found else ""


def is_refusal(error: Exception) -> bool:
    """Whether DynamoDB has answered that the condition of a write does not hold."""
    return _code(_response(error) or {}) == "ConditionalCheckFailedException"


def contention_of(code: str) -> str | None:
    """What kind of contention an error, or the reason of a cancelled transaction, speaks of."""
    kind = kind_of_code(code)
    return kind.value if kind in _CONTENTION else None


def _response(error: BaseException) -> dict[str, Any] | None:
    # botocore's connection errors have a response too: None.
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else None


def _code(response: dict[str, Any]) -> str:
    return str(response.get("Error", {}).get("Code", "unknown"))


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _throttling_reasons(response: dict[str, Any]) -> Iterator[str]:
    """Which limit was met, as DynamoDB names it: of a range of keys, a table or the account.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    """
    # ThrottlingException spells it otherwise than the other two.
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons") or []
    names = {str(each.get("reason")) for each in reasons}
    return (f"({name})" for name in sorted(names) if _REASON_NAME.fullmatch(name))
