"""Answers of the provider that the local one cannot be told to give."""

from __future__ import annotations

from typing import Any

import stripe


def invalid(parameter: str) -> Exception:
    """The provider says that this parameter is wrong."""
    error_type: Any = stripe.InvalidRequestError
    error: Exception = error_type("no", param=parameter)
    return error


def lost() -> Exception:
    """No answer."""
    error_type: Any = stripe.APIConnectionError
    error: Exception = error_type("no answer")
    return error


class Scripted:
    """An SDK whose calls end as scripted, in order; `sent` are the calls' methods and URLs."""

    def __init__(self, *script: Exception | tuple[int, str]) -> None:
        self.sent: list[tuple[str, str]] = []
        left = list(script)
        sent = self.sent

        class HttpClient(stripe.RequestsClient):
            def request_with_retries(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
                sent.append((method, url.partition("stripe.com")[2].partition("?")[0]))
                answer = left.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer[1], answer[0], {}

        self.client = stripe.StripeClient("sk_test_none", http_client=HttpClient())
