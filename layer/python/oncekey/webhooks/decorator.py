"""The public decorator of webhooks.

It checks its options when it is applied, and does nothing else before the first event.
"""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oncekey import options
from oncekey.declared import second_operation
from oncekey.effects.handlers import is_coroutine_function, is_generator_function
from oncekey.errors import ConfigurationError
from oncekey.misuse import explained, function_faults
from oncekey.tenants import reads_requests
from oncekey.value import Value, field
from oncekey.webhooks.operation import WebhookOperation, mark_webhook
from oncekey.webhooks.signatures import secrets_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.http.answer import Answer
    from oncekey.store.store import Store
    from oncekey.webhooks.delivery import Delivery, Publish
    from oncekey.webhooks.signatures import Scheme, SecretsSource

# Stripe resends an event for three days by itself, and for up to thirty days on request.
# https://docs.stripe.com/webhooks
_RETENTION = timedelta(days=31)


@explained(
    "@webhook(operation='POST /webhooks/stripe', scheme=StripeSignature(), tenant=single_tenant())"
)
class webhook(Value, kw_only=True):  # noqa: N801 -- written as a decorator
    """Accept every event of a provider once, however often it is sent.

    The decorated function is a Lambda handler of HTTP events. Your function gets a `Delivery`. It
    returns `Publish(topic, payload)`, or None to ignore the event. It must be pure, because it is
    called again for every repeat.

    1. The signature is checked over the raw body, before any call to the store.
    2. One transaction writes the completed record of the event's id, and the message to the outbox.
    3. The sender gets a 200 within four seconds. The worker that reads the queue does the work.

    A repeat gets a 200 as well, even with another body, and publishes nothing. An ignored event
    leaves no record. A wrong signature gets a 400, and so does a signed event that the function
    cannot read: the sender then keeps the event and shows it. While the store is down, the sender
    gets a 503 and sends the event again. No request of a sender makes the layer raise; an error of
    the function that is no question of the event's form is raised, and nothing is recorded.

    With ONCEKEY_DISABLED, the signature is still checked, and nothing is written.

    Args:
        operation: the name that event ids are bound to, by convention method and route. After a
            change of this name, all earlier ids are unknown.
        scheme: how the sender signs: `StripeSignature()`, `GitHubSignature()`, `ShopifySignature()`
            or `StandardWebhooks()`.
        tenant: the tenant of an event: a callable of the delivery, or `single_tenant()`.
        secrets: the signing secrets as bytes: a list, the newest first, so that they can rotate; or
            a callable that is called for each request. By default the words of
            ONCEKEY_WEBHOOK_SECRET, or of the Secrets Manager secret that ONCEKEY_WEBHOOK_SECRET_ARN
            names. Without a secret, the first request raises `ConfigurationError`.
        event_id: a callable of the delivery that returns the event's id, in place of the scheme's
            id. Use it for GitHub and Shopify, whose ids are not signed, if the body has an id.
        retention: how long an id is remembered: 31 days by default, independent of
            ONCEKEY_RETENTION_S. It must be longer than the time for which the sender resends.
        problem_base: the prefix of a problem's `type`, such as the address of your documentation.
        store: the store of records and messages, by default the tables of ONCEKEY_TABLE and
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
            *options.rule_faults({"secrets": self.secrets}),
            *options.hook_faults({"event_id": self.event_id}),
            *options.duration_faults({"retention": self.retention}),
            *options.text_faults({"problem_base": self.problem_base}),
            *options.clock_faults(self.clock),
            *options.store_faults(self.store),
            *options.settings_faults(self._settings()),
        ]
        if reads_requests(self.tenant):
            # It would find nobody in any delivery, and every event would be refused (403).
            faults.append(
                "tenant reads the context of an HTTP request, which a webhook does not get: pass a"
                " callable of the delivery, such as lambda it: it.json()['account'], or"
                " single_tenant()"
            )
        if faults:
            raise ConfigurationError(self._where, faults)

    def __call__(
        self, function: Callable[[Delivery], Publish | None], /
    ) -> Callable[[Any, Any], Answer]:
        """The Lambda handler that accepts events and publishes what `function` returns.

        Raises:
            ConfigurationError: `function` is not a plain function of one argument.
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
            given_clock=self.clock,
        )

        @functools.wraps(function)
        def handler(event: Any, context: Any) -> Answer:
            return bound.answer(function, event, context)

        # The result is a handler of event and context, and not a function of a delivery.
        del handler.__wrapped__
        faults = second_operation(self.operation, function, handler, self.store)
        if faults:
            raise ConfigurationError(self._where, faults)
        mark_webhook(handler, bound)
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
        if given is None:
            # ONCEKEY_RETENTION_S would count, or a day, and events are sent again for longer.
            faults.append("retention is None: a timedelta is needed, or leave it out")
        if isinstance(given, timedelta) and given <= least:
            faults.append(
                f"retention is {self.retention}: an event is sent again for {least}, and would then"
                " be accepted twice"
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
    if is_coroutine_function(function) or is_generator_function(function):
        return ["a webhook's function only decides: write it as a plain def that returns"]
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return ["a webhook's function takes one argument, the delivery"]
    return []
