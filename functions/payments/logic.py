"""Accepting and reading a payment, without any code for events and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.payments.models import Payment, PaymentAccepted
from functions.shared import payments_table
from functions.shared.models import PAYMENT_REQUESTED, Charge
from functions.shared.payments_table import Status

if TYPE_CHECKING:
    from functions.payments.models import PaymentRequest
    from oncekey import Operation


def accept_payment(request: PaymentRequest, operation: Operation) -> PaymentAccepted:
    """Collect the payment's row and the message for the worker that charges it.

    The operation's completion writes both in one transaction, or neither. Nothing is charged here:
    the provider is called after the commit.

    Raises:
        NotConfigured: the table is not named; nothing was collected.
    """
    payment_id = payments_table.identifier("pay", operation)
    operation.transaction.put(
        payments_table.table_name(),
        {
            "pk": payments_table.row_key(operation.tenant, payment_id),
            "tenant": operation.tenant,
            "payment_id": payment_id,
            "operation_id": operation.operation_id,
            "customer_id": request.customer_id,
            "amount": request.amount,
            "currency": request.currency,
            "status": Status.PENDING.value,
        },
        condition="attribute_not_exists(pk)",
    )
    charge = Charge(
        payment_id=payment_id,
        customer_id=request.customer_id,
        amount=request.amount,
        currency=request.currency,
        key=operation.downstream_key("charge"),
    )
    operation.outbox.publish(PAYMENT_REQUESTED, charge.model_dump())
    return PaymentAccepted(payment_id=payment_id)


def find_payment(tenant: str, payment_id: str) -> Payment | None:
    """The tenant's payment of this id, if there is one."""
    row = payments_table.find(tenant, payment_id)
    if row is None:
        return None
    return Payment(
        payment_id=row.payment_id, status=row.status, amount=row.amount, currency=row.currency
    )
