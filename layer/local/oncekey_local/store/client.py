"""What the local runtime itself asks of the local store, in the JSON protocols of AWS."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import aiohttp

from oncekey_local.store.authorization import authorization
from oncekey_local.store.long_poll import WAIT_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

# Longer than the longest poll of a queue.
_TIMEOUT = aiohttp.ClientTimeout(total=60)


class Refused(Exception):  # noqa: N818 - the name of the answer
    """The store has answered, and will not do it; the message says what and why."""


# What a call raises while the store is down: nobody knows whether it was applied.
UNANSWERED = (aiohttp.ClientError, TimeoutError)


class StoreClient:
    """Calls of the store's DynamoDB, of its streams and of its SQS, each sent once.

    They raise `Refused`, or one of `UNANSWERED`.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.url = url
        self._session = session

    async def dynamodb(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """One call of DynamoDB."""
        return await self._call("dynamodb", f"DynamoDB_20120810.{action}", request)

    async def streams(
        self, action: str, request: Mapping[str, Any], *, wait_s: float = 0
    ) -> dict[str, Any]:
        """One call of DynamoDB's streams. It waits up to `wait_s` seconds for records."""
        wait = {WAIT_HEADER: str(wait_s)} if wait_s else {}
        return await self._call("dynamodb", f"DynamoDBStreams_20120810.{action}", request, wait)

    async def sqs(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """One call of SQS."""
        return await self._call("sqs", f"AmazonSQS.{action}", request)

    async def _call(
        self,
        aws_service: str,
        target: str,
        request: Mapping[str, Any],
        more_headers: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        headers = {
            "X-Amz-Target": target,
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": authorization(aws_service),
            **more_headers,
        }
        data = json.dumps(request)
        async with self._session.post(
            self.url, data=data, headers=headers, timeout=_TIMEOUT
        ) as response:
            text = await response.text()
            if response.status != 200:
                raise Refused(f"the store refused {target} {data[:200]}: {text}")
            answer: dict[str, Any] = json.loads(text or "{}")
            return answer
