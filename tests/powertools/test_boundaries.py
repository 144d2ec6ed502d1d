"""The middleware for Powertools keeps the boundaries that the decorator keeps."""

from __future__ import annotations

from typing import Any

import pytest
from aws_lambda_powertools.event_handler import Response

from oncekey import current_operation, jwt_claim
from tests.support.events import load, with_key, with_route, with_tenant
from tests.support.protected import headers_of, is_replay, problem_of
from tests.support.routes import Service

POST = load("apigw_http_v2_post")


def service_of(**options: Any) -> Service:
    """Routes of every method behind one middleware."""
    service = Service()
    service.app.use(middlewares=[service.protect(**options)])

    @service.app.route("/payments", method=["GET", "PUT", "POST"])
    def payments() -> Response[Any]:
        service.runs.append(current_operation().tenant)
        headers: Any = {"X-Cost": "5", "X-Request-Id": "r-1", "ETag": "1"}
        return Response(201, "text/plain", "made", headers=headers)

    return service


@pytest.mark.fault("K7.2")
@pytest.mark.parametrize(
    ("method", "options"), [("GET", {}), ("PUT", {}), ("POST", {"required": False})]
)
def test_a_route_without_a_key_runs_for_a_tenant_that_is_known(
    method: str, options: dict[str, Any]
) -> None:
    """A route that needs no key is refused where nobody is named, and knows its tenant elsewhere.

    Red when the middleware lets a request pass before it knows who sent it.
    """
    service = service_of(tenant=jwt_claim("tenant_id"), **options)
    event = with_key(with_route(POST, method, "/payments"))

    assert problem_of(service.send(with_tenant(event, "null")))[:2] == (403, "tenant-missing")
    assert service.runs == []
    assert service.send(event)["statusCode"] == 201
    assert service.runs == ["tenant-1"]


@pytest.mark.fault("K8.2")
def test_a_route_leaves_out_what_its_middleware_names() -> None:
    """A URL that was signed anew, through another base path, is the same request.

    Red when the middleware does not hand its options on.
    """
    service = service_of(ignore_query=("X-Amz-*",))

    service.send({**POST, "rawQueryString": "X-Amz-Signature=1"})
    assert is_replay(service.send({**POST, "rawQueryString": "X-Amz-Signature=2"}))
    assert problem_of(service.send({**POST, "rawQueryString": "a=1"}))[1] == "key-reused"


@pytest.mark.fault("K9.3")
def test_a_route_replays_the_headers_of_its_answer() -> None:
    """The rule and the author's choice hold for routes as well.

    Red when the response is rebuilt from all that was first sent.
    """
    service = service_of(replay_headers={"x-cost": False})

    first, replay = headers_of(service.send(POST)), headers_of(service.send(POST))

    assert (first["x-cost"], first["x-request-id"], first["etag"]) == ("5", "r-1", "1")
    assert replay["etag"] == "1"
    assert replay.keys().isdisjoint({"x-cost", "x-request-id"})
