"""One webhook, from the request to the answer."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from decimal import DecimalException
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.clock import is_beyond_the_calendar
from oncekey.effects.bare_run import BareRun
from oncekey.engine.request import deadline_ms
from oncekey.engine.reservation import ANSWER_MARGIN_MS
from oncekey.engine.store_state import state_of
from oncekey.errors import ConfigurationError, RequestRefused, StoreError, TransactionInvalid
from oncekey.flow.driver import drive
from oncekey.flow.retry import Budget
from oncekey.http.event import read_request
from oncekey.record.identity import Identity
from oncekey.record.outcome import RETRY_AFTER_PAUSED_MS
from oncekey.store import defaults, in_use
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import watching
from oncekey.telemetry import webhooks as webhook_telemetry
from oncekey.tenants import is_name
from oncekey.webhooks.acceptance import (
    Receipt,
    accept,
    accept_unless_paused,
    collected,
    completed_record,
    is_on_record,
)
from oncekey.webhooks.answers import answered, our_refusal, problem
from oncekey.webhooks.delivery import Delivery, Publish
from oncekey.webhooks.schemes import checked_id
from oncekey.webhooks.signatures import keys_of, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.clock import Clock
    from oncekey.effects.transaction import Collected
    from oncekey.flow.commands import Flow
    from oncekey.http.answer import Answer
    from oncekey.http.event import HttpRequest
    from oncekey.record.record import Record
    from oncekey.settings import Settings
    from oncekey.store.store import Store
    from oncekey.webhooks.signatures import Scheme, SecretsSource

# An attribute of the webhook's handler.
_ATTRIBUTE = "__oncekey_webhook__"

# Shopify has the shortest timeout of the senders: 5 s.
# https://shopify.dev/docs/apps/build/webhooks/subscribe/https
ANSWER_WITHIN_MS = 4_000
_MOST_FAILURES = 3
# The exceptions that an author's function raises for an event of an unexpected form. The last two
# are for an amount that is no decimal number, or too large a one, and a time beyond the calendar.
_UNEXPECTED = (
    LookupError,
    StopIteration,
    TypeError,
    AttributeError,
    ValueError,
    AssertionError,
    RecursionError,
    DecimalException,
    OverflowError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    """A request that is being answered."""

    request: HttpRequest
    settings: Settings
    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOperation:
    """The options of one webhook, checked."""

    name: str
    scheme: Scheme
    secrets: SecretsSource | None = field(repr=False)
    tenant: Callable[[Delivery], str | None] = field(repr=False)
    event_id: Callable[[Delivery], str | None] | None = field(repr=False)
    given_settings: Mapping[str, int | str]
    store: Store | None
    given_clock: Clock | None

    @property
    def clock(self) -> Clock:
        """The clock in use."""
        return in_use.clock_or(self.given_clock)

    def answer(
        self, function: Callable[[Delivery], Publish | None], event: Any, context: Any
    ) -> Answer:
        """Answer `event`. No request of a sender makes the layer raise.

        What `function` raises that is no question of the event's form is raised.

        Raises:
            ConfigurationError: there is no secret, table or outbox.
            TypeError: `event` is not an HTTP request, or `function` returned neither `Publish` nor
                None.
        """
        request = read_request(event)
        settings = defaults.settings(self.given_settings)
        now_ms = self.clock.now_ms()
        until_ms = deadline_ms(context, settings, now_ms)
        budget = Budget(
            until_ms=min(until_ms - ANSWER_MARGIN_MS, now_ms + ANSWER_WITHIN_MS),
            call_timeout_ms=settings.store_timeout_ms,
            max_failures=_MOST_FAILURES,
        )
        heard = _Arrived(request=request, settings=settings, budget=budget)
        try:
            keys = keys_of(self.scheme, self.secrets, self._where)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 -- raised by the author's callable
            webhook_telemetry.secrets_unavailable(self.name, error)
            return our_refusal("not-executed", request, settings)
        if until_ms <= now_ms:
            return our_refusal("not-executed", request, settings)
        try:
            delivery = self._delivery(request, keys, now_ms)
            identity = self._identity(delivery)
        except RequestRefused as error:
            # The notes are for the log alone.
            told = "; ".join([error.detail, *getattr(error, "__notes__", ())])
            webhook_telemetry.refused(self.name, error.code, told)
            return problem(error.code, request, settings, detail=error.detail)
        watching.look_again()
        tracing = watching.tracing()
        span = nullcontext() if tracing is None else tracing.span(f"oncekey {self.name}")
        with watching.counted_for(identity.tenant, self.name, self.clock), span:
            return self._heard(function, delivery, identity, heard)

    def _delivery(self, request: HttpRequest, keys: list[bytes], now_ms: int) -> Delivery:
        body = request.body
        verify(self.scheme, request, body, keys, now_ms)
        delivery = Delivery(id=self.scheme.event_id(request, body), body=body, request=request)
        if self.event_id is None:
            return delivery
        found, why = _asked("event_id=", self.event_id, delivery)
        try:
            return replace(delivery, id=checked_id(found))
        except RequestRefused as refused:
            refused.add_note(why)
            raise

    def _identity(self, delivery: Delivery) -> Identity:
        tenant, why = _asked("tenant=", self.tenant, delivery)
        if not is_name(tenant):
            detail = "The event does not say whose it is; nothing was done."
            refused = RequestRefused("tenant-missing", detail)
            refused.add_note(why)
            raise refused
        return Identity(tenant=tenant, operation=self.name, key=delivery.id)

    def _heard(
        self,
        function: Callable[[Delivery], Publish | None],
        delivery: Delivery,
        identity: Identity,
        heard: _Arrived,
    ) -> Answer:
        try:
            published = function(delivery)
        except (RequestRefused, *_UNEXPECTED, OSError) as error:
            if not _is_of_the_event(error):
                raise
            return self._not_understood(error, identity, heard)
        if published is None:
            return answered(Receipt.IGNORED, heard.request)
        if not isinstance(published, Publish):
            raise TypeError(
                f"oncekey: the function of {self.name} returns Publish(topic, payload), or None for"
                f" an event that is nothing to it, not {type(published).__name__}"
            )
        store = self._store(heard)
        if not store.has_outbox:
            fault = (
                "a webhook needs an outbox: name its table in ONCEKEY_OUTBOX_TABLE, or pass"
                " store=DynamoDBStore(table, outbox=...)"
            )
            raise ConfigurationError(self._where, [fault])
        record = completed_record(
            identity,
            self.clock,
            operation_id=self.clock.new_operation_id(),
            owner=self.clock.new_owner(),
            retention_s=heard.settings.retention_s,
        )
        try:
            messages = collected(published, record, store)
        except TransactionInvalid as error:
            return self._not_understood(error, identity, heard)
        if defaults.is_disabled():
            return _told(self._receipt(partial(_bare, messages, record), heard), heard)
        flow = partial(accept, record, messages)
        if heard.settings.pause_check_s:
            state = state_of(store)
            flow = partial(accept_unless_paused, record, messages, heard.settings, state)
        return _told(self._receipt(flow, heard), heard)

    def _not_understood(self, error: Exception, identity: Identity, heard: _Arrived) -> Answer:
        """400, unless the event is on record: a repeat of an accepted event always gets a 2xx."""
        if not defaults.is_disabled():
            receipt = self._receipt(partial(is_on_record, identity), heard)
            if receipt is not Receipt.NOT_SEEN:
                return _told(receipt, heard)
        webhook_telemetry.not_understood(self.name, error)
        detail = "The event does not have the form that is known here; nothing was done."
        return problem("event-invalid", heard.request, heard.settings, detail=detail)

    def _receipt(
        self, flow: Callable[[Budget, Clock], Flow[Receipt]], heard: _Arrived
    ) -> Receipt | Answer:
        """The receipt that `flow` returns, or a 503 if the store fails."""
        store = self._store(heard)
        breaker = state_of(store).breaker
        refused_for_ms = breaker.refuses_for_ms(self.clock.now_ms())
        if refused_for_ms:
            return our_refusal("store-unavailable", heard.request, heard.settings, refused_for_ms)
        try:
            receipt = drive(flow(heard.budget, self.clock), store=store, clock=self.clock)
        except StoreError as error:
            telemetry.store_unavailable(self.name, error)
            if error.is_outage:
                breaker.failed(self.clock.now_ms())
            return our_refusal("store-unavailable", heard.request, heard.settings)
        breaker.succeeded()
        return receipt

    def _store(self, heard: _Arrived) -> Store:
        return defaults.store(heard.settings.store_timeout_ms, self.store)

    @property
    def _where(self) -> str:
        return f"@webhook(operation={self.name!r})"


def _asked(
    option: str, source: Callable[[Delivery], str | None], delivery: Delivery
) -> tuple[object, str]:
    """What `source` finds in the event, and what it did, by types alone, if that is not usable.

    Where it raises for every event, or returns a number, the mistake is in the code.
    """
    try:
        found: object = source(delivery)
    except (*_UNEXPECTED, OSError) as error:
        if not _is_of_the_event(error):
            raise
        return None, f"{option} raised {type(error).__name__}"
    return found, f"{option} returned {'None' if found is None else f'a {type(found).__name__}'}"


def _is_of_the_event(error: Exception) -> bool:
    is_unexpected = isinstance(error, (RequestRefused, *_UNEXPECTED))
    return is_unexpected or is_beyond_the_calendar(error)


def _told(receipt: Receipt | Answer, heard: _Arrived) -> Answer:
    if receipt is Receipt.PAUSED:
        return our_refusal("paused", heard.request, heard.settings, RETRY_AFTER_PAUSED_MS)
    return answered(receipt, heard.request) if isinstance(receipt, Receipt) else receipt


async def _bare(messages: Collected, record: Record, budget: Budget, clock: Clock) -> Receipt:
    run = BareRun(
        operation_id=record.operation_id,
        clock=clock,
        until_ms=budget.until_ms,
        call_timeout_ms=budget.call_timeout_ms,
        collected=messages,
    )
    await run.apply()
    return Receipt.ACCEPTED


def mark_webhook(handler: Any, operation: WebhookOperation) -> None:
    """Attach `operation` to the handler that it answers for, for `webhook_of`."""
    setattr(handler, _ATTRIBUTE, operation)


def webhook_of(handler: object) -> WebhookOperation | None:
    """The operation of a handler under `@webhook`; None if it is none."""
    operation = getattr(handler, _ATTRIBUTE, None)
    return operation if isinstance(operation, WebhookOperation) else None
