"""The client tokens of transactions, which moto ignores. They are checked as in DynamoDB.

https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.dynamodb.exceptions import ERROR_TYPE_PREFIX, DynamodbException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST_TOKEN = 36


class TokenRefused(DynamodbException):
    """The token is invalid, or belongs to another transaction."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(ERROR_TYPE_PREFIX + code, message=message)


class ClientTokens:
    """The tokens that one engine has seen, each with its transaction.

    A token of a different transaction is refused. DynamoDB remembers a token for ten minutes. This
    class never forgets one, because two transactions must never share a token.

    Args:
        honours_repeats: whether a repeated transaction is answered without being applied again, as
            in DynamoDB. Otherwise it is applied again, as in moto. Its own conditions must then
            prevent a second effect.
    """

    def __init__(self, *, honours_repeats: bool = False) -> None:
        self._honours_repeats = honours_repeats
        self._asked: dict[str, str] = {}
        self._applied: dict[str, Any] = {}

    def apply(self, body: Mapping[str, Any], transact: Callable[[], Any]) -> Any:
        """Apply the transaction in `body`, unless its token forbids it.

        Raises:
            TokenRefused: nothing was applied.
            DynamodbException: the transaction was cancelled.
        """
        token = body.get("ClientRequestToken")
        if token is None:
            return transact()
        if not 1 <= len(token) <= _LONGEST_TOKEN:
            raise TokenRefused("ValidationException", "ClientRequestToken has 1 to 36 characters")
        asked = json.dumps(body["TransactItems"], sort_keys=True, default=repr)
        if self._asked.setdefault(token, asked) != asked:
            raise TokenRefused(
                "IdempotentParameterMismatchException",
                "Request was already processed with a different set of parameters",
            )
        if token in self._applied and self._honours_repeats:
            return self._applied[token]
        answer = self._applied[token] = transact()
        return answer
