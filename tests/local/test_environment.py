"""What a function finds in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.service_environment import PROVIDER_URL, WEBHOOK_SECRET
from oncekey_local.description import (
    Function,
    Queue,
    QueueUrl,
    Route,
    Service,
    Setting,
    TableName,
)
from oncekey_local.functions.environment import (
    Place,
    function_environment,
    needs_provider,
    webhook_path,
)
from tests.support.sample_service import FAILING, SERVICE

if TYPE_CHECKING:
    import pytest

PLACE = Place(store_url="http://store", provider_url="http://provider", home="/home", overrides={})
ECHO = SERVICE.functions[0]


def test_description_is_resolved() -> None:
    """Table names and settings of the description have their local values."""
    assert ECHO.environment["THINGS_TABLE"] == TableName("things")
    assert ECHO.environment["PROVIDER_URL"] is PROVIDER_URL
    environment = function_environment(SERVICE, ECHO, PLACE)
    assert environment["THINGS_TABLE"] == "sample-local-things"
    assert environment["PROVIDER_URL"] == "http://provider"
    assert environment["PROVIDER_API_KEY"] == "sk_test_local"
    assert environment["GREETING"] == "hello"
    assert environment["AWS_ENDPOINT_URL"] == "http://store"


def test_queues_are_resolved() -> None:
    """A queue's URL is that of the local store; a FIFO queue's, and its dead letters', say so."""
    function = Function(
        name="f",
        handler="m.f",
        timeout_s=1,
        environment={
            "WORK": QueueUrl("work"),
            "WORK_DEAD": QueueUrl("work-dead-letters"),
            "ORDERED": QueueUrl("ordered"),
            "ORDERED_DEAD": QueueUrl("ordered-dead-letters"),
        },
    )
    queues = (Queue(name="work"), Queue(name="ordered", fifo=True))
    service = Service(name="sample", functions=(function,), tables=(), queues=queues)
    environment = function_environment(service, function, PLACE)
    prefix = "http://store/123456789012/sample-local-"
    assert {name: environment[name] for name in function.environment} == {
        "WORK": f"{prefix}work",
        "WORK_DEAD": f"{prefix}work-dead-letters",
        "ORDERED": f"{prefix}ordered.fifo",
        "ORDERED_DEAD": f"{prefix}ordered-dead-letters.fifo",
    }


def test_a_setting_has_its_local_value() -> None:
    """A service's own setting, secret or not, has the value that its description gives it here."""
    key = Setting("tax-key", local="tk_test", secret=True)
    function = Function(name="f", handler="m.f", timeout_s=1, environment={"TAX_KEY": key})
    service = Service(name="sample", functions=(function,), tables=())

    assert function_environment(service, function, PLACE)["TAX_KEY"] == "tk_test"
    assert not needs_provider(service)


def test_overrides_win() -> None:
    """A variable of the command line wins over the description's."""
    place = Place(store_url="", provider_url="", home="", overrides={"GREETING": "bye", "NEW": "1"})
    environment = function_environment(SERVICE, ECHO, place)
    assert (environment["GREETING"], environment["NEW"]) == ("bye", "1")


def test_the_developers_own_settings_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No AWS setting, proxy or secret of the developer's reaches a function."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "HTTPS_PROXY", "TOKEN"):
        monkeypatch.setenv(name, "private")
    environment = function_environment(SERVICE, ECHO, PLACE)
    assert "private" not in environment.values()
    assert environment["AWS_ACCESS_KEY_ID"] == "local-echo"


def test_provider_only_where_it_is_asked_for() -> None:
    """A service of which no function asks for the provider runs without one."""
    assert needs_provider(SERVICE)
    assert not needs_provider(FAILING)


def test_the_webhook_is_known_by_its_secret() -> None:
    """The provider's events go to the open route of the function that knows what it signs with."""

    def function(name: str, *routes: Route, **environment: Setting) -> Function:
        return Function(
            name=name, handler="m.f", timeout_s=1, routes=routes, environment=environment
        )

    closed = Route(method="POST", path="/closed")
    hook = Route(method="POST", path="/hook", authorized=False)
    secret = {"SECRET": WEBHOOK_SECRET}
    none = Service(
        name="sample", functions=(function("f", hook), function("g", closed, **secret)), tables=()
    )
    one = Service(name="sample", functions=(function("h", closed, hook, **secret),), tables=())

    assert webhook_path(none) is None
    assert webhook_path(one) == "/hook"
    assert function_environment(one, one.functions[0], PLACE)["SECRET"].startswith("whsec_")
