"""Small Lambda handlers that do one thing each, for the tests of the local runtime."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Client
from typing import Any


def echo(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answers with what it was given: the event, its context, its environment.

    Keeps nothing between requests.
    """
    return {
        "event": event,
        "context": {
            "request_id": context.aws_request_id,
            "arn": context.invoked_function_arn,
            "remaining_ms": context.get_remaining_time_in_millis(),
            "function_name": context.function_name,
            "memory_mb": context.memory_limit_in_mb,
        },
        "environment": dict(os.environ),
        "pid": os.getpid(),
    }


def respond(event: dict[str, Any], _context: Any) -> Any:
    """Answers with the response that the request's body says, whatever it is."""
    import json

    return json.loads(event["body"])


def meet(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Says over a socket of the test's that it is here, and answers when the test lets it."""
    port = int(event["queryStringParameters"]["port"])
    with Client(("127.0.0.1", port), authkey=b"test") as connection:
        connection.send(os.getpid())
        return {"statusCode": 200, "body": connection.recv()}


def spin(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Says that it is here like `meet`, then keeps the processor busy for ever."""
    meet(event, context)
    while True:
        pass


def fail(_event: dict[str, Any], _context: Any) -> None:
    """Raises."""
    raise ValueError("this handler always fails")


def leave(_event: dict[str, Any], _context: Any) -> None:
    """Ends its process."""
    sys.stdout.write("on standard output\n")
    sys.stderr.write("on standard error\n")
    os._exit(7)


def huge(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Answers with more than Lambda takes back."""
    return {"statusCode": 200, "body": "x" * (6 * 1024 * 1024)}
