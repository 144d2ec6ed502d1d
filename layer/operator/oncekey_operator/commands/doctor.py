"""`oncekey doctor`: what is wrong with the tables and functions of a service."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from oncekey_operator.arguments import positive, whole
from oncekey_operator.exits import Exit
from oncekey_operator.output import add_output, counted, print_json, print_pairs
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey doctor`."""
    doctor: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="find what is wrong with the tables and functions of a service",
        description="Looks at the tables' schema, TTL, index, stream, encryption and backups, at"
        " the permissions of these credentials, the clock, the functions' variables and timeouts,"
        " the leases that were used, some items, the reconciler, dead letters and escalations. It"
        " changes nothing: a write that it tries has a condition that no item can meet. Exit status"
        " 1 if there is a fault.",
    )
    doctor.add_argument(
        "--function",
        action="append",
        default=[],
        metavar="NAME",
        help="a deployed function to look at, too; may be repeated (with --stack: all of them)",
    )
    doctor.add_argument(
        "--namespace",
        default="",
        metavar="NAME",
        help="ONCEKEY_METRICS_NAMESPACE of the functions, for the leases that were used",
    )
    doctor.add_argument(
        "--items", type=whole, default=100, metavar="N", help="how many items to look at (100)"
    )
    doctor.add_argument(
        "--reconciler-every",
        type=positive,
        default=60,
        metavar="S",
        help="the reconciler runs every S seconds (60); `oncekey dev` says it itself",
    )
    add_output(doctor)
    add_target(doctor)
    return doctor


def run(options: argparse.Namespace) -> int:
    """Print the findings."""
    from oncekey_operator.diagnosis.checks import FAULT, WARNING, findings
    from oncekey_operator.diagnosis.facts import Asking, utc_now

    target = target_of(options)
    print(f"Looking at {target}. Nothing is changed.", file=sys.stderr)
    facts = Asking(target, now=utc_now).facts(
        functions=options.function,
        stacks=options.stack,
        namespace=options.namespace,
        most_items=options.items,
        reconciler_every_s=options.reconciler_every,
    )
    found = findings(facts)
    faults = sum(one.level == FAULT for one in found)
    if options.json:
        print_json({"table": target.table, "faults": faults, "findings": [*map(asdict, found)]})
        return Exit.REFUSED if faults else Exit.DONE
    print_pairs(
        (
            one.level,
            f"{one.check}: {one.found}" + (f"\n{one.advice}" if one.advice else ""),
        )
        for one in found
    )
    warnings = sum(one.level == WARNING for one in found)
    print(f"{target}: {counted(faults, 'fault')}, {counted(warnings, 'warning')}")
    return Exit.REFUSED if faults else Exit.DONE
