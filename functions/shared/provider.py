"""The payment provider's SDK, and the meaning of its errors."""

from __future__ import annotations

from functools import lru_cache

import stripe

from functions.shared.settings import secret, setting

# Connecting and waiting for the answer: 8 s at most. The functions' timeouts depend on it.
TIMEOUT_S = (1.0, 7.0)

# The provider refused to execute the request now. Nothing happened, and it may work later.
REFUSALS = (
    stripe.AuthenticationError,
    stripe.PermissionError,
    stripe.RateLimitError,
)
# No answer, a 5xx, or a 409 while an earlier call with the same key is still running.
UNCERTAIN = (stripe.APIConnectionError, stripe.APIError)


# Repeating a read is harmless.
READING_RETRIES = 2


class _Client:
    """The SDK's clients, one for each secret key, so that a rotated key is used.

    They make no retries. A retry would hide the first attempt, and a refusal of the second attempt
    (such as a rate limit) proves nothing about the first.
    """

    def __call__(self) -> stripe.StripeClient:
        """The client.

        Raises:
            NotConfigured: PROVIDER_API_KEY or PROVIDER_URL is not set.
            SecretUnavailable: the key cannot be read now.
        """
        return _client(retries=0)

    def cache_clear(self) -> None:
        """Forget all clients and their connections."""
        _connected.cache_clear()


client = _Client()


def reading_client() -> stripe.StripeClient:
    """A client for reading, which retries if the provider does not answer.

    Raises:
        NotConfigured: PROVIDER_API_KEY or PROVIDER_URL is not set.
        SecretUnavailable: the key cannot be read now.
    """
    return _client(retries=READING_RETRIES)


def _client(*, retries: int) -> stripe.StripeClient:
    return _connected(secret("PROVIDER_API_KEY"), setting("PROVIDER_URL").rstrip("/"), retries)


@lru_cache(maxsize=4)
def _connected(key: str, url: str, retries: int) -> stripe.StripeClient:
    return stripe.StripeClient(
        key,
        base_addresses={"api": url},
        max_network_retries=retries,
        http_client=stripe.RequestsClient(timeout=TIMEOUT_S),
    )
