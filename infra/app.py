"""Write the CloudFormation templates of the reference service: `python -m infra.app`.

The CDK's command line runs this too (cdk.json) and passes its `-c name=value` on. Called directly,
it takes the same option. It makes no AWS call and needs no account.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from infra.node import use_packaged_node

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Synthesise into the folder that the CDK's command line names, else into cdk.out."""
    parser = argparse.ArgumentParser(prog="python -m infra.app", description=main.__doc__)
    parser.add_argument(
        "-c",
        "--context",
        metavar="NAME=VALUE",
        type=_pair,
        action="append",
        default=[],
        help="a context value, such as stage=production; may be repeated",
    )
    context = dict(parser.parse_args(arguments).context)
    try:
        use_packaged_node()
        # Importing the CDK starts node, so the line above must run first.
        from infra.composition import compose  # noqa: PLC0415

        app = compose(context=context, outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    except (RuntimeError, ValueError) as error:
        sys.exit(f"infra.app: {error}")
    try:
        app.synth()
    except ValueError as error:
        sys.exit(f"infra.app: {error}")


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE, such as stage=dev")
    return name, value


if __name__ == "__main__":
    main()
