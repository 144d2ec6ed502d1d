"""The direct client does what boto3's does: the same requests, answers and errors."""

from __future__ import annotations

import email.utils
import json
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from botocore import exceptions
from botocore.parsers import create_parser
from botocore.session import get_session

from oncekey.store.aws_errors import store_error
from oncekey.store.direct.errors import ClientError
from oncekey.store.dynamodb.client import own_client
from oncekey.testing.memory import ManualClock
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.peers import OK, in_turn, peer, says
from tests.support.store_calls import PUT, UPDATE
from tests.support.wire import ENVIRONMENT, answer, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.direct.client import DirectClient

ITEM: dict[str, Any] = {
    "pk": {"S": "v1#ünïcode \U0001f511"},
    "B": {"B": b"\x00\xff"},
    "BS": {"BS": [b"a", b"\x80"]},
    "map": {"M": {"B": {"S": "B"}, "deep": {"L": [{"B": b"x"}, {"NULL": True}, {"BOOL": False}]}}},
    "n": {"N": "12.5"},
    "ns": {"NS": ["1", "2"]},
    "text": {"S": '{"B": "not binary"}'},
}
KEY: dict[str, Any] = {"TableName": TABLE, "Key": {"pk": ITEM["pk"]}}
CALLS: dict[str, Callable[[Any], Any]] = {
    "put": lambda client: client.put_item(TableName=TABLE, Item=ITEM),
    "get": lambda client: client.get_item(**KEY, ConsistentRead=True),
    "get nothing": lambda client: client.get_item(TableName=TABLE, Key={"pk": {"S": "none"}}),
    "update": lambda client: client.update_item(
        **KEY,
        UpdateExpression="SET #n = :n",
        ExpressionAttributeNames={"#n": "n"},
        ExpressionAttributeValues={":n": {"B": b"\xfe"}},
        ReturnValues="ALL_NEW",
    ),
    "query": lambda client: client.query(
        TableName=TABLE,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": ITEM["pk"]},
    ),
    "scan": lambda client: client.scan(TableName=TABLE, Limit=1),
    "batch": lambda client: client.batch_write_item(
        RequestItems={TABLE: [{"PutRequest": {"Item": ITEM}}]}
    ),
    "transaction": lambda client: client.transact_write_items(
        TransactItems=[{"Put": {"TableName": TABLE, "Item": ITEM}}]
    ),
    "condition": lambda client: client.put_item(
        TableName=TABLE,
        Item=ITEM,
        ConditionExpression="attribute_not_exists(pk)",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    ),
    "cancelled": lambda client: client.transact_write_items(
        TransactItems=[
            {
                "Put": {
                    "TableName": TABLE,
                    "Item": ITEM,
                    "ConditionExpression": "attribute_not_exists(pk)",
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                }
            }
        ]
    ),
    "no table": lambda client: client.get_item(TableName="none", Key={"pk": {"S": "a"}}),
    "mistake": lambda client: client.update_item(**KEY, UpdateExpression="SET"),
}


def came_of(call: Callable[[Any], Any], client: Any) -> Any:
    """The answer or the error, without what differs from request to request."""
    try:
        came = call(client)
    except exceptions.ClientError as error:
        came = error.response | {"operation": error.operation_name}
    status = came.pop("ResponseMetadata")["HTTPStatusCode"]
    # It stands in `Error`, and for some errors here as well.
    came.pop("message", None)
    return status, came


@pytest.mark.parametrize("name", CALLS)
def test_every_operation_answers_as_with_boto3(name: str) -> None:
    """Answers and errors have the same form, binary values are bytes, and an error is caught as
    botocore's.

    Red when a value is stored or read in another form.
    """
    with dynamodb_table() as client, wire() as way:
        direct = way.client()
        client.put_item(TableName=TABLE, Item=ITEM)

        by_boto3 = came_of(CALLS[name], client)
        client.put_item(TableName=TABLE, Item=ITEM)
        assert came_of(CALLS[name], direct) == by_boto3
        assert client.get_item(**KEY)["Item"]["B"]["B"] == b"\x00\xff"
        direct.close()


ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "ConditionalCheckFailedException": (
        400,
        {
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message": "m",
            "Item": {"a": {"B": "AP8="}},
        },
    ),
    "TransactionCanceledException": (
        400,
        {
            "__type": "a#TransactionCanceledException",
            "Message": "m",
            "CancellationReasons": [
                {"Code": "None"},
                {"Code": "ConditionalCheckFailed", "Message": "m", "Item": {"a": {"B": "AP8="}}},
            ],
        },
    ),
    "ThrottlingException": (
        400,
        {
            "__type": "a#ThrottlingException",
            "message": "m",
            "throttlingReasons": [{"reason": "r", "resource": "s"}],
        },
    ),
    "UnrecognizedClientException": (
        400,
        {"__type": "com.amazon.coral.service#UnrecognizedClientException", "message": "m"},
    ),
    "ValidationException": (
        400,
        {"__type": "ValidationException:http://internal", "Message": "m"},
    ),
    "InternalServerError": (500, {"__type": "a#InternalServerError", "message": "m"}),
    "400": (400, {}),
    "413": (413, {}),
}


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_is_read_as_by_botocore(code: str) -> None:
    """Code, message, items and reasons are those that botocore's parser finds.

    Red when a prefix or a suffix of the code is left on, or a fact of the error is lost.
    """
    status, facts = ERRORS[code]
    body = json.dumps(facts).encode()
    model = get_session().get_service_model("dynamodb")
    parser: Any = create_parser("json")
    given: Any = {"status_code": status, "headers": {"x-amzn-requestid": "Ab1"}, "body": body}
    shape = next((each for each in model.error_shapes if each.name == code), None)
    # As botocore's endpoint does, which adds the facts of a modelled error in a second step.
    more = parser.parse(given, shape) if shape is not None else {}
    expected = {**more, **parser.parse(given, None)}
    with (
        peer(says(answer(body, status, {"x-amzn-RequestId": "Ab1"}))) as made,
        pytest.raises(exceptions.ClientError) as raised,
    ):
        made.client().get_item(TableName="t", Key={})

    found: Any = raised.value.response
    assert found["Error"] == expected["Error"]
    assert found["Error"]["Code"] == code
    assert found["ResponseMetadata"] == {"HTTPStatusCode": status, "RequestId": "Ab1"}
    for name in ("Item", "CancellationReasons", "throttlingReasons"):
        assert found.get(name) == expected.get(name)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (503, b"<html>Service Unavailable</html>", "outage"),
        (502, b"", "outage"),
        (429, b"slow down", "contention"),
        (403, b"<html>blocked</html>", "configuration"),
    ],
)
def test_a_page_of_a_gateway_is_judged_by_its_status(status: int, body: bytes, kind: str) -> None:
    """What is no error of DynamoDB's has its status as its code.

    Red when it counts as a damaged answer, or its text is taken for a code.
    """
    with (
        peer(says(answer(body, status, crc=False))) as made,
        pytest.raises(exceptions.ClientError) as raised,
    ):
        made.client().get_item(TableName="t", Key={})

    failure = store_error(raised.value)
    assert (failure.reason, failure.kind) == (str(status), kind)


PARAMETERS: dict[str, dict[str, Any]] = {
    "a reserve": PUT,
    "a completion": UPDATE,
    "binary": {"TableName": TABLE, "Item": {"a": {"B": b"\x00"}, "b": {"B": bytearray(b"\x01")}}},
    "a text of every kind": {"TableName": TABLE, "Item": {"a": {"S": "ä\U0001f511\x00\"\\\u2028"}}},
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_request_says_what_boto3s_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body is the same JSON, for the same operation and of the same content type.

    Red when a value is written in another form.
    """
    with peer(says(OK)) as made:
        for variable, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": made.url}).items():
            monkeypatch.setenv(variable, value)
        by_boto3, direct = own_client(20_000), made.client()
        operation = "update_item" if "UpdateExpression" in PARAMETERS[name] else "put_item"
        for client in (by_boto3, direct):
            getattr(client, operation)(**PARAMETERS[name])
        by_boto3.close()

    (first, first_body), (second, second_body) = made.requests
    assert json.loads(first_body) == json.loads(second_body)
    for header in ("x-amz-target", "content-type", "host"):
        assert first[header] == second[header]


@pytest.mark.parametrize(
    "value", [Decimal(1), {1}, object()], ids=lambda value: type(value).__name__
)
def test_a_value_without_a_form_is_a_mistake_and_sends_nothing(value: object) -> None:
    """A value that JSON has no form for is a mistake in the call, which names its type alone.

    Red when it counts as an outage, or a connection is made for it.
    """
    with peer(says(OK)) as made, pytest.raises(TypeError) as raised:
        made.client().put_item(TableName="t", Item={"a": value})

    failure = store_error(raised.value)
    assert (failure.is_mistake, failure.transient, made.accepted) == (True, False, 0)


def refused(code: str, date_s: int) -> bytes:
    """A refusal of the signature, sent at that time."""
    body = json.dumps({"__type": f"com.amazon.coral.service#{code}", "message": "m"}).encode()
    return answer(body, 400, {"Date": email.utils.formatdate(date_s, usegmt=True)})


def stamps(requests: list[tuple[dict[str, str], bytes]]) -> list[str]:
    """The times of the signatures."""
    return [headers["x-amz-date"] for headers, _ in requests]


def test_a_wrong_clock_is_corrected_once_by_the_servers() -> None:
    """A signature refused for its time, by a server whose clock differs by minutes, is made anew by
    the server's clock, in the same call; later calls are right at once.

    The request was refused, so nothing can be applied twice. Red when a sandbox with a wrong clock
    stays without its table.
    """
    clock = ManualClock(1_000_000)
    with peer(in_turn(refused("InvalidSignatureException", 4_600), OK)) as made:
        client = made.client(clock=clock)
        client.get_item(TableName="t", Key={})
        clock.advance(1_000)
        client.get_item(TableName="t", Key={})
        # As after the restore of a snapshot, where the clock is another one.
        client._reset()
        client.get_item(TableName="t", Key={})

    assert stamps(made.requests) == [
        "19700101T001640Z",
        "19700101T011640Z",
        "19700101T011641Z",
        "19700101T001641Z",
    ]


@pytest.mark.parametrize(
    ("code", "date_s"),
    [
        ("InvalidSignatureException", 1_000),
        ("InvalidSignatureException", 1_240),
        ("AccessDeniedException", 9_000),
    ],
)
def test_a_signature_that_is_wrong_for_another_reason_is_not_made_again(
    code: str, date_s: int
) -> None:
    """With clocks that agree, or another refusal, the error is the answer.

    Red when a wrong secret costs two requests each time.
    """
    with (
        peer(says(refused(code, date_s))) as made,
        pytest.raises(exceptions.ClientError) as raised,
    ):
        made.client(clock=ManualClock(1_000_000)).get_item(TableName="t", Key={})

    assert raised.value.response["Error"]["Code"] == code
    assert len(made.requests) == 1


def test_a_refusal_after_the_correction_is_the_answer() -> None:
    """One call corrects the clock at most once.

    Red when a server whose clock runs wild keeps a call sending.
    """
    said = [refused("RequestExpired", at_s) for at_s in (9_000, 99_000, 999_000)]
    with peer(in_turn(*said)) as made, pytest.raises(exceptions.ClientError):
        made.client(clock=ManualClock(1_000_000)).get_item(TableName="t", Key={})

    assert len(made.requests) == 2


def test_the_sdk_is_not_loaded_and_its_error_is_stood_in_for() -> None:
    """A process that uses the direct transport loads neither boto3 nor botocore; an error of
    DynamoDB's has the form of botocore's.

    Red when an import of the SDK comes into the direct transport's way.
    """
    body = b'{"__type":"a#ConditionalCheckFailedException","message":"m"}'
    code = (
        "import sys\n"
        "from oncekey import DynamoDBStore\n"
        "store = DynamoDBStore('t', transport='direct')\n"
        "try:\n"
        "    store._connected().get_item(TableName='t', Key={})\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error.response['Error']['Code'], error.operation_name)\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in"
        " {'boto3', 'botocore', 'urllib3', 'http'}))\n"
    )
    with peer(says(answer(body, 400))) as made:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env=ENVIRONMENT | {"AWS_ENDPOINT_URL": made.url},
            capture_output=True,
            text=True,
            check=False,
        )

    assert ran.stdout.splitlines() == [
        "ClientError ConditionalCheckFailedException GetItem",
        "[]",
    ], ran.stderr


def test_an_error_of_our_own_class_says_what_botocores_says() -> None:
    """The stand-in for botocore's class names operation, code and message."""
    response = {"Error": {"Code": "SomeCode", "Message": "some message"}}
    error = ClientError(response, "GetItem")

    assert (error.response, error.operation_name) == (response, "GetItem")
    for each in ("SomeCode", "GetItem", "some message"):
        assert each in str(error)


def test_a_client_shows_where_it_goes_and_no_secret() -> None:
    """For logs."""
    with peer(says(OK)) as made:
        assert repr(made.client()) == f"DirectClient({made.url.removeprefix('http://')!r})"


def test_base64_is_that_of_the_protocol() -> None:
    """A binary value goes over the wire in the usual alphabet, with padding."""
    with peer(says(OK)) as made:
        client: DirectClient = made.client()
        client.put_item(TableName="t", Item={"a": {"B": b"\xfb\xff"}})

    assert json.loads(made.requests[0][1])["Item"]["a"]["B"] == "+/8="
