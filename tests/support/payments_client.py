"""A client of the running reference service, and what it left in store and provider."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from oncekey_local.environment import REGION
from oncekey_local.identifiers import new_id
from tests.support.dev_service import Answer, send
from tests.support.provider import Provider

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from oncekey_local.dev_process import DevProcess

BODY: dict[str, Any] = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}
TABLE = "payments-local-idempotency"


def new_key() -> str:
    """A key as a client draws it."""
    return new_id()


@dataclass
class Payments:
    """A client for one tenant of a running service."""

    dev: DevProcess
    tenant: str = "acme"
    provider: Provider = field(init=False)

    def __post_init__(self) -> None:
        self.provider = Provider(self.dev.provider_url)
        self._token = self.dev.token(self.tenant)
        self._pool = ThreadPoolExecutor(max_workers=40)

    def pay(
        self,
        key: str | None,
        body: Mapping[str, Any] | bytes = BODY,
        headers: Mapping[str, str | bytes] | None = None,
        path: str = "/payments",
    ) -> Answer:
        """One `POST /payments`."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent: dict[str, str | bytes] = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            sent["Idempotency-Key"] = key
        return send(self.dev.url, "POST", path, token=self._token, headers=sent, body=raw)

    def start(self, key: str, path: str = "/payments") -> Future[Answer]:
        """The same, without waiting for its answer."""
        return self._pool.submit(self.pay, key, path=path)

    def settled_code(self, key: str, while_code: str, path: str = "/payments") -> Answer:
        """Send the request again until it is answered something else than the problem given."""
        for _ in range(20_000):
            answer = self.pay(key, path=path)
            if code_of(answer) != while_code:
                return answer
        raise AssertionError(f"still {while_code}")

    def records(self) -> list[dict[str, Any]]:
        """What the idempotency table holds."""
        return list(self._dynamodb().scan(TableName=TABLE)["Items"])

    def _dynamodb(self) -> Any:
        config = Config(retries={"total_max_attempts": 1, "mode": "standard"})
        return boto3.client(
            "dynamodb", region_name=REGION, endpoint_url=self.dev.store_url, config=config
        )


def code_of(answer: Answer) -> str | None:
    """The code of a problem answer, None for any other."""
    if answer.headers.get("content-type") != "application/problem+json":
        return None
    code: str = answer.json()["type"].rpartition(":")[2]
    return code
