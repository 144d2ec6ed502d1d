"""What a failure of DynamoDB or of the way to it means: asked again, or not."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions

from oncekey.dynamodb_client import store_error

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
    ConnectionResetError("reset"),
]
NOT_SET_UP = [
    exceptions.NoCredentialsError(),
    exceptions.NoRegionError(),
    exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
]


def refusal(code: str, status: int = 400, message: str = "") -> exceptions.ClientError:
    """An answer of DynamoDB that is an error."""
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return exceptions.ClientError(response, "PutItem")


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
