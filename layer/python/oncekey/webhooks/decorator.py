"""The public decorator of webhooks.

It checks its options when it is applied, and does nothing else before the first event.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oncekey import options
from oncekey.clock import Clock, SystemClock
from oncekey.declared import second_operation
from oncekey.effects.handlers import is_coroutine_function
from oncekey.errors import ConfigurationError
from oncekey.misuse import explained, function_faults
from oncekey.webhooks.operation import WebhookOperation
from oncekey.webhooks.signatures import secrets_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.http.answer import Answer
    from oncekey.store.store import Store
    from oncekey.webhooks.delivery import Delivery, Publish
    from oncekey.webhooks.signatures import Scheme, SecretsSource

# Stripe sends an event again for three days by itself, and for up to thirty when told to.
# https://docs.stripe.com/webhooks
_RETENTION = timedelta(days=31)


@explained(
    "@webhook(operation='POST /webhooks/stripe', scheme=StripeSignature(), tenant=single_tenant())"
)
@dataclass(frozen=True, kw_only=True)
class webhook:  # noqa: N801 -- written as a decorator
    """Take every event of a provider on once, whenever and however often it is sent.

    The function gets a `Delivery`, and returns `Publish(topic, payload)`, or None for an event that
    is nothing to it. It is pure: it decides, and does nothing, because it is called again for every
    repeat. What is decorated with this is a Lambda handler of HTTP events.

    The signature is judged first, over the raw body; nothing is asked of the store before it holds.
    Then one transaction writes the record of the event's id, completed, and the message to the
    outbox, and the sender is answered 200 within four seconds. The work is done by whoever reads
    the queue. A repeat is a 200 as well, also with another body, and publishes nothing; an event
    that is ignored leaves no record. What is not signed well, and a signed event that the function
    cannot read, is a 400, so that the sender keeps it and shows it. While the store is down it is a
    503, and the sender sends again. Nothing that a sender can send raises.

    With ONCEKEY_DISABLED the signature is judged all the same, and the message is written without a
    record.

    Args:
        operation: the name that event ids are bound to, by convention method and route. Renaming it
            forgets them all.
        scheme: how the sender signs: `StripeSignature()`, `GitHubSignature()`, `ShopifySignature()`
            or `StandardWebhooks()`.
        tenant: whose event it is: a callable of the delivery, or `single_tenant()`.
        secrets: what the sender signs with, as bytes; a list while they rotate, the newest first;
            or a callable that is asked at each request. By default the words of
            ONCEKEY_WEBHOOK_SECRET, or of the Secrets Manager secret that ONCEKEY_WEBHOOK_SECRET_ARN
            names. Without one the first request raises `ConfigurationError`.
        event_id: what names the event, in place of the scheme's id: a callable of the delivery. For
            GitHub and Shopify, whose ids are not signed, where the body has one that is.
        retention: for how long an id is remembered, 31 days by default, whatever
            ONCEKEY_RETENTION_S says. It must be longer than the sender sends an event again.
        problem_base: what a problem's `type` begins with, such as your documentation's address.
        store: where records and messages are, by default the tables of ONCEKEY_TABLE and
            ONCEKEY_OUTBOX_TABLE.
        clock: the source of time and randomness, for tests.

    Raises:
        ConfigurationError: an option is wrong; the message names every fault.
    """

    operation: str
    scheme: Scheme
    tenant: Callable[[Delivery], str | None] = field(repr=False)
    secrets: SecretsSource | None = field(default=None, repr=False)
    event_id: Callable[[Delivery], str | None] | None = field(default=None, repr=False)
    retention: timedelta = _RETENTION
    problem_base: str | None = None
    store: Store | None = field(default=None, repr=False)
    clock: Clock | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        faults = [
            *options.name_faults(self.operation),
            *self._scheme_faults(),
            *options.caller_faults(self.tenant, None),
            *options.hook_faults({"event_id": self.event_id}),
            *options.duration_faults({"retention": self.retention}),
            *options.kind_faults({"problem_base": (self.problem_base or "", str)}),
            *options.clock_faults(self.clock),
            *options.store_faults(self.store),
            *options.settings_faults(self._settings()),
        ]
        if faults:
            raise ConfigurationError(self._where, faults)

    def __call__(
        self, function: Callable[[Delivery], Publish | None], /
    ) -> Callable[[Any, Any], Answer]:
        """The Lambda handler that takes on what `function` publishes.

        Raises:
            ConfigurationError: it is no plain function of one argument.
        """
        faults = _function_faults(function)
        if faults:
            raise ConfigurationError(self._where, faults)
        bound = WebhookOperation(
            name=self.operation,
            scheme=self.scheme,
            secrets=self.secrets,
            tenant=self.tenant,
            event_id=self.event_id,
            given_settings=self._settings(),
            store=self.store,
            clock=self.clock or SystemClock(),
        )

        @functools.wraps(function)
        def handler(event: Any, context: Any) -> Answer:
            return bound.answer(function, event, context)

        # Callers see a handler: the delivery is ours to give.
        del handler.__wrapped__
        faults = second_operation(self.operation, function, handler, self.store)
        if faults:
            raise ConfigurationError(self._where, faults)
        return handler

    @property
    def _where(self) -> str:
        return f"@webhook(operation={self.operation!r})"

    def _scheme_faults(self) -> list[str]:
        if isinstance(self.scheme, type) or not hasattr(self.scheme, "stated"):
            return ["scheme is no scheme: use StripeSignature() or another, called"]
        faults = self.scheme.faults()
        if self.secrets is not None and not callable(self.secrets):
            faults += [f"secrets: {each}" for each in secrets_faults(self.scheme, self.secrets)]
        least = self.scheme.sends_again_for
        given: object = self.retention
        if isinstance(given, timedelta) and given <= least:
            faults.append(
                f"retention is {self.retention}: an event is sent again for {least}, and would then"
                " be taken on twice"
            )
        return faults

    def _settings(self) -> dict[str, int | str]:
        return options.settings_given(
            {"retention_s": self.retention}, {"problem_base": self.problem_base}
        )


def _function_faults(function: Callable[..., object]) -> list[str]:
    faults = function_faults(function)
    if faults:
        return faults
    if is_coroutine_function(function) or inspect.isgeneratorfunction(function):
        return ["a webhook's function only decides: write it as a plain def that returns"]
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return ["a webhook's function takes one argument, the delivery"]
    return []
