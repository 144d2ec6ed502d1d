"""The typed description: what it refuses."""

from __future__ import annotations

import dataclasses
import re

import pytest

from oncekey_local.description import (
    Allow,
    Attribute,
    BucketName,
    Function,
    Index,
    Queue,
    QueueTrigger,
    QueueUrl,
    Route,
    Service,
    Setting,
    StreamTrigger,
    Table,
    TableName,
    outbox_table,
    records_table,
)

TABLE = records_table("records")
BY_TENANT = Index(name="by-tenant", partition_key=Attribute(name="tenant"))
STREAMED = Table(name="outbox", partition_key=Attribute(name="pk"), stream=True)


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
                _function("show", routes=(Route(method="get", path="pay"),)),
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
        "route 'get pay': the method is one of ANY, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
        "route 'get pay': the path must begin with a slash",
    ):
        assert fault in message


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/orders/{order_id", "is a whole segment"),
        ("/orders/order_id}", "is a whole segment"),
        ("/orders/{}", "is a whole segment"),
        ("/orders/no-{order_id}", "is a whole segment"),
        ("/{all+}/orders", "is the last segment"),
        ("/orders/{id}/items/{id}", "'id' is there twice"),
    ],
)
def test_a_path_that_api_gateway_refuses_is_refused(path: str, fault: str) -> None:
    """A template that no API can have is refused before a deployment fails in the middle."""
    with pytest.raises(ValueError, match=f"route 'POST {re.escape(path)}': .*{fault}"):
        Service(
            name="pay",
            functions=(_function(routes=(Route(method="POST", path=path),)),),
            tables=(TABLE,),
        )


@pytest.mark.parametrize("path", ["/", "/orders/{order-id}", "/{all+}", "/a/{b}/c/{d+}", "/a:b"])
def test_a_path_that_api_gateway_takes_is_accepted(path: str) -> None:
    """Parameters are whole segments, and one that takes all the rest is the last."""
    route = Route(method="POST", path=path)
    service = Service(name="pay", functions=(_function(routes=(route,)),), tables=(TABLE,))

    assert service.functions[0].routes == (route,)


@pytest.mark.parametrize("name", ["orders-table", "1ST", "A", "A B", ""])
def test_a_variable_that_lambda_refuses_is_refused(name: str) -> None:
    """A variable's name is a letter, and then letters, digits and underscores, as Lambda wants."""
    with pytest.raises(ValueError, match=f"function 'pay' has a variable {name!r}: "):
        Service(name="pay", functions=(_function(environment={name: "x", "OK_1": "y"}),), tables=())


def test_the_layers_tables_have_the_layers_schema() -> None:
    """A table that a function reserves in, reconciles or relays from has the key and the TTL that
    the layer needs. More indexes and a stream are welcome.

    Red when a deployment would make another table than the local runtime.
    """
    mine = Table(name="records", partition_key=Attribute(name="id"), ttl_attribute="expires_at")
    late = dataclasses.replace(outbox_table("outbox"), ttl_attribute="expires_at")
    more = dataclasses.replace(TABLE, stream=True, indexes=(*TABLE.indexes, BY_TENANT))
    with pytest.raises(ValueError, match="service 'pay' is wrong") as caught:
        Service(
            name="pay",
            functions=(
                _function("a", reserves_in="records", relays_from="outbox"),
                _function("b", reconciles="records"),
            ),
            tables=(mine, late),
        )

    for fault in (
        (
            "function 'a' has reserves_in='records', a table with another key, TTL or index than"
            " the layer needs: use records_table('records')"
        ),
        "function 'b' has reconciles='records'",
        (
            "function 'a' has relays_from='outbox', a table with another key, TTL or index than"
            " the layer needs: use outbox_table('outbox')"
        ),
    ):
        assert fault in str(caught.value)
    Service(name="pay", functions=(_function(reserves_in="records"),), tables=(more,))
    due = dataclasses.replace(TABLE.indexes[0], sort_key=None)
    with pytest.raises(ValueError, match="reserves_in='records', a table with another key, TTL or"):
        Service(
            name="pay",
            functions=(_function(reserves_in="records"),),
            tables=(dataclasses.replace(TABLE, indexes=(due,)),),
        )


def test_what_aws_would_refuse_is_refused() -> None:
    """A name, a key, an index, a timeout, memory or a handler that AWS does not take is refused
    here, and neither when the app is synthesised nor in the middle of a deployment.

    Red when such a description is accepted.
    """
    with pytest.raises(ValueError, match="service 'pay' is wrong") as caught:
        Service(
            name="pay",
            functions=(
                _function("a", timeout_s=0, memory_mb=64),
                _function("b", memory_mb=10_241, handler="handler"),
            ),
            tables=(
                Table(name="my orders", partition_key=Attribute(name="id", type="B")),
                Table(
                    name="orders",
                    partition_key=Attribute(name="id"),
                    indexes=(
                        Index(name="by-id", partition_key=Attribute(name="id", type="N")),
                        Index(name="by-id", partition_key=Attribute(name="day")),
                    ),
                ),
            ),
        )

    for fault in (
        "table 'my orders' has a name that DynamoDB would refuse",
        "table 'my orders' has the key 'id' of type B: one of S and N",
        "table 'orders' has the index 'by-id' twice",
        "table 'orders' has the key 'id' of type N and S: one of S and N",
        "function 'a' has a timeout of 0 s: at least 1",
        "function 'a' has 64 MB of memory: 128 to 10240",
        "function 'b' has 10241 MB of memory: 128 to 10240",
        "function 'b' has the handler 'handler': say MODULE.NAME, from the root",
    ):
        assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("allow", "fault"),
    [
        (
            Allow(actions=("s3:GetObject",), on=TableName("records")),
            (
                "allows 's3:GetObject' on TableName(table='records'): say a whole action of that"
                " resource, such as 'dynamodb:...'"
            ),
        ),
        (Allow(actions=("dynamodb:*",), on=TableName("records")), "allows 'dynamodb:*' on"),
        (
            Allow(actions=("sqs:SendMessage",), on=QueueUrl("work"), objects="reports/"),
            "allows objects of QueueUrl(queue='work'): only buckets have any",
        ),
        (Allow(actions=("sqs:SendMessage",), on=QueueUrl("void")), "names queue 'void'"),
        (Allow(actions=("s3:PutObject",), on=BucketName("void")), "names bucket 'void'"),
        (Allow(actions=("dynamodb:Scan",), on=TableName("void")), "names table 'void'"),
    ],
)
def test_what_else_a_function_may_do_is_an_action_of_a_resource(allow: Allow, fault: str) -> None:
    """`allows=` takes whole actions of one resource of the description, and no wildcard."""
    assert f"function 'pay' {fault}" in _refusal(
        _function(allows=(allow,)), queues=(Queue(name="work"),)
    )


def test_names_that_aws_would_refuse_are_refused() -> None:
    """A function's name becomes part of names in AWS, and a setting has one description."""
    message = _refusal(
        _function("Pay_Now"),
        _function("a", environment={"URL": Setting("url", local="http://a")}),
        _function("b", environment={"URL": Setting("url", local="http://b")}),
    )

    assert "function 'Pay_Now' has a name that AWS would refuse" in message
    assert "setting 'url' is described twice, differently" in message


def test_only_functions_behind_the_api_are_bound_by_its_timeout() -> None:
    """A function without routes may run longer than the API would wait."""
    service = Service(name="pay", functions=(_function(timeout_s=300),), tables=())

    assert service.functions[0].timeout_s == 300


def _refusal(*functions: Function, queues: tuple[Queue, ...] = ()) -> str:
    """What the description of these is refused with."""
    with pytest.raises(ValueError, match="service 'pay' is wrong") as caught:
        Service(name="pay", functions=functions, tables=(TABLE, STREAMED), queues=queues)
    return str(caught.value)


def test_a_good_description_of_events_is_accepted() -> None:
    """Streams, queues and what is sent to them are created as given."""
    relay = _function(
        "relay",
        streams=(StreamTrigger(table="outbox", on_failure="lost-dead-letters"),),
        sends_to=("work", "lost-dead-letters"),
        deletes=("outbox",),
    )
    worker = _function("worker", queues=(QueueTrigger(queue="work", batch_size=100, window_s=2),))
    ordered = _function("ordered", queues=(QueueTrigger(queue="ordered"),))
    queues = (Queue(name="work"), Queue(name="ordered", fifo=True), Queue(name="lost"))

    service = Service(
        name="pay", functions=(relay, worker, ordered), tables=(STREAMED,), queues=queues
    )

    assert [queue.dead_letters for queue in service.queues] == [
        "work-dead-letters",
        "ordered-dead-letters",
        "lost-dead-letters",
    ]
    assert [service.visibility_timeout_s(queue) for queue in queues] == [62, 60, 30]


def test_a_visibility_timeout_may_be_longer_than_it_must() -> None:
    """One that is given is taken, from six times the function's timeout and the window on."""
    worker = _function("worker", queues=(QueueTrigger(queue="work", window_s=5),))
    for given_s in (65, 900):
        queue = Queue(name="work", visibility_timeout_s=given_s)
        service = Service(name="pay", functions=(worker,), tables=(), queues=(queue,))
        assert service.visibility_timeout_s(queue) == given_s


@pytest.mark.case(39)
def test_a_visibility_timeout_that_is_too_short_is_refused() -> None:
    """A queue hands out no message that may still be worked on: a shorter override raises.

    Red when the window or the factor six is left out of the rule.
    """
    worker = _function("worker", queues=(QueueTrigger(queue="work", window_s=5),))

    message = _refusal(worker, queues=(Queue(name="work", visibility_timeout_s=64),))

    assert "queue 'work' has a visibility timeout of 64 s: at least 65, six times" in message


def test_all_faults_of_names_are_reported_at_once() -> None:
    """One message holds every queue and table that is unknown, or named twice, or impossible."""
    message = _refusal(
        _function("a", sends_to=("nowhere",), environment={"Q": QueueUrl("missing")}),
        _function("b", streams=(StreamTrigger(table="archive", on_failure="absent"),)),
        _function("c", queues=(QueueTrigger(queue="void"), QueueTrigger(queue="dup-dead-letters"))),
        _function("d", updates=("gone",), deletes=("deleted",), relays_from="outbux"),
        queues=(
            Queue(name="dup"),
            Queue(name="dup"),
            Queue(name="My_Queue"),
            Queue(name="q" * 60),
        ),
    )

    for fault in (
        "function 'a' names queue 'nowhere'",
        "function 'a' names queue 'missing'",
        "function 'b' names table 'archive'",
        "function 'b' names queue 'absent'",
        "function 'c' names queue 'void'",
        "function 'c' and queue 'dup-dead-letters': dead letters trigger nothing",
        "function 'd' names table 'gone'",
        "function 'd' names table 'deleted'",
        "function 'd' names table 'outbux'",
        "queue 'dup' is named twice",
        "queue 'dup-dead-letters' is named twice",
        "queue 'My_Queue' has a name that SQS would refuse",
        f"queue '{'q' * 60}' has a name that SQS would refuse",
    ):
        assert fault in message


@pytest.mark.parametrize(
    ("queue", "fault"),
    [
        ({"max_receives": 0}, "gives up after 0 receives: 1 to 1000"),
        ({"max_receives": 1001}, "gives up after 1001 receives"),
        ({"retention_days": 0}, "keeps messages for 0 days: 1 to 13"),
        ({"retention_days": 14}, "keeps messages for 14 days: 1 to 13"),
        ({"visibility_timeout_s": -1}, "has a visibility timeout of -1 s: 0 to 43200"),
        ({"visibility_timeout_s": 43_201}, "has a visibility timeout of 43201 s"),
    ],
)
def test_limits_of_queues(queue: dict[str, int], fault: str) -> None:
    """What SQS would refuse of a queue, or what would lose its dead letters, is refused here."""
    worker = _function("w", queues=(QueueTrigger(queue="work"),))
    assert f"queue 'work' {fault}" in _refusal(worker, queues=(Queue(name="work", **queue),))  # type: ignore[arg-type]


@pytest.mark.fault("K5.8")
@pytest.mark.parametrize("days", [0, 4, 13, 15])
def test_a_queue_that_waits_for_people_keeps_its_messages_14_days(days: int) -> None:
    """Messages that no function works on are kept for 14 days, and a description that says less is
    refused; what a function works on is kept for 4 days.

    Red when an untriggered queue has the retention of one that a function works on.
    """
    worker = _function("w", queues=(QueueTrigger(queue="work"),))
    told, work = Queue(name="told"), Queue(name="work")
    service = Service(name="pay", functions=(worker,), tables=(), queues=(told, work))

    assert (service.retention_days(told), service.retention_days(work)) == (14, 4)
    refusal = _refusal(queues=(Queue(name="told", retention_days=days),))
    assert f"queue 'told' keeps messages for {days} days, and no function works on them" in refusal


@pytest.mark.parametrize(
    ("name", "trigger", "fault"),
    [
        ("work", {"batch_size": 0}, "batch_size=0 must be 1 to 10000"),
        ("work", {"batch_size": 10_001, "window_s": 1}, "batch_size=10001 must be"),
        ("work", {"batch_size": 11}, "a batch_size of more than 10 needs a window_s"),
        ("work", {"window_s": 301}, "window_s=301 must be 0 to 300"),
        ("work", {"max_concurrency": 1}, "max_concurrency=1 must be 2 to 1000, or None"),
        ("work", {"max_concurrency": 1001}, "max_concurrency=1001 must be"),
        ("ordered", {"batch_size": 11}, "batch_size=11 must be 10 at the most"),
        ("ordered", {"window_s": 1}, "a FIFO queue has no window; say window_s=0"),
    ],
)
def test_limits_of_queue_triggers(name: str, trigger: dict[str, int], fault: str) -> None:
    """What Lambda would refuse of a queue's trigger is refused here."""
    worker = _function("w", queues=(QueueTrigger(queue=name, **trigger),))  # type: ignore[arg-type]
    queues = (Queue(name="work"), Queue(name="ordered", fifo=True))
    assert f"function 'w' and queue '{name}': {fault}" in _refusal(worker, queues=queues)


@pytest.mark.parametrize(
    ("trigger", "fault"),
    [
        ({"table": "records"}, "the table has no stream; say stream=True"),
        ({"event_names": ()}, "event_names are some of INSERT, MODIFY, REMOVE"),
        ({"event_names": ("INSERT", "DELETE")}, "event_names are some of"),
        ({"max_attempts": 0}, "max_attempts=0 must be 1 to 10000"),
        ({"batch_size": 0}, "batch_size=0 must be 1 to 10000"),
        ({"window_s": -1}, "window_s=-1 must be 0 to 300"),
        ({"on_failure": "ordered"}, "Lambda sends what has failed to no FIFO queue, such as"),
        ({"on_failure": "ordered-dead-letters"}, "Lambda sends what has failed to no FIFO queue"),
    ],
)
def test_limits_of_stream_triggers(trigger: dict[str, object], fault: str) -> None:
    """What Lambda would refuse of a stream's trigger is refused here."""
    given: dict[str, object] = {"table": "outbox", **trigger}
    relay = _function("r", streams=(StreamTrigger(**given),))  # type: ignore[arg-type]
    message = _refusal(relay, queues=(Queue(name="ordered", fifo=True),))
    assert f"function 'r' and table '{given['table']}': {fault}" in message


def test_a_trigger_is_nobody_elses() -> None:
    """A queue triggers one function, once, and a table's stream triggers a function once."""
    twice = (QueueTrigger(queue="work"), QueueTrigger(queue="work"))
    streams = (StreamTrigger(table="outbox"), StreamTrigger(table="outbox"))

    message = _refusal(
        _function("a", queues=twice),
        _function("b", streams=streams),
        queues=(Queue(name="work"),),
    )

    assert "function 'a' is triggered by queue 'work' twice" in message
    assert "function 'b' is triggered by table 'outbox' twice" in message
    both = (_function(name, queues=(QueueTrigger(queue="work"),)) for name in ("a", "b"))
    assert "queue 'work' triggers 'a', 'b': each message would reach one of them only" in _refusal(
        *both, queues=(Queue(name="work"),)
    )
