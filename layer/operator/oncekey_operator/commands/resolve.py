"""`oncekey resolve`: settle what is unknown, by what a person found out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oncekey_operator.arguments import one_or_more
from oncekey_operator.commands.list import HEADERS, OMITTED, add_states, listed, row
from oncekey_operator.commands.naming import (
    add_operation,
    add_reason,
    census,
    check_census,
    operation_of,
    refuse_ignored,
)
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import (
    add_output,
    confirm,
    print_json,
    print_table,
    print_to_nobody,
)
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import Any, NoReturn

    from oncekey.errors import NotExecuted
    from oncekey.record.record import Record
    from oncekey.settlement.resolvers import Completed
    from oncekey_operator.actions.settling import Settled
    from oncekey_operator.targets import Target


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey resolve`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "resolve",
        help="settle an unknown operation by what you found out",
        description="Settles an unknown operation, or its step in doubt, by what you found out at"
        " the provider. Look there first: the layer believes you. Or ends for good an operation"
        " that failed, or waits for a worker.",
    )
    add_operation(parser)
    finding = parser.add_argument_group("what you found out", "one of the three")
    finding.add_argument(
        "--completed",
        metavar="FILE",
        help="it took effect. FILE (- is standard input) has, as JSON, the answer that its client"
        " gets: statusCode, headers and body; or the result of the function or of the step",
    )
    finding.add_argument(
        "--not-executed",
        action="store_true",
        help="it is certain that nothing happened: the same key may run again",
    )
    finding.add_argument(
        "--end-with",
        metavar="FILE",
        help="nobody knows it to have taken effect, and it must not go on: it ends with the answer"
        " in FILE. No handler runs again; what its finished steps did stays done",
    )
    finding.add_argument(
        "--step", default="", metavar="NAME", help="the step in doubt that it is about"
    )
    finding.add_argument(
        "--attempt",
        type=one_or_more,
        metavar="N",
        help="the attempt that you looked at: nothing is settled if another has begun since. Needed"
        " for --not-executed with --yes",
    )
    many = parser.add_argument_group(
        "many operations", "a dry run, until --expect says which they are"
    )
    many.add_argument(
        "--all-listed",
        action="store_true",
        help="what `oncekey list` shows with the same --unknown, --escalated, --tenant and"
        " --operation",
    )
    add_states(many, "unknown", "escalated")
    parser.set_defaults(all=False)
    many.add_argument(
        "--expect",
        metavar="CENSUS",
        help="settle them, if they are those of the dry run, which prints this value",
    )
    add_reason(parser)
    add_output(parser)
    add_target(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Settle one operation, or all that are listed."""
    from oncekey.clock import SystemClock
    from oncekey_operator.records.outlook import why_not_ended

    # What a person has found out is no newer than the command, however long the question waits.
    finding, found_at_ms = _finding(options), SystemClock().now_ms()
    target = target_of(options)
    if options.all_listed:
        return _all(options, target, finding, found_at_ms)
    states = dict.fromkeys(options.states, True)
    refuse_ignored("one operation, without --all-listed", expect=options.expect, **states)
    if options.end_with is not None and options.step:
        raise UsageError("--end-with ends the whole operation, and takes no --step")
    if options.not_executed and options.yes and options.attempt is None:
        # Nobody is asked, so nobody sees which attempt it is. A later one may have been executed.
        raise UsageError(
            "say --attempt N, the attempt of which you know that it did nothing: `oncekey show`"
            " prints it"
        )
    record = operation_of(options, target)
    if options.attempt not in {None, record.attempt}:
        raise CommandError(
            f"its attempt is {record.attempt}, and not {options.attempt}: look at it again"
        )
    what = "it took effect" if options.completed else "nothing happened"
    if options.end_with is not None:
        if why_not := why_not_ended(record, SystemClock().now_ms()):
            raise CommandError(why_not)
        steps = ", ".join(step.name for step in record.steps.finished) or "none"
        what = f"it ends for good; its finished steps stay done: {steps}"
    which = f"{record.operation_id}, attempt {record.attempt}"
    question = f"{record.operation} of {record.tenant}, {which}: {what}."
    if not confirm(question, expected="yes", assumed=options.yes):
        return Exit.REFUSED
    (settled,) = _settled(options, target, [record], finding, found_at_ms)
    _print(settled, as_json=options.json)
    return Exit.DONE if settled.is_done else Exit.REFUSED


def _all(
    options: argparse.Namespace,
    target: Target,
    finding: Completed | NotExecuted,
    found_at_ms: int,
) -> int:
    from oncekey.clock import SystemClock

    if any(each is not None for each in (options.id, options.key, options.request)):
        raise UsageError("--all-listed takes filters, and no ID, --key or --request")
    refuse_ignored("--all-listed", principal=options.principal, attempt=options.attempt)
    if options.end_with is not None:
        raise UsageError("--end-with ends one operation: name it")
    if not options.states:
        raise UsageError("--all-listed needs a state: --unknown or --escalated")
    records = list(listed(target, options))
    now_ms, found = SystemClock().now_ms(), census(records)
    if options.expect is None:
        print_table(HEADERS, (row(each, now_ms) for each in records), omitted=OMITTED)
        print(
            f"Dry run: {len(records)} operations would be settled. Say --expect {found} to"
            " settle them.",
            file=sys.stderr,
        )
        return Exit.DONE
    check_census(options.expect, found)
    question = f"{len(records)} operations are settled."
    if not confirm(question, expected=str(len(records)), assumed=options.yes):
        return Exit.REFUSED
    done = 0
    try:
        for each in _settled(options, target, records, finding, found_at_ms):
            done += each.is_done
            # At once: what was settled is told, even if the next one cannot be.
            _print(each, as_json=options.json)
    except BrokenPipeError:
        # Nobody reads what becomes of the others, so they are left.
        print_to_nobody()
    finally:
        print(f"{done} of {len(records)} settled.", file=sys.stderr)
    return Exit.DONE if done == len(records) else Exit.REFUSED


def _settled(
    options: argparse.Namespace,
    target: Target,
    records: Sequence[Record],
    finding: Completed | NotExecuted,
    found_at_ms: int,
) -> Iterator[Settled]:
    from oncekey.settlement.resolvers import Completed
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.settling import end, settle

    acting = acting_on(target, why=options.reason)
    for record in records:
        try:
            if options.end_with is not None and isinstance(finding, Completed):
                settled = end(acting, record, finding)
            else:
                settled = settle(
                    acting, record, finding, step=options.step, found_at_ms=found_at_ms
                )
        except (TypeError, ValueError) as error:
            raise UsageError(str(error).removeprefix("oncekey: ")) from error
        yield settled


def _print(settled: Settled, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "reference": settled.reference,
                "operation_id": settled.operation_id,
                "settlement": settled.settlement.value,
            }
        )
    else:
        print(f"{settled.operation_id}: {settled}")


def _finding(options: argparse.Namespace) -> Completed | NotExecuted:
    from oncekey.errors import NotExecuted
    from oncekey.settlement.resolvers import Completed

    files = [each for each in (options.completed, options.end_with) if each is not None]
    if len(files) + options.not_executed != 1:
        raise UsageError(
            "say what you found out: --completed FILE or --not-executed; or end it: --end-with FILE"
        )
    return NotExecuted() if options.not_executed else Completed(_answer_in(files[0]))


def _answer_in(file: str) -> Any:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        # JSON is UTF-8, whatever the terminal is.
        return json.loads(data.decode("utf-8"), parse_constant=_no_json)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error


def _no_json(constant: str) -> NoReturn:
    # Python reads NaN and Infinity, and would send them to a client that cannot.
    raise ValueError(f"{constant} is no value of JSON")
