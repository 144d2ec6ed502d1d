"""What a failure of DynamoDB or of the way to it means: asked again, or not."""

from __future__ import annotations

import json
from http.client import BadStatusLine
from typing import Any

import botocore.session
import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError

from oncekey.store.aws_errors import Kind, is_passing, kind_of, kind_of_code, store_error
from oncekey.store.sqs import Entry, Rejected
from tests.support.strict_sqs import StrictSqs

ADDRESS = "https://somewhere.example"

# AWS's list of the errors that may be sent again, and what else passes by itself.
WILL_PASS = [
    "InternalServerError",
    "ItemCollectionSizeLimitExceededException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
]
WILL_NOT = [
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "MissingAuthenticationTokenException",
    "ResourceNotFoundException",
    "UnrecognizedClientException",
    "ValidationException",
]
NO_ANSWER = [
    exceptions.EndpointConnectionError(endpoint_url=ADDRESS),
    exceptions.ConnectTimeoutError(endpoint_url=ADDRESS),
    exceptions.ReadTimeoutError(endpoint_url=ADDRESS),
    exceptions.ConnectionClosedError(endpoint_url=ADDRESS),
    exceptions.SSLError(endpoint_url=ADDRESS, error=OSError("broken off")),
    exceptions.HTTPClientError(error=BadStatusLine("nothing")),
    exceptions.ResponseStreamingError(error=OSError("broken off")),
    exceptions.MetadataRetrievalError(error_msg="no credentials for now"),
    ResponseParserError("a page of a proxy's"),
    ConnectionResetError("reset"),
    TimeoutError(),
]
NOT_SET_UP = [
    exceptions.NoCredentialsError(),
    exceptions.NoRegionError(),
    exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
]


# Of every error that the services' models know, those that are not a matter of configuration.
OUTAGES = {"InternalServerError"}
CONFLICTS = {"ReplicatedWriteConflictException", "TransactionConflictException"}
OUR_OWN = {"TransactionInProgressException"}
THROTTLES = {
    "ItemCollectionSizeLimitExceededException",
    "KmsThrottled",
    "LimitExceededException",
    "OverLimit",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "ThrottlingException",
}
MISTAKES = {
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
    "TooManyEntriesInBatchRequest",
    "TransactionCanceledException",
    "UnsupportedOperation",
}
# What no model lists: the reasons of cancelled transactions, and what every service may answer.
UNLISTED = {
    "TransactionConflict": Kind.CONFLICT,
    "ThrottlingError": Kind.THROTTLED,
    "ProvisionedThroughputExceeded": Kind.THROTTLED,
    "SlowDown": Kind.THROTTLED,
    "TooManyRequestsException": Kind.THROTTLED,
    "BandwidthLimitExceeded": Kind.THROTTLED,
    "PriorRequestNotComplete": Kind.THROTTLED,
    "RequestThrottledException": Kind.THROTTLED,
    "ThrottledException": Kind.THROTTLED,
    "Throttling": Kind.THROTTLED,
    "InternalError": Kind.OUTAGE,
    "InternalFailure": Kind.OUTAGE,
    "ServiceUnavailable": Kind.OUTAGE,
    "ServiceUnavailableException": Kind.OUTAGE,
    "RequestTimeout": Kind.OUTAGE,
    "RequestTimeoutException": Kind.OUTAGE,
    "ConditionalRequestConflict": Kind.CONFLICT,
    "OperationAborted": Kind.CONFLICT,
    "AccessDenied": Kind.CONFIGURATION,
    "ExpiredToken": Kind.CONFIGURATION,
    "ExpiredTokenException": Kind.CONFIGURATION,
    "InvalidSignatureException": Kind.CONFIGURATION,
    "AWS.SimpleQueueService.NonExistentQueue": Kind.CONFIGURATION,
    "AWS.SimpleQueueService.RequestThrottled": Kind.THROTTLED,
    "ValidationException": Kind.MISTAKE,
    "SerializationException": Kind.MISTAKE,
}


def codes_of_models() -> list[str]:
    """Every error code that botocore's models of the services know."""
    session = botocore.session.get_session()
    services: list[Any] = [session.get_service_model(name) for name in ("dynamodb", "sqs", "s3")]
    return sorted({shape.error_code for model in services for shape in model.error_shapes})


def refusal(code: str, status: int = 400, message: str = "") -> exceptions.ClientError:
    """An answer of DynamoDB that is an error."""
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return exceptions.ClientError(response, "PutItem")


@pytest.mark.fault("K4.1")
@pytest.mark.fault("K4.2")
@pytest.mark.parametrize("code", codes_of_models())
def test_one_table_says_of_every_error_of_aws_which_it_is(code: str) -> None:
    """Each error code of DynamoDB, SQS and S3 is an outage, contention of one key, a matter of
    configuration, or a mistake in the request; only an outage counts for others.

    Red when a code changes its kind, or a new one of a service is taken for an outage.
    """
    expected = next(
        (
            kind
            for codes, kind in [
                (OUTAGES, Kind.OUTAGE),
                (CONFLICTS, Kind.CONFLICT),
                (OUR_OWN, Kind.IN_PROGRESS),
                (THROTTLES, Kind.THROTTLED),
                (MISTAKES, Kind.MISTAKE),
            ]
            if code in codes
        ),
        Kind.CONFIGURATION,
    )

    failure = store_error(refusal(code))

    assert kind_of_code(code) is expected
    assert failure.is_outage is (expected is Kind.OUTAGE)
    assert failure.transient is (expected not in {Kind.CONFIGURATION, Kind.MISTAKE})


@pytest.mark.parametrize(("code", "kind"), UNLISTED.items())
def test_codes_that_no_model_lists_are_in_the_table_too(code: str, kind: Kind) -> None:
    """Reasons of cancelled transactions, and errors that any service may answer, have their kind.

    Red when one of them is left to its HTTP status.
    """
    assert kind_of_code(code) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("/etc/ssl"), Kind.CONFIGURATION),
        (PermissionError("/etc/ssl"), Kind.CONFIGURATION),
        (OSError("broken pipe"), Kind.OUTAGE),
        (BufferError("in use"), Kind.MISTAKE),
        (MemoryError(), Kind.MISTAKE),
        (KeyError("pk"), Kind.MISTAKE),
        (StopIteration(), Kind.OUTAGE),
    ],
    ids=repr,
)
def test_an_exception_in_place_of_an_answer_has_a_kind(error: Exception, kind: Kind) -> None:
    """Files that cannot be read are the deployment's fault, and what code raises is a mistake; what
    nobody knows may pass.
    """
    assert kind_of(error) is kind


def test_a_mistake_says_where_it_was_raised() -> None:
    """The log names the innermost line, by its file and number."""

    def deep() -> None:
        raise ValueError("4242secret")

    with pytest.raises(ValueError, match="4242secret") as raised:
        deep()

    line = deep.__code__.co_firstlineno + 1
    reason = store_error(raised.value).reason
    assert reason.startswith(f"ValueError at test_aws_errors.py:{line}: a mistake in the call")
    with pytest.raises(ValueError, match="Expecting") as below:
        json.loads("{")
    assert store_error(below.value).reason.startswith("JSONDecodeError at decoder.py:")


def test_a_failure_without_credentials_says_what_gives_them() -> None:
    """In the words of this layer, for the log and the operator."""
    failure = store_error(exceptions.NoCredentialsError())

    assert failure.said == "no credentials were found: in Lambda, the function's role gives them"
    assert not failure.needs_deployment


class Answered(Exception):
    """An exception of another client, with an answer of AWS."""

    response = refusal("ThrottlingException").response


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        *((refusal(code), True) for code in WILL_PASS),
        *((refusal(code), False) for code in WILL_NOT),
        (NO_ANSWER[0], True),
        (Answered("slower"), True),
        (exceptions.ParamValidationError(report="a wrong type"), False),
        (exceptions.NoRegionError(), False),
        (ConnectionResetError("reset"), False),
        (ValueError("the author's own"), False),
    ],
    ids=lambda each: str(each)[:60],
)
def test_only_a_failure_of_aws_that_passes_is_worth_waiting_for(
    error: Exception, passes: bool
) -> None:
    """An error of the author's own code, and one that AWS will repeat, are none of these."""
    assert is_passing(error) is passes


@pytest.mark.parametrize("status", [400, 429, 503])
def test_a_throttled_request_is_no_outage_whatever_its_status(status: int) -> None:
    """S3 says SlowDown with a 503, and a code that nobody knows may come with a 429.

    Red when the status is judged before the code, or 429 is not looked at.
    """
    known = store_error(refusal("SlowDown", status))
    unknown = store_error(refusal("SomethingNew", 429))

    for failure in (known, unknown):
        assert (failure.contention, failure.is_outage) == ("throttled", False)


@pytest.mark.fault("K4.1")
@pytest.mark.parametrize("member", ["throttlingReasons", "ThrottlingReasons"])
def test_a_throttled_request_names_the_limit_that_it_met(member: str) -> None:
    """The reason that DynamoDB gives (a range of keys, a table, the account) is in the log, and the
    table's ARN is not; it changes nothing of what is done.

    Red when the reasons are dropped, or decide about contention.
    """
    error = refusal("ThrottlingException")
    error.response[member] = [  # type: ignore[literal-required]  # as the service answers it
        {"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn:aws:dynamodb:::t"}
    ]

    failure = store_error(error)

    assert failure.reason == "ThrottlingException (TableWriteKeyRangeThroughputExceeded)"
    assert failure.contention == "throttled"


MISTAKEN = [
    TypeError("sequence item 0: expected str instance, bytes found"),
    ValueError("whatever"),
    KeyError("#n"),
    AttributeError("items"),
    RecursionError(),
    exceptions.ParamValidationError(report="a value of the caller's"),
    exceptions.HTTPClientError(error=TypeError("a header that is no text")),
]


@pytest.mark.fault("K4.2")
@pytest.mark.parametrize("error", MISTAKEN, ids=lambda error: type(error).__name__)
def test_what_code_raises_in_place_of_an_answer_is_no_outage(error: Exception) -> None:
    """A mistake in a call is not sent again and counts for nobody; the reason names its kind, and
    says that it is none of the store's.

    Red when every failure without an answer counts as a broken connection.
    """
    failure = store_error(error)

    assert (failure.transient, failure.is_outage, failure.kind) == (False, False, "mistake")
    assert failure.reason.startswith(type(error).__name__)
    assert "no outage" in failure.reason
    for value in ("bytes found", "whatever", "#n", "a value of the caller's", "a header"):
        assert value not in str(failure)


@pytest.mark.parametrize(
    "code",
    [
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InternalError",
        "InvalidAccessKeyId",
        "InvalidAddress",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "KMS.DisabledException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NotAuthorized",
        "OptInRequired",
        "OverLimit",
        "QueueDeletedRecently",
        "QueueDoesNotExist",
        "RequestExpired",
        "RequestThrottled",
        "SignatureDoesNotMatch",
        "Throttling",
        "ThrottlingException",
        "UnrecognizedClientException",
    ],
)
def test_what_is_wrong_with_a_queue_or_its_caller_is_no_messages_fault(code: str) -> None:
    """Every message would get such an error, so it says of none that the queue never takes it.

    Red when a role without permissions sets messages aside.
    """
    sqs = StrictSqs(refuses_whole=False)
    sqs.refuses = lambda _body: code

    assert sqs.queue.send([Entry(id="m", body='{"id":"m"}')]) == [Rejected("m", code, False)]


@pytest.mark.parametrize("code", WILL_PASS)
def test_what_passes_by_itself_is_asked_again(code: str) -> None:
    """Throttling, conflicts and failures of the service are transient whatever their status.

    Red when a code is taken off the table.
    """
    failure = store_error(refusal(code))

    assert failure.transient
    assert failure.reason == code


@pytest.mark.parametrize("code", WILL_NOT)
def test_what_a_deployment_must_change_is_not_asked_again(code: str) -> None:
    """No permission, no table, a request that is wrong: waiting helps none of them.

    Red when every failure counts as transient.
    """
    failure = store_error(refusal(code))

    assert not failure.transient
    assert failure.reason == code


@pytest.mark.parametrize(
    ("status", "transient"), [(500, True), (503, True), (599, True), (499, False), (400, False)]
)
def test_a_code_that_nobody_knows_is_judged_by_its_status(status: int, transient: bool) -> None:
    """An error of the service itself, from 500 on, is transient under any name.

    Red when the status is not looked at.
    """
    assert store_error(refusal("SomethingNew", status)).transient is transient


@pytest.mark.parametrize("error", NO_ANSWER, ids=lambda error: type(error).__name__)
def test_an_answer_that_did_not_come_is_asked_for_again(error: Exception) -> None:
    """A connection that is refused, reset or silent may be there the next time.

    Red when only answers of DynamoDB can be transient.
    """
    failure = store_error(error)

    assert failure.transient
    assert failure.reason == type(error).__name__


@pytest.mark.parametrize("error", NOT_SET_UP, ids=lambda error: type(error).__name__)
def test_credentials_and_a_region_do_not_come_by_waiting(error: Exception) -> None:
    """A client that is not set up fails at once, and says what it lacks.

    Red when one of them counts as a broken connection.
    """
    failure = store_error(error)

    assert not failure.transient
    assert failure.reason == type(error).__name__


def test_a_failure_names_its_kind_and_repeats_nothing() -> None:
    """What DynamoDB or the connection says stays out: it may quote a key or an address.

    Red when the text of the error becomes the reason.
    """
    said = [
        store_error(refusal("ValidationException", message="bad value: a-key-of-a-client")),
        store_error(exceptions.EndpointConnectionError(endpoint_url=ADDRESS)),
    ]

    assert [str(failure) for failure in said] == ["ValidationException", "EndpointConnectionError"]


@pytest.mark.parametrize("response", [{}, {"Error": {}}, {"Error": {"Code": None}}], ids=repr)
def test_an_error_without_a_code_is_not_asked_again(response: dict[str, Any]) -> None:
    """An answer of no known form is a failure all the same, and not a transient one."""
    error = refusal("any")
    error.response = response  # type: ignore[assignment]  # the point of this test

    assert not store_error(error).transient
