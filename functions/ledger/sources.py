"""Both sides of both ledgers: our tables by a scan, the provider's objects by its lists."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3

from functions.ledger.models import Entry
from functions.ledger.time_budget import CALLS
from functions.shared import payments_table, provider, refunds_table
from functions.shared.payments_table import STATUS_OF_INTENT, Status
from oncekey.ledger import LedgerField

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import stripe
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    from functions.ledger.models import Window
    from functions.ledger.time_budget import TimeBudget

    Row = Mapping[str, AttributeValueTypeDef]

_ROWS_OF_A_PAGE = 1000
# The largest page that Stripe returns.
_OBJECTS_OF_A_PAGE = 100

_REFUNDS_WITHOUT_MONEY = frozenset({"failed", "canceled"})


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """One kind of entry that is on our side and on the provider's."""

    name: str
    fields: tuple[LedgerField[Entry, Entry], ...]
    ours: Callable[[Window, TimeBudget], Iterator[Entry]]
    theirs: Callable[[Window, TimeBudget], Iterator[Entry]]


def _our_payments(window: Window, budget: TimeBudget) -> Iterator[Entry]:
    """The payments that were charged in the window, and those without a known charge.

    The provider may have charged a payment of the second kind without our knowledge.
    """
    for row in _rows(payments_table.table_name(), "charged_at", window, budget):
        status, provider_id = _text(row, "status"), _text(row, "provider_id")
        yield Entry(
            id=_text(row, "payment_id") or _text(row, "pk") or "",
            provider_id=provider_id,
            amount=_number(row, "amount"),
            currency=_text(row, "currency"),
            status=status,
            moves_money=status == Status.SUCCEEDED
            or (status == Status.PENDING and provider_id is not None),
        )


def _our_refunds(window: Window, budget: TimeBudget) -> Iterator[Entry]:
    for row in _rows(refunds_table.table_name(), "refunded_at", window, budget):
        status = _text(row, "status")
        yield Entry(
            id=_text(row, "refund_id") or _text(row, "pk") or "",
            provider_id=_text(row, "provider_id"),
            amount=_number(row, "amount"),
            currency=None,
            status=status,
            moves_money=status not in _REFUNDS_WITHOUT_MONEY,
        )


def _their_payments(window: Window, budget: TimeBudget) -> Iterator[Entry]:
    page = provider.reading_client().v1.payment_intents.list(
        {"created": {"gte": window.start_s, "lt": window.end_s}, "limit": _OBJECTS_OF_A_PAGE}
    )
    for intent in page.auto_paging_iter():
        budget.check()
        status = STATUS_OF_INTENT.get(intent.status, Status.DECLINED)
        yield Entry(
            id=_own_id(intent, "payment_id"),
            provider_id=intent.id,
            amount=intent.amount,
            currency=intent.currency,
            status=status.value,
            moves_money=status is not Status.DECLINED,
        )


def _their_refunds(window: Window, budget: TimeBudget) -> Iterator[Entry]:
    page = provider.reading_client().v1.refunds.list(
        {"created": {"gte": window.start_s, "lt": window.end_s}, "limit": _OBJECTS_OF_A_PAGE}
    )
    for refund in page.auto_paging_iter():
        budget.check()
        yield Entry(
            id=_own_id(refund, "refund_id"),
            provider_id=refund.id,
            amount=refund.amount,
            currency=refund.currency,
            status=refund.status,
            moves_money=refund.status not in _REFUNDS_WITHOUT_MONEY,
        )


def _field(name: str) -> LedgerField[Entry, Entry]:
    read = operator.attrgetter(name)
    return LedgerField(name=name, ours=read, theirs=read)


PAYMENTS = Ledger(
    name="payments",
    fields=(_field("provider_id"), _field("amount"), _field("currency"), _field("status")),
    ours=_our_payments,
    theirs=_their_payments,
)
# A refund has the currency of its charge, and its row does not repeat it.
REFUNDS = Ledger(
    name="refunds",
    fields=(_field("provider_id"), _field("amount"), _field("status")),
    ours=_our_refunds,
    theirs=_their_refunds,
)


def _rows(table_name: str, time: str, window: Window, budget: TimeBudget) -> Iterator[Row]:
    """The rows whose `time` is in the window, and those without a `time`.

    The scan reads and bills every row of the table, at half a unit for 4 KB. The filter only saves
    network traffic. The read is eventually consistent: a row written a second ago may be missing,
    but the window contains no rows that young.
    """
    client: DynamoDBClient = boto3.client("dynamodb", config=CALLS)
    pages = client.get_paginator("scan").paginate(
        TableName=table_name,
        FilterExpression="attribute_not_exists(#time) OR #time BETWEEN :start AND :last",
        ExpressionAttributeNames={"#time": time},
        ExpressionAttributeValues={
            ":start": {"N": str(window.start_s)},
            ":last": {"N": str(window.end_s - 1)},
        },
        PaginationConfig={"PageSize": _ROWS_OF_A_PAGE},
    )
    for page in pages:
        budget.check()
        yield from page["Items"]


def _own_id(made: stripe.PaymentIntent | stripe.Refund, name: str) -> str:
    """The id that we gave it, or the provider's id if we did not make it."""
    metadata = made.metadata.to_dict() if made.metadata else {}
    return str(metadata.get(name) or made.id)


def _text(row: Row, name: str) -> str | None:
    return row.get(name, {}).get("S")


def _number(row: Row, name: str) -> int | None:
    """The value if it is a whole number. None differs from every amount of the provider's."""
    number = row.get(name, {}).get("N", "")
    return int(number) if number.isdecimal() else None
