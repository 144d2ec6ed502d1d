"""The typed description: what it refuses."""

from __future__ import annotations

import pytest

from oncekey_local.description import Attribute, Function, Route, Service, Table, TableName

TABLE = Table(name="records", partition_key=Attribute(name="pk"))


def _function(name: str = "pay", **changes: object) -> Function:
    given: dict[str, object] = {"handler": "functions.pay.handler", "timeout_s": 10, **changes}
    return Function(name=name, **given)  # type: ignore[arg-type]


def test_a_good_description_is_accepted() -> None:
    """A service whose names agree is created as given."""
    function = _function(routes=(Route(method="POST", path="/pay"),), reserves_in="records")

    service = Service(name="pay", functions=(function,), tables=(TABLE,))

    assert service.functions[0].routes[0].key == "POST /pay"


def test_all_faults_are_reported_at_once() -> None:
    """One message holds every fault: names and routes given twice, unknown tables, timeouts."""
    route = Route(method="POST", path="/pay")
    with pytest.raises(ValueError, match="service 'pay' is wrong") as caught:
        Service(
            name="pay",
            functions=(
                _function(routes=(route,), timeout_s=30),
                _function(routes=(route,), reserves_in="recrods"),
                _function("refund", environment={"TABLE": TableName("refunds")}),
                _function("report", reads=("archive",), writes=("reports",)),
            ),
            tables=(TABLE, TABLE),
        )

    message = str(caught.value)
    for fault in (
        "function 'pay' is named twice",
        "table 'records' is named twice",
        "route 'POST /pay' is named twice",
        "function 'pay' names table 'recrods'",
        "function 'refund' names table 'refunds'",
        "function 'report' names table 'archive'",
        "function 'report' names table 'reports'",
        "function 'pay' has routes and a timeout of 30 s",
    ):
        assert fault in message


def test_only_functions_behind_the_api_are_bound_by_its_timeout() -> None:
    """A function without routes may run longer than the API would wait."""
    service = Service(name="pay", functions=(_function(timeout_s=300),), tables=())

    assert service.functions[0].timeout_s == 300
