"""One payment through the deployed API, and the same once more."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import requests
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from functions.shared.settings import NotConfigured, secret, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

# The smallest amount that the provider charges in any currency is about half of this.
AMOUNT, CURRENCY = 100, "eur"
# Connecting and waiting for an answer. The function's timeout depends on it.
TIMEOUT_S = (2.0, 8.0)
REPLAYED = "Idempotent-Replayed"
_THIS_MACHINE = {"127.0.0.1", "localhost"}


class CanaryFailed(Exception):  # noqa: N818 -- how a run ended
    """The API did not keep its promise. The message says which, and has the key to look up."""


def _encrypted(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _THIS_MACHINE:
        raise ValueError("the secret would be sent in the clear (RFC 6749, section 3.2)")
    return url


class Client(BaseModel):
    """The canary's client at the issuer, as the secret has it.

    Everything but `token_url` is sent to the issuer: `client_id`, `client_secret`, and what the
    issuer asks for, such as `audience` or `scope`.
    """

    model_config = ConfigDict(extra="allow")

    token_url: Annotated[str, AfterValidator(_encrypted)]
    client_id: str
    client_secret: str


def pay_and_repeat(key: str) -> dict[str, str]:
    """Send one payment twice under a fresh key, and compare the answers.

    Returns:
        The payment's id and the key, for the log.

    Raises:
        CanaryFailed: see there.
        requests.RequestException: the API or the issuer did not answer.
        NotConfigured: a variable or the secret is missing or malformed; nothing was sent.
        SecretUnavailable: the secret cannot be read now; nothing was sent.
    """
    url = f"{setting('CANARY_API_URL').rstrip('/')}/payments"
    body = {"customer_id": setting("CANARY_CUSTOMER"), "amount": AMOUNT, "currency": CURRENCY}
    headers = {"Authorization": f"Bearer {_token()}", "Idempotency-Key": key}
    first, again = (
        requests.post(url, json=body, headers=headers, timeout=TIMEOUT_S, allow_redirects=False)
        for _ in range(2)
    )
    faults = [*_faults(first, again)]
    if faults:
        raise CanaryFailed(f"key {key}: {'; '.join(faults)}")
    return {"payment_id": str(first.json()["payment_id"]), "idempotency_key": key}


def _faults(first: requests.Response, again: requests.Response) -> list[str]:
    faults = []
    if first.status_code != HTTPStatus.ACCEPTED:
        faults.append(f"the payment was answered with {first.status_code}, not 202")
    if again.headers.get(REPLAYED) != "true":
        faults.append(f"the second answer ({again.status_code}) is no replay")
    if _told(again) != _told(first):
        faults.append("the second answer is not the first one")
    return faults


def _told(answer: requests.Response) -> tuple[int, bytes, str | None]:
    return answer.status_code, answer.content, answer.headers.get("Location")


def _token() -> str:
    """An access token, by OAuth's client credentials (RFC 6749, 4.4)."""
    try:
        client = Client.model_validate_json(secret("CANARY_CLIENT"))
    except ValidationError:
        # Its text would repeat the secret.
        raise NotConfigured(
            "the secret of CANARY_CLIENT must be a JSON object with an https token_url, client_id"
            " and client_secret"
        ) from None
    form: Mapping[str, Any] = client.model_dump(exclude={"token_url"})
    answer = requests.post(
        client.token_url,
        data={"grant_type": "client_credentials", **form},
        timeout=TIMEOUT_S,
        allow_redirects=False,
    )
    if answer.status_code != HTTPStatus.OK:
        raise CanaryFailed(f"the issuer gave no token: {answer.status_code}")
    return str(answer.json()["access_token"])
