"""Two functions with one operation are refused; the same one, declared again, is not."""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, idempotent, idempotent_function, single_tenant
from oncekey.testing.memory import MemoryStore
from tests.support.garbage import collect_garbage

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = """
from oncekey import idempotent, idempotent_function, single_tenant
from oncekey.webhooks import StripeSignature, webhook

tenant = single_tenant()
"""
HTTP = """
@idempotent(operation={operation!r}, tenant=tenant)
def {name}(event, context):
    return {{"statusCode": 200}}
"""
FUNCTION = """
@idempotent_function(operation={operation!r}, tenant=tenant, key="@")
def {name}(record):
    return 1
"""
HOOK = """
@webhook(operation={operation!r}, scheme=StripeSignature(), tenant=tenant)
def {name}(delivery):
    return None
"""
KINDS = {"http": HTTP, "function": FUNCTION, "webhook": HOOK}


@pytest.fixture
def load(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Loads a module of this name and source; they are forgotten at the end."""
    made: list[str] = []

    def loaded(name: str, *sources: str) -> ModuleType:
        module = sys.modules.setdefault(name, ModuleType(name))
        made.append(name)
        exec(HEADER + "".join(sources), vars(module))  # noqa: S102 -- a module of a test
        return module

    yield loaded
    for name in made:
        vars(sys.modules.pop(name, ModuleType(name))).clear()
    collect_garbage()


@pytest.mark.fault("K12.2")
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_a_second_function_of_a_module_with_the_operation_is_refused(
    load: Any, first: str, second: str
) -> None:
    """Two functions of a module with one operation are refused, whatever their kinds; the message
    names both.

    Red when nobody looks whether the name is taken.
    """
    operation = f"one name for {first} and {second}"
    sources = [
        KINDS[kind].format(operation=operation, name=name)
        for kind, name in ((first, "pay"), (second, "refund"))
    ]

    with pytest.raises(ConfigurationError) as refused:
        load("a_service", *sources)

    assert "a_service.pay (line" in str(refused.value)
    assert "a_service.refund (line" in str(refused.value)
    assert repr(operation) in str(refused.value)


@pytest.mark.fault("K12.2")
def test_two_functions_in_one_function_are_refused() -> None:
    """A function that builds handlers does not give two of them one operation.

    Red when only functions of a module are compared.
    """

    @idempotent(operation="built twice", tenant=single_tenant())
    def first(event: Any, context: Any) -> None:
        """One."""

    with pytest.raises(ConfigurationError, match=r"second \(line .* of .*first \(line"):

        @idempotent(operation="built twice", tenant=single_tenant())
        def second(event: Any, context: Any) -> None:
            """Other."""

    assert callable(first)


@pytest.mark.fault("K12.2")
def test_a_module_that_is_loaded_again_declares_the_same_again(load: Any) -> None:
    """The same function of the same module is no second one, though the first is still referred to.

    Red when whatever is declared again is refused.
    """
    source = HTTP.format(operation="loaded again", name="pay")
    kept = load("a_service", source).pay

    again = load("a_service", "\n\n", source).pay

    assert kept is not again


@pytest.mark.fault("K12.2")
def test_a_function_that_is_gone_has_no_operation(load: Any) -> None:
    """Once nobody refers to a function, its operation is free, also where it refers to itself.

    Red when a name that was taken once is taken for good.
    """
    module = load("a_service", HTTP.format(operation="gone", name="pay"))
    module.pay.itself = module.pay
    del module.pay

    load("a_service", HTTP.format(operation="gone", name="charge"))


@pytest.mark.fault("K12.2")
def test_functions_with_stores_of_their_own_share_no_keys() -> None:
    """One operation in two stores is two.

    Red when the store does not count.
    """

    @idempotent_function(operation="two", key="@", tenant=single_tenant(), store=MemoryStore())
    def first(record: str) -> int:
        return 1

    @idempotent_function(operation="two", key="@", tenant=single_tenant(), store=MemoryStore())
    def second(record: str) -> int:
        return 2

    assert (first("a"), second("a")) == (1, 2)


@pytest.mark.fault("K12.2")
def test_a_second_module_is_refused_in_a_lambda_and_logged_elsewhere(
    load: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a Lambda loads serves together. Tests load the modules of many functions: there the log
    says it.

    Red when a service of two modules is not looked at, or a test cannot load two functions.
    """
    load("payments_service", HTTP.format(operation="two modules", name="pay"))
    with caplog.at_level(logging.WARNING, logger="oncekey"):
        load("refunds_service", HTTP.format(operation="two modules", name="pay"))
    (said,) = caplog.records
    assert "payments_service.pay" in said.getMessage()
    assert "refunds_service.pay" in said.getMessage()

    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "api")
    with pytest.raises(ConfigurationError, match=r"third_service\.pay.*payments_service\.pay"):
        load("third_service", HTTP.format(operation="two modules", name="pay"))


@pytest.mark.fault("K12.2")
def test_lambdas_are_told_apart_by_their_lines() -> None:
    """Two lambdas have one name, and are two functions; one that is made again is itself.

    Red when every lambda is taken for every other.
    """

    def made() -> Any:
        decorator: Any = idempotent_function(operation="a lambda", key="@", tenant=single_tenant())
        return decorator(lambda record: 1)

    kept = [made(), made()]
    decorator: Any = idempotent_function(operation="two lambdas", key="@", tenant=single_tenant())
    kept.append(decorator(lambda record: 1))
    with pytest.raises(ConfigurationError, match="two lambdas"):
        decorator(lambda record: 2)
    assert len(kept) == 3
