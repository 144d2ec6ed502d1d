"""How the engines differ: each answer that layer/docs/design/engines.md gives, asked again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
import moto
import pytest
from botocore.exceptions import ClientError
from moto.dynamodb.responses import DynamoHandler

from infra.local_deployment.ministack import ministack_cloud
from oncekey_local.store import moto_repairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[2] / "layer" / "docs" / "design" / "engines.md"
TABLE = "asked"
KEY = {"pk": {"S": "a"}}


class Engine(NamedTuple):
    """An engine, and what makes its clients."""

    name: str
    client: Callable[[str], Any]


@pytest.fixture(scope="module", params=["moto", pytest.param("ministack", marks=pytest.mark.proof)])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The engine, with a table that has one item."""
    if request.param == "ministack":
        with ministack_cloud() as cloud:
            _make_table(cloud.client("dynamodb"))
            yield Engine(request.param, cloud.client)
    else:
        # Another test of this process may have repaired it.
        original = moto_repairs._transact_write_items
        with moto.mock_aws(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(DynamoHandler, "transact_write_items", original)
            _make_table(_of_moto("dynamodb"))
            yield Engine(request.param, _of_moto)


def _of_moto(service: str) -> Any:
    region = "eu-central-1"
    return boto3.client(
        service,  # type: ignore[call-overload]  # any of them
        region_name=region,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )


def _make_table(client: Any) -> None:
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName=TABLE, Item={**KEY, "rev": {"N": "1"}})


def _is_accepted(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError:
        return False
    return True


def another_transaction_under_a_token(client: Any) -> bool:
    """Whether a token is accepted with other bytes than those that it came with first."""

    def write(owner: str) -> None:
        put = {"TableName": TABLE, "Item": {"pk": {"S": "token"}, "owner": {"S": owner}}}
        client.transact_write_items(TransactItems=[{"Put": put}], ClientRequestToken="token-1")

    write("first")
    return _is_accepted(lambda: write("second"))


def the_item_in_a_failed_condition(client: Any) -> bool:
    """Whether a refused write shows the item that it met."""
    with pytest.raises(ClientError) as refused:
        client.put_item(
            TableName=TABLE,
            Item=KEY,
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    return "Item" in refused.value.response


def an_unused_name(client: Any) -> bool:
    """Whether a name is accepted that no expression uses."""
    return _is_accepted(
        lambda: client.update_item(
            TableName=TABLE,
            Key=KEY,
            UpdateExpression="SET #used = :used",
            ExpressionAttributeNames={"#used": "used", "#unused": "unused"},
            ExpressionAttributeValues={":used": {"S": "x"}},
        )
    )


def an_unused_value(client: Any) -> bool:
    """Whether a value is accepted that the condition does not use."""
    return _is_accepted(
        lambda: client.put_item(
            TableName=TABLE,
            Item={"pk": {"S": "another"}},
            ConditionExpression="attribute_not_exists(pk) OR pk = :used",
            ExpressionAttributeValues={":used": {"S": "another"}, ":unused": {"S": "x"}},
        )
    )


def two_sets_of_one_path(client: Any) -> bool:
    """Whether one expression may set one attribute twice."""
    return _is_accepted(
        lambda: client.update_item(
            TableName=TABLE,
            Key=KEY,
            UpdateExpression="SET once = :x, once = :x",
            ExpressionAttributeValues={":x": {"S": "x"}},
        )
    )


def characters_that_xml_lacks(client: Any) -> bool:
    """Whether a message may have characters that XML 1.0 has not."""
    url = client.create_queue(QueueName="asked")["QueueUrl"]
    return _is_accepted(lambda: client.send_message(QueueUrl=url, MessageBody="\x00"))


# The page's row, the question, the service, and what the page says where the answer is yes and no.
QUESTIONS: list[tuple[str, Callable[[Any], bool], str, str, str]] = [
    (
        "`ClientRequestToken`",
        another_transaction_under_a_token,
        "dynamodb",
        "ignored",
        "the same bytes are applied once; other bytes are `IdempotentParameterMismatchException`",
    ),
    (
        "the item in a failed condition (`ALL_OLD`)",
        the_item_in_a_failed_condition,
        "dynamodb",
        "yes",
        "no",
    ),
    ("an unused name in an expression", an_unused_name, "dynamodb", "accepted", "refused"),
    (
        "an unused value in the condition of a put",
        an_unused_value,
        "dynamodb",
        "accepted",
        "refused",
    ),
    ("two `SET` of one path", two_sets_of_one_path, "dynamodb", "accepted", "refused"),
    (
        "the characters of an SQS message",
        characters_that_xml_lacks,
        "sqs",
        "any",
        "those that XML 1.0 allows",
    ),
]


@pytest.mark.parametrize(
    ("row", "question", "service", "yes", "no"), QUESTIONS, ids=[row for row, *_ in QUESTIONS]
)
def test_an_engine_differs_as_the_page_says(
    engine: Engine,
    row: str,
    question: Callable[[Any], bool],
    service: str,
    yes: str,
    no: str,
) -> None:
    """Whoever reads what a test on an emulator shows finds the emulator's own rules on the page.

    Red when a new version of an emulator has another rule, or the page is wrong.
    """
    assert _said(row)[engine.name] == (yes if question(engine.client(service)) else no)


def _said(row: str) -> dict[str, str]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (names,) = (cells for cells in tables if cells[1:3] == ["moto", "ministack"])
    (found,) = (cells for cells in tables if cells[0] == row)
    return dict(zip(names, found, strict=True))
