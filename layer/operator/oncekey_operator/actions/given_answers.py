"""HTTP answers that a person writes as JSON: what a gateway could not send is refused.

A handler's answer was made by its code, and was sent once. That of a person is seen by nobody
before every retry gets it.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from oncekey.http.answer import status_code

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html#http-api-develop-integrations-lambda.response
# https://docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html#respond-to-load-balancer
_MEMBERS = (
    *("statusCode", "headers", "body", "isBase64Encoded", "cookies", "multiValueHeaders"),
    "statusDescription",
)
_OBJECTS = ("headers", "multiValueHeaders")


def check_sendable(answer: Mapping[str, Any]) -> None:
    """Return if a gateway can send `answer`, which the layer can store.

    Raises:
        TypeError: it cannot. The message names the member.
    """
    if unread := [name for name in answer if name not in _MEMBERS]:
        # A misspelled `body` would be an answer without one.
        raise TypeError(f"nothing reads {', '.join(map(repr, unread))}")
    if status_code(answer) < 200:
        raise TypeError("the handler's answer needs a statusCode from 200 to 599")
    for name in _OBJECTS:
        if not isinstance(answer.get(name), dict | None):
            raise TypeError(f"{name} is an object")
    if not isinstance(answer.get("statusDescription"), str | None):
        raise TypeError("statusDescription is a text")
    if not isinstance(answer.get("isBase64Encoded"), bool | None):
        raise TypeError("isBase64Encoded is true or false")
    try:
        json.dumps(answer, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise TypeError("it has half of a surrogate pair, which is no text") from None
    if answer.get("isBase64Encoded"):
        try:
            base64.b64decode(answer.get("body") or "", validate=True)
        except (binascii.Error, ValueError):
            raise TypeError("isBase64Encoded is true, and the body is not base64") from None
