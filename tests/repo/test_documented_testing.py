"""The tutorial and the page on testing bring green tests for the handler of the front page."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import testing
from tests.support.documents import example, rows, run_example, text_of

if TYPE_CHECKING:
    from oncekey.testing import ManualClock, Tables, UseStore

PAGE = "layer/docs/guides/testing.md"


@pytest.fixture(autouse=True)
def payments(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The reader's `payments.py`: the handler of the front page and a call of the provider."""
    module = ModuleType("payments")
    module.__dict__["charge"] = NotImplemented
    exec(compile(example("README.md", "POST /payments"), "payments.py", "exec"), module.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "payments", module)
    return module


def test_the_first_test_is_green(use_store: UseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial's test passes as it is copied."""
    written = run_example("layer/docs/tutorial.md", "test_a_retry_is_not_charged_again")

    written["test_a_retry_is_not_charged_again"](use_store, monkeypatch)


def test_the_first_test_is_red_without_protection(
    payments: Any, use_store: UseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first test fails if the handler charges each time."""

    def unprotected(event: Any, _context: object) -> dict[str, Any]:
        body = {"charge_id": payments.charge(json.loads(event["body"])["amount"])}
        return {"statusCode": 201, "body": json.dumps(body)}

    monkeypatch.setattr(payments, "handler", unprotected)
    written = run_example("layer/docs/tutorial.md", "test_a_retry_is_not_charged_again")

    with pytest.raises(AssertionError):
        written["test_a_retry_is_not_charged_again"](use_store, monkeypatch)


def test_the_test_of_time_is_green(
    use_store: UseStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example with the clock passes as it is copied."""
    written = run_example("layer/docs/guides/testing.md", "clock.advance")

    written["test_a_key_is_forgotten_after_its_retention"](use_store, clock, monkeypatch)


def test_the_test_of_a_worker_is_green(
    use_store: UseStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of a queued handler passes as it is copied."""
    module = ModuleType("reports")
    module.__dict__["compile_report"] = NotImplemented
    code = example("layer/docs/guides/queued-work.md", "POST /reports")
    exec(compile(code, "reports.py", "exec"), module.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "reports", module)
    written = run_example("layer/docs/guides/testing.md", "let_time_pass(")

    written["test_a_report_is_made_by_the_worker"](use_store, clock, monkeypatch)


def test_the_test_with_tables_is_green(
    dynamodb_tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example with tables passes as it is copied."""
    written = run_example("layer/docs/guides/testing.md", "dynamodb_tables.client")

    written["test_a_payment_is_on_record"](dynamodb_tables, monkeypatch)


def test_the_events_of_the_page_are_made() -> None:
    """Each call in the page's table of events makes an event, and no event is left out."""
    calls = [row[0].strip("`") for row in rows(text_of(PAGE), "## Events")]
    public = {name: getattr(testing, name) for name in testing.__all__}
    made = [eval(call, dict(public)) for call in calls]  # noqa: S307 -- the page is ours

    assert all(isinstance(event, dict) for event in made)
    assert {call.partition("(")[0] for call in calls} == {
        name for name in testing.__all__ if name.endswith("_event")
    }


def test_a_store_of_ones_own_is_held_against_the_contract() -> None:
    """The class on the page inherits the contract's tests, and gives them its store."""
    page = run_example("layer/docs/guides/testing.md", "class TestMyStore")
    written = page["TestMyStore"]

    assert issubclass(written, testing.StoreContract)
    testing.StoreContract.test_nothing_is_none_and_no_error(written(), testing.MemoryStore())
    assert "store" in vars(written)
