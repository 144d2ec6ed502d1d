"""`make deploy-local`: both local deployments, or the one that is named."""

from __future__ import annotations

import argparse
import sys

from infra.local_deployment.report import Report
from infra.local_deployment.scenes import Broken
from infra.local_deployment.stories import play_ministack, play_moto

_STORIES = {"moto": play_moto, "ministack": play_ministack}


def main() -> None:
    """Deploy to moto and to ministack by the CDK's command line, and say what happened."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.local_deployment", description=main.__doc__
    )
    parser.add_argument("emulator", nargs="?", choices=_STORIES, help="only this one")
    only = parser.parse_args().emulator
    report = Report(lambda line: print(line, flush=True))  # noqa: T201 -- what it is for
    for name in [only] if only else _STORIES:
        print(f"{name}:", flush=True)  # noqa: T201
        try:
            _STORIES[name](report)
        except (Broken, RuntimeError) as error:
            sys.exit(f"infra.local_deployment: {error}")
    report.total("in all")


if __name__ == "__main__":
    main()
