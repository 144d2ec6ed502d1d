"""What the facts mean: each finding says what to do. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.record.record import SETTLED, Status
from oncekey.settings import LEASE_MARGIN_MS, STORE_TIMEOUT_MS
from oncekey.store.dynamodb.schema import DUE_INDEX, IDEMPOTENCY, OUTBOX
from oncekey_operator.output import counted, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from oncekey.store.dynamodb.schema import TableSchema
    from oncekey_operator.diagnosis.facts import Facts, TableFacts
    from oncekey_operator.diagnosis.functions import FunctionFacts

OK, WARNING, FAULT = "ok", "warning", "fault"
_MARGIN_S = LEASE_MARGIN_MS / 1000
# The Date header has whole seconds.
_CLOCK_WARNS_S = 2.0
_LEASE_WARNS_PERCENT = 80
# So many missed runs mean that the reconciler does not run, or cannot keep up; the alarm says so
# after as many. Never less than this: a run takes time, too.
_MISSED_RUNS = 3
_LEAST_OVERDUE_S = 30
# Of an event source; all but the first in the middle of a deployment.
_RUNS = ("Enabled", "Enabling", "Creating", "Updating")
_DIGEST = "[A-Za-z0-9_-]{43}"
# Every form that `pk` has, as the page on what is stored lists them.
_KEYS = re.compile(rf"v1#{_DIGEST}(#.+)?|op#.+|quota#.+|due#shards|pause#.+", re.DOTALL)
_STATUSES = frozenset(each.value for each in Status)
_RECORD = re.compile(rf"v1#{_DIGEST}")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: `ok`, `warning` or `fault`.
        check: what was looked at.
        found: what is there.
        advice: what to do; empty if nothing.
    """

    level: str
    check: str
    found: str
    advice: str = ""


def findings(facts: Facts) -> list[Finding]:
    """All findings, the faults first."""
    found = [*_all(facts)]
    return sorted(found, key=lambda one: (FAULT, WARNING, OK).index(one.level))


def _all(facts: Facts) -> Iterator[Finding]:
    yield from _clock(facts.ahead_s)
    if facts.records.description is None:
        yield _fault(
            "table", f"there is no table {facts.table}", "correct its name, the Region or profile"
        )
        return
    yield from _table(facts.records, IDEMPOTENCY, "table", facts)
    yield from _index(facts)
    yield from _reconciler(facts)
    if facts.outbox is not None:
        yield from _outbox(facts)
    yield from _queues(facts)
    yield from _permissions(facts)
    yield from _functions(facts)
    yield from _lease(facts)
    yield from _items(facts)
    for what, words in facts.unasked.items():
        yield Finding(
            level=WARNING, check=what, found="not known", advice=f"it could not be asked: {words}"
        )


def _clock(ahead_s: float | None) -> Iterator[Finding]:
    if ahead_s is None:
        return
    found = f"{abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} AWS's"
    if abs(ahead_s) > _MARGIN_S:
        yield _fault(
            "clock",
            found,
            f"set this machine's clock: leases are compared with it, and allow {_MARGIN_S:g} s",
        )
    elif abs(ahead_s) > _CLOCK_WARNS_S:
        yield _warning("clock", found, "let a time service set this machine's clock")
    else:
        yield _ok("clock", found)


def _table(table: TableFacts, schema: TableSchema, check: str, facts: Facts) -> Iterator[Finding]:
    description: Any = table.description
    keys = _keys(description, description["KeySchema"])
    if keys == [(schema.partition_key, "HASH", "S")]:
        yield _ok(f"{check}: key", schema.partition_key)
    else:
        yield _fault(
            f"{check}: key",
            ", ".join(name for name, _, _ in keys),
            f"it needs the partition key {schema.partition_key} (S) and no sort key: name another"
            " table, or make it anew",
        )
    yield from _ttl(table, schema, check)
    yield from _protection(table, check, facts)


def _ttl(table: TableFacts, schema: TableSchema, check: str) -> Iterator[Finding]:
    if table.ttl is None:
        return
    status = table.ttl.get("TimeToLiveStatus", "DISABLED")
    attribute = table.ttl.get("AttributeName", "")
    is_on = status in ("ENABLED", "ENABLING")
    wanted = schema.ttl_attribute
    if not wanted and is_on:
        yield _fault(
            f"{check}: TTL", f"on, by {attribute}", "switch it off: it deletes unsent messages"
        )
    elif wanted and not (is_on and attribute == wanted):
        yield _fault(
            f"{check}: TTL",
            f"on, by {attribute}" if is_on else "off",
            f"switch it on, by {wanted}: expired records stay for ever, and are paid for",
        )
    else:
        yield _ok(f"{check}: TTL", f"on, by {attribute}" if is_on else "off")


def _protection(table: TableFacts, check: str, facts: Facts) -> Iterator[Finding]:
    description: Any = table.description
    status = description.get("TableStatus", "ACTIVE")
    if status not in ("ACTIVE", "UPDATING"):
        yield _fault(f"{check}: status", status, "nothing works until the table is ACTIVE")
    sse = description.get("SSEDescription", {})
    if "InaccessibleEncryptionDateTime" in sse:
        yield _fault(
            f"{check}: encryption",
            "DynamoDB cannot use the customer's key",
            "enable the key and allow DynamoDB to use it; after seven days the table is archived",
        )
    else:
        yield _ok(f"{check}: encryption", sse.get("SSEType", "a key of DynamoDB's own"))
    replicas = [one.get("RegionName") for one in description.get("Replicas", [])]
    if replicas and check == "table":
        yield _fault(
            "table: Regions",
            f"a global table ({', '.join(map(str, replicas))})",
            "use a table of one Region: two Regions could both run one request",
        )
    if facts.is_local:
        return
    if table.recovery == "DISABLED":
        yield _warning(
            f"{check}: recovery",
            "off",
            "switch point-in-time recovery on: without the records, every retry runs again",
        )
    if description.get("DeletionProtectionEnabled") is False:
        yield _warning(f"{check}: deletion", "not protected", "switch deletion protection on")


def _index(facts: Facts) -> Iterator[Finding]:
    description: Any = facts.records.description
    indexes = description.get("GlobalSecondaryIndexes", [])
    due = next((one for one in indexes if one["IndexName"] == DUE_INDEX), None)
    with_records = [one for one in facts.functions if one.has_records]
    shards = {one.variables.get("ONCEKEY_DUE_SHARDS") for one in with_records}
    if due is None and shards == {"0"}:
        yield _ok("index", "none, and no function uses one")
        return
    wanted = [("due_shard", "HASH", "S"), ("due_at", "RANGE", "N")]
    if due is None or _keys(description, due["KeySchema"]) != wanted:
        yield _fault(
            "index",
            "none" if due is None else "other keys",
            f"make the index {DUE_INDEX} with due_shard (S) and due_at (N): without it no"
            " reconciler finds anything; or set ONCEKEY_DUE_SHARDS=0 everywhere",
        )
    elif due.get("IndexStatus", "ACTIVE") != "ACTIVE":
        yield _warning("index", due["IndexStatus"], "wait until it is ACTIVE")
    else:
        yield _ok("index", DUE_INDEX)


def _reconciler(facts: Facts) -> Iterator[Finding]:
    every_s, overdue_s = facts.reconciler_every_s, facts.overdue_s
    if not every_s:
        yield _fault(
            "reconciler",
            "nothing calls it",
            "give it a schedule (`oncekey dev` without --schedule-s off): dead attempts are not"
            " ended, and nothing is settled",
        )
    elif overdue_s is not None and overdue_s > max(_MISSED_RUNS * every_s, _LEAST_OVERDUE_S):
        yield _fault(
            "reconciler",
            f"a record is due since {duration(int(overdue_s))}, and it runs each"
            f" {duration(int(every_s))}",
            "look at the reconciler's schedule and log: it does not run, or fails",
        )
    elif overdue_s is not None:
        yield _ok("reconciler", "no record is overdue")
    for name, state in facts.rules.items():
        if state == "DISABLED":
            yield _fault(f"schedule {name}", "disabled", "enable this rule: it calls nothing")


def _outbox(facts: Facts) -> Iterator[Finding]:
    assert facts.outbox is not None
    description: Any = facts.outbox.description
    if description is None:
        yield _fault("outbox", "there is no such table", "correct its name")
        return
    yield from _table(facts.outbox, OUTBOX, "outbox", facts)
    stream = description.get("StreamSpecification", {})
    if not stream.get("StreamEnabled") or "NEW" not in stream.get("StreamViewType", ""):
        yield _fault(
            "outbox: stream",
            stream.get("StreamViewType", "off"),
            "switch on a stream with new images: the relay reads the messages from it",
        )
        return
    yield _ok("outbox: stream", stream["StreamViewType"])
    if facts.relays is None:
        return
    running = [one for one in facts.relays if one.get("State") in _RUNS]
    if not running:
        yield _fault(
            "outbox: relay",
            "none, or switched off",
            "enable the event source of the relay: messages wait for the reconciler alone",
        )
    for one in running:
        result = str(one.get("LastProcessingResult", ""))
        if result.startswith("PROBLEM"):
            yield _fault("outbox: relay", result, "look at the relay's log")


def _queues(facts: Facts) -> Iterator[Finding]:
    if facts.dead_letters:
        yield _fault(
            "dead letters",
            f"about {facts.dead_letters}",
            "`oncekey redrive --dead-letters --dry-run` shows them: correct what failed, and send"
            " them again, or --discard what can never succeed",
        )
    elif facts.dead_letters == 0:
        yield _ok("dead letters", "none")
    if facts.escalated:
        yield _fault(
            "escalations",
            f"about {counted(facts.escalated, 'message')} for a person",
            "settle what `oncekey list --escalated` shows, and delete the messages",
        )
    elif facts.escalated == 0:
        yield _ok("escalations", "none")


def _permissions(facts: Facts) -> Iterator[Finding]:
    for call in facts.denied:
        yield _fault("permissions", f"no {call}", "allow it, or use the role that may do it")
    if facts.may_only_read:
        yield _warning(
            "permissions",
            "these credentials may only read",
            "that is enough to look; use a role of `grant_act` to act",
        )
    elif not facts.denied:
        yield _ok("permissions", "reads and writes are allowed")


def _functions(facts: Facts) -> Iterator[Finding]:
    for one in facts.functions:
        check, named = f"function {one.name}", one.variables.get("ONCEKEY_TABLE")
        if named is not None and named != facts.table:
            yield _fault(
                check,
                f"its ONCEKEY_TABLE is {named}",
                f"set it to {facts.table}: a key in another table runs again",
            )
        if one.is_stopped:
            yield _fault(
                check,
                "its reserved concurrency is 0",
                "remove it (`aws lambda delete-function-concurrency`): nothing can call it",
            )
        if one.is_ours:
            yield from _times(facts, one)
    with_records = [one for one in facts.functions if one.has_records]
    numbers = {one.variables.get("ONCEKEY_DUE_SHARDS", "16") for one in with_records}
    if len(numbers) > 1:
        yield _warning(
            "shards",
            f"functions have ONCEKEY_DUE_SHARDS {', '.join(sorted(numbers))}",
            "give all functions and the reconciler one number",
        )


def _times(facts: Facts, one: FunctionFacts) -> Iterator[Finding]:
    check = f"function {one.name}"
    timeout_ms = _number(one.variables, "ONCEKEY_STORE_TIMEOUT_MS", STORE_TIMEOUT_MS)
    # A call that gets no answer is sent twice more, and its end must still be recorded.
    if 3 * timeout_ms >= 1000 * one.timeout_s:
        yield _fault(
            check,
            f"a call of the store may take {3 * timeout_ms / 1000:g} s of its {one.timeout_s} s",
            "raise the function's timeout, or lower ONCEKEY_STORE_TIMEOUT_MS: it would be"
            " killed before it can record an end",
        )
    margin_ms = _number(one.variables, "ONCEKEY_LEASE_MARGIN_MS", LEASE_MARGIN_MS)
    if facts.ahead_s is not None and 1000 * abs(facts.ahead_s) > margin_ms < LEASE_MARGIN_MS:
        yield _fault(
            check,
            f"ONCEKEY_LEASE_MARGIN_MS is {margin_ms}",
            "raise it above the difference of any two clocks",
        )


def _lease(facts: Facts) -> Iterator[Finding]:
    for operation, used in sorted(facts.lease_used.items()):
        check, found = f"lease of {operation}", f"p99 {used:.0f}%"
        advice = "raise the function's timeout (its lease follows it), or make the handler faster"
        if used >= 100:
            yield _fault(check, found, f"attempts outlive their leases: {advice}")
        elif used >= _LEASE_WARNS_PERCENT:
            yield _warning(check, found, advice)
        else:
            yield _ok(check, found)


def _items(facts: Facts) -> Iterator[Finding]:
    if not facts.items:
        return
    unknown = [item for item in facts.items if not _KEYS.fullmatch(_text(item, "pk"))]
    unknown += [
        item
        for item in facts.items
        if _RECORD.fullmatch(_text(item, "pk")) and _text(item, "status") not in _STATUSES
    ]
    if unknown:
        yield _fault(
            "items",
            f"{len(unknown)} of {len(facts.items)} are not the layer's",
            "another program writes to this table, or it is the wrong one: give it its own",
        )
    for_ever = [
        item
        for item in facts.items
        if _text(item, "status") in SETTLED and "expires_at" not in item
    ]
    if for_ever:
        yield _fault(
            "items",
            f"{counted(len(for_ever), 'settled record')} without expires_at",
            "they are never deleted; find what has written them",
        )
    if not unknown and not for_ever:
        yield _ok("items", f"{len(facts.items)} looked at")


def _keys(description: Any, keys: Any) -> list[tuple[str, str, str]]:
    types = {
        one["AttributeName"]: one["AttributeType"] for one in description["AttributeDefinitions"]
    }
    return [(one["AttributeName"], one["KeyType"], types[one["AttributeName"]]) for one in keys]


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name, {}).get("S", "")
    return value if isinstance(value, str) else ""


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "")
    return int(text) if text.isdecimal() else default


def _ok(check: str, found: str) -> Finding:
    return Finding(level=OK, check=check, found=found)


def _warning(check: str, found: str, advice: str) -> Finding:
    return Finding(level=WARNING, check=check, found=found, advice=advice)


def _fault(check: str, found: str, advice: str) -> Finding:
    return Finding(level=FAULT, check=check, found=found, advice=advice)
