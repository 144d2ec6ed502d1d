"""`oncekey audit`: every route, queue and schedule that is not safe to repeat."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncekey_operator.exits import Exit, UsageError
from oncekey_operator.output import add_output, print_json, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from oncekey_operator.coverage.handlers import Code, Looked
    from oncekey_operator.coverage.judging import Verdict
    from oncekey_operator.coverage.triggers import Function, Trigger

_CDK_OUT = "cdk.out"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey audit`."""
    audit: argparse.ArgumentParser = commands.add_parser(
        "audit",
        help="find routes, queues and schedules that are not safe to repeat",
        description="Compares every trigger that may change something with the handlers: each is"
        " protected, or declared natural with a reason. It imports the handlers' modules, each in a"
        " process without credentials and network, and calls nothing of them. Exit status 1 if"
        " there is a gap.",
    )
    source = audit.add_mutually_exclusive_group()
    source.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="what `cdk synth` has written (cdk.out, if it is there and no older than the code)",
    )
    source.add_argument(
        "--service",
        metavar="MODULE:NAME",
        help="a description instead (what pyproject.toml says: [tool.oncekey] service)",
    )
    audit.add_argument(
        "--handler",
        type=_handler,
        action="append",
        default=[],
        metavar="FUNCTION=MODULE.NAME",
        help="the handler, or the app, of a function whose code is not in the templates (an image,"
        " a web adapter); imported from this folder; may be repeated",
    )
    add_output(audit)
    return audit


def run(options: argparse.Namespace) -> int:
    """Print a verdict about every trigger."""
    from oncekey_operator.coverage.judging import judge

    project = _project(Path.cwd())
    triggers, looked = _looked(options, project)
    verdicts = judge(triggers, looked, _declared(project))
    gaps = sum(each.is_gap for each in verdicts)
    if options.json:
        print_json({"gaps": gaps, "triggers": [asdict(each) for each in verdicts]})
    else:
        _print(verdicts, gaps)
    return Exit.REFUSED if gaps else Exit.DONE


def _looked(
    options: argparse.Namespace, project: Mapping[str, Any]
) -> tuple[list[Trigger], dict[str, Looked]]:
    from oncekey_operator.coverage.handlers import Assembly, Code, description
    from oncekey_operator.coverage.triggers import triggers_in, triggers_of

    here = Path.cwd()
    given = dict(options.handler)
    service = options.service
    folder = options.folder or (here / _CDK_OUT if (here / _CDK_OUT).is_dir() else None)
    if service is None and folder is None:
        service = project.get("service")
        if service is None:
            raise UsageError(
                "nothing to look at: name the folder that `cdk synth` has written, or a description"
                " with --service MODULE:NAME"
            )
    codes: dict[str, Code | str] = {}
    if service is None and options.folder is None:
        _check_fresh(here)
    if service is not None:
        triggers = triggers_of(description(service, here))
        codes = {each.function.name: Code(own=here) for each in triggers}
    else:
        assert folder is not None
        assembly = Assembly(folder)
        triggers = triggers_in(assembly.templates)
        codes = {each.function.name: assembly.code_of(each.function) for each in triggers}
    functions = {each.function.name: each.function for each in triggers if each.changes_state}
    if unknown := given.keys() - functions.keys():
        raise UsageError(f"--handler {', '.join(sorted(unknown))}: there is no such function")
    codes |= {name: Code(own=here) for name in given}
    return triggers, _look(functions, codes, given)


def _check_fresh(here: Path) -> None:
    """Return if the folder that nobody has named shows the project as it is.

    Raises:
        UsageError: it is older. It has the handlers and routes as they were.
    """
    from oncekey_operator.coverage.freshness import newer_source

    newer = newer_source(here / _CDK_OUT, here)
    if newer is not None:
        raise UsageError(
            f"{_CDK_OUT} is older than {newer}, and has the code as it was: run `cdk synth` again;"
            f" or say `oncekey audit {_CDK_OUT}` to look at it as it is, or --service MODULE:NAME"
        )


def _look(
    functions: Mapping[str, Function],
    codes: Mapping[str, Code | str],
    given: Mapping[str, str],
) -> dict[str, Looked]:
    from oncekey_operator.coverage.handlers import Looked, look_at_all, variables_of

    wanted: dict[str, tuple[str, Code, Mapping[str, str]]] = {}
    looked: dict[str, Looked] = {}
    for name, function in functions.items():
        code, handler = codes[name], given.get(name, function.handler)
        if isinstance(code, str):
            looked[name] = Looked(error=f"{code}; name it: --handler {name}=MODULE.NAME")
        elif not function.is_python and name not in given:
            looked[name] = Looked(
                error=f"it is no Python ({function.runtime}); declare it natural"
                " in pyproject.toml, if it is"
            )
        else:
            names = function.resource.variables if function.resource else function.variables
            wanted[name] = (handler, code, variables_of(names, function.variables))
    return looked | look_at_all(wanted)


def _print(verdicts: list[Verdict], gaps: int) -> None:
    print_table(
        ["trigger", "function", "verdict", "why"],
        [
            [
                each.trigger,
                each.function,
                each.verdict,
                "see below" if each.is_gap else each.why,
            ]
            for each in verdicts
        ],
    )
    print()
    # A table on a terminal is cut to its width. What is to do is not.
    for each in verdicts:
        if each.is_gap:
            print(f"{each.trigger}: {each.why}")
    if gaps:
        print(f"{gaps} of {len(verdicts)} are not safe to repeat.")
    else:
        print(f"All {len(verdicts)} are safe to repeat.")


def _project(folder: Path) -> Mapping[str, Any]:
    """The table [tool.oncekey] of the folder's pyproject.toml."""
    try:
        text = (folder / "pyproject.toml").read_text("utf-8")
        found: Any = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"pyproject.toml cannot be read: {error}") from error
    for name in ("tool", "oncekey"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _declared(project: Mapping[str, Any]) -> Mapping[str, str]:
    declared = project.get("natural", {})
    if isinstance(declared, dict) and all(
        isinstance(reason, str) and reason.strip() for reason in declared.values()
    ):
        return declared
    raise UsageError(
        'pyproject.toml: [tool.oncekey.natural] has a reason for each trigger: "PUT /address" ='
        ' "why a repeat changes nothing"'
    )


def _handler(text: str) -> tuple[str, str]:
    import argparse

    function, _, handler = text.partition("=")
    if function and handler:
        return function, handler
    raise argparse.ArgumentTypeError(f"{text!r} is not FUNCTION=MODULE.NAME")
