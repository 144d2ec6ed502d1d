"""One cold start, as a script: import, decorate, answer the first call, and print what it took.

It imports nothing of the benchmarks, because modules that are loaded already cost nothing. The
event and the requests of the bare contender come by standard input; the replies by a socket.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TABLE = "idempotency"
ANSWER = {
    "statusCode": 201,
    "headers": {"Content-Type": "application/json", "Location": "/payments/ch_1"},
    "body": '{"payment_id": "ch_1", "amount": 1200, "status": "succeeded"}',
}


class Context:
    """A Lambda context."""

    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    function_name = "payments"

    def get_remaining_time_in_millis(self) -> int:
        """As in Lambda."""
        return 900_000


def oncekey(_requests: Any) -> Any:
    """A handler as the tutorial writes it."""
    from oncekey import idempotent, jwt_claim

    @idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"))
    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return ANSWER

    return handler


def powertools(_requests: Any) -> Any:
    """A handler of Powertools, configured as in `contenders.py`."""
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        IdempotencyConfig,
        idempotent,
    )

    config = IdempotencyConfig(
        event_key_jmespath='headers."idempotency-key"',
        payload_validation_jmespath="body",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=24 * 3600,
    )

    @idempotent(config=config, persistence_store=DynamoDBPersistenceLayer(table_name=TABLE))
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return ANSWER

    return handler


def bare(requests: list[tuple[str, dict[str, Any]]]) -> Any:
    """The same requests by boto3 alone."""
    import boto3

    client: Any = boto3.client("dynamodb")

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        for method, parameters in requests:
            getattr(client, method)(**parameters)
        return ANSWER

    return handler


def _now() -> dict[str, int]:
    ours = [name for name in sys.modules if name.partition(".")[0] == "oncekey"]
    return {
        "cpu_us": time.process_time_ns() // 1000,
        "wall_us": time.perf_counter_ns() // 1000,
        "modules": len(sys.modules),
        "ours": len(ours),
        "rss_kb": _resident_kb(),
    }


def _resident_kb() -> int:
    """The memory of this process; 0 where the system does not say so."""
    try:
        with open("/proc/self/statm") as statm:  # noqa: PTH123 -- pathlib is loaded by nobody else
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except OSError:
        return 0


def main() -> None:
    """Print two marks, each as a difference to the beginning: decorated, and answered."""
    given = json.load(sys.stdin)
    make = {"oncekey": oncekey, "powertools": powertools, "bare": bare}[os.environ["CONTENDER"]]
    begun = _now()
    handler = make(given["requests"])
    decorated = _now()
    answer = handler(given["event"], Context())
    answered = _now()
    marks = [{name: mark[name] - begun[name] for name in begun} for mark in (decorated, answered)]
    has_sdk = "botocore.session" in sys.modules
    print(json.dumps({"marks": marks, "answer": answer, "has_sdk": has_sdk}))  # noqa: T201


if __name__ == "__main__":
    main()
