"""Powertools resolvers to send sample events to, with a store and a clock of their own."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import (
    ALBResolver,
    APIGatewayHttpResolver,
    APIGatewayRestResolver,
    LambdaFunctionUrlResolver,
)

from oncekey import single_tenant
from oncekey.powertools.middleware import idempotent_route
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.protected import Answer, Context, Sender

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.event_handler.api_gateway import ApiGatewayResolver

# Sample event → the resolver of its shape.
RESOLVERS: dict[str, type[ApiGatewayResolver]] = {
    "apigw_http_v2_post": APIGatewayHttpResolver,
    "apigw_http_v2_base64_post": APIGatewayHttpResolver,
    "apigw_rest_v1_post": APIGatewayRestResolver,
    "alb_post": ALBResolver,
    "alb_multi_value_post": ALBResolver,
    "function_url_post": LambdaFunctionUrlResolver,
}
# Another key than that of the sample events.
OTHER_KEY = "another-key-of-this-client"


class Service(Sender):
    """A resolver for the sample event `shape`; `protect` makes middlewares on its store."""

    def __init__(self, shape: str = "apigw_http_v2_post", **resolver_options: Any) -> None:
        self.app = RESOLVERS[shape](**resolver_options)
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.runs: list[str] = []

    def protect(self, **options: Any) -> idempotent_route:
        """A middleware for the only tenant, unless told otherwise."""
        given: dict[str, Any] = {"tenant": single_tenant(), **options}
        return idempotent_route(store=self.store, clock=self.clock, **given)

    def send(self, event: Mapping[str, Any], *, timeout_ms: int = 10_000) -> Answer:
        """One invocation."""
        answer: Answer = self.app.resolve(copy.deepcopy(dict(event)), self.context(timeout_ms))  # type: ignore[arg-type]
        return answer

    def context(self, timeout_ms: int = 10_000) -> Context:
        """The context of an invocation that begins now."""
        return Context(self.clock, self.clock.now_ms() + timeout_ms)
