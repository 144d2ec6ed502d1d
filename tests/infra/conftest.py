"""The synthesised app, once for all tests: starting node and synthesising take seconds."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from infra import service_stack
from infra.environments import EXAMPLE_ACCOUNT, EXAMPLE_REGION
from infra.layer_bundle import bundle_layer
from tests.support.sample_templates import synthesise_events
from tests.support.templates import Synthesised, synthesise

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCTION = {
    "stage": "production",
    "jwt_issuer": "https://login.example.com/",
    "jwt_audience": "payments-api",
    "account": EXAMPLE_ACCOUNT,
    "region": EXAMPLE_REGION,
}


@pytest.fixture(scope="session", autouse=True)
def one_layer() -> Iterator[None]:
    """The layer of each target is made once, for all the apps: its files are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_stack, "bundle_layer", functools.cache(bundle_layer))
        yield


@pytest.fixture(scope="session")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """The app of stage dev, from no context at all."""
    return synthesise({}, tmp_path_factory.mktemp("dev"))


@pytest.fixture(scope="session")
def production(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """The app of stage production."""
    return synthesise(PRODUCTION, tmp_path_factory.mktemp("production"))


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """Stage production beside the first one, in the same account and Region, with a canary."""
    context = {**PRODUCTION, "name": "subscriptions", "canary_customer": "cus_canary"}
    return synthesise(context, tmp_path_factory.mktemp("second"))


@pytest.fixture(scope="session", params=["dev", "production"])
def app(request: pytest.FixtureRequest) -> Synthesised:
    """The app of each stage in turn, for what must hold in every one."""
    synthesised: Synthesised = request.getfixturevalue(request.param)
    return synthesised


@pytest.fixture(
    scope="session", params=["dev", pytest.param("production", marks=pytest.mark.proof)]
)
def events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """A service with streams and queues, of each stage in turn."""
    context = {"dev": {}, "production": PRODUCTION}[request.param]
    return synthesise_events(context, tmp_path_factory.mktemp(f"events-{request.param}"))
