"""The payment provider, by its own SDK, and what its errors prove."""

from __future__ import annotations

from functools import lru_cache

import stripe

from functions.shared.settings import secret, setting

# Connecting, then waiting for the answer: 8 s at the worst. The functions' timeouts count on it.
TIMEOUT_S = (1.0, 7.0)

# The provider would not execute the request now: nothing happened, and it may work later.
REFUSALS = (
    stripe.AuthenticationError,
    stripe.PermissionError,
    stripe.RateLimitError,
)
# No answer, a 5xx, or a 409 while an earlier call under the same key still runs.
UNCERTAIN = (stripe.APIConnectionError, stripe.APIError)


# A reader waits and asks again, which does no harm.
READING_RETRIES = 2


class _Client:
    """The SDK's client, one for each key that a sandbox meets: a rotated one is taken up.

    It repeats nothing by itself. That would hide that there was a first try, and a refusal of the
    second (a rate limit, say) proves nothing about the first.
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
    """A client for whoever only reads, which asks again where the provider does not answer.

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
