"""A client of the running reference service, and what it left in store and provider."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from oncekey_local.functions.environment import REGION
from oncekey_local.identifiers import new_id
from tests.support.dev_service import Answer, send
from tests.support.looking import looks, until
from tests.support.provider import Provider
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from oncekey_local.dev_process import DevProcess

BODY: dict[str, Any] = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}
_NAME = "payments-local"
_EMPTY = {"visible": 0, "in_flight": 0, "delayed": 0}


def new_key() -> str:
    """A key as a client draws it."""
    return new_id()


@dataclass(frozen=True)
class Client:
    """A client of one tenant, which sends one request: `POST path` with `body`."""

    dev: DevProcess
    tenant: str = "acme"
    path: str = "/payments"
    body: Mapping[str, Any] = field(default_factory=lambda: BODY)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=40))

    @property
    def provider(self) -> Provider:
        """The provider of the service."""
        return Provider(self.dev.provider_url)

    def at(self, path: str, body: Mapping[str, Any] = BODY) -> Client:
        """The same client, with another request."""
        return replace(self, path=path, body=body)

    def of(self, tenant: str) -> Client:
        """A client of another tenant, with the same request."""
        return replace(self, tenant=tenant)

    def refunding(self, amount: int = 1) -> Client:
        """A client that asks for a part of a new payment back, once that is charged."""
        payment = self.at("/payments", {**BODY, "amount": 50_000})
        charged = payment.ended(payment.ask(new_key()))
        assert charged["status"] == "succeeded"
        return self.at("/refunds", {"payment_id": charged["payment_id"], "amount": amount})

    def ask(
        self,
        key: str | None,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> Answer:
        """One request, with another body if one is given."""
        given = self.body if body is None else body
        raw = given if isinstance(given, bytes) else json.dumps(given).encode()
        sent: dict[str, str | bytes] = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            sent["Idempotency-Key"] = key
        token = self.dev.token(self.tenant)
        return send(self.dev.url, "POST", self.path, token=token, headers=sent, body=raw)

    def start(self, key: str) -> Future[Answer]:
        """The same, without waiting for its answer."""
        return self._pool.submit(self.ask, key)

    def settled_code(self, key: str, while_code: str) -> Answer:
        """Send the request again until it is answered something else than the problem given."""
        for _ in looks():
            answer = self.ask(key)
            if code_of(answer) != while_code:
                return answer
        raise AssertionError(f"still {while_code}")

    def show(self, location: str) -> Answer:
        """What is there for this tenant."""
        return send(self.dev.url, path=location, token=self.dev.token(self.tenant))

    def ended(self, accepted: Answer) -> dict[str, Any]:
        """The payment that was accepted, once it is pending no more."""
        assert accepted.status == 202, accepted
        location = accepted.headers["location"]
        shown: list[dict[str, Any]] = []

        def is_ended() -> bool:
            # A process that is killed answers 5xx, and so does one that cannot reach the store.
            answer = self.show(location)
            shown[:] = [answer.json()] if answer.status == 200 else []
            return bool(shown) and shown[0]["status"] != "pending"

        until(is_ended, "the payment is not ended")
        return shown[0]

    def quiet(self) -> None:
        """Return when no message is on its way: every other is done, or a dead letter."""
        # The relay deletes what it has sent, so whatever left the one is seen in the other.
        until(lambda: not self.rows("outbox"), "a message is still in the outbox")
        until(
            lambda: {**(queue := self.dev.queues()["payments"]), **_EMPTY} == queue,
            "a message is still in the queue",
        )

    def records(self) -> list[dict[str, Any]]:
        """What the idempotency table holds."""
        return self.rows("idempotency")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What a table holds."""
        found = self.aws("dynamodb").scan(TableName=f"{_NAME}-{table}", ConsistentRead=True)
        return list(found["Items"])

    def set_store_faults(self, **faults: int | bool) -> None:
        """Make the store fail, or no more."""
        data = json.dumps(faults).encode()
        assert send(self.dev.store_url, "POST", "/_faults", body=data).status == 200

    def aws(self, service: str) -> Any:
        """A client of the store."""
        return _connected(service, self.dev.store_url)


@cache
def _connected(service: str, store_url: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name=REGION,
        endpoint_url=store_url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
    )


def code_of(answer: Answer) -> str | None:
    """The code of a problem answer, None for any other."""
    if answer.headers.get("content-type") != "application/problem+json":
        return None
    code: str = answer.json()["type"].rpartition(":")[2]
    return code
