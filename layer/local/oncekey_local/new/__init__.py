"""`oncekey new`: writes a small service, copied from the folder `template` beside this file."""

from __future__ import annotations

import re
import shlex
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The name in the template, which the new service's name replaces.
_PLACEHOLDER = "my-service"
# A name that stacks and queues may have. CloudFormation wants a letter first.
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")
# A project of this name could not depend on the library.
_LIBRARY = "oncekey"
# The names of files that would have an effect in the template itself.
_RENAMED = {"gitignore": ".gitignore"}


def write(folder: Path) -> str:
    """Write a new service into `folder`, and return what to do next.

    Raises:
        ValueError: the folder is not empty, or its name cannot be a service's. Nothing is written.
    """
    name = folder.resolve().name
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a service: use 1 to 40 lower-case letters, digits and hyphens,"
            " a letter first, such as my-orders"
        )
    if name == _LIBRARY:
        raise ValueError(f"{name!r} is the library's own name: give the service another")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a new folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name a new folder, and copy from it")
    with as_file(files(__name__) / "template") as template:
        for source in sorted(template.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                inside = source.relative_to(template)
                target = folder / inside.with_name(_RENAMED.get(inside.name, inside.name))
                target.parent.mkdir(parents=True, exist_ok=True)
                text = source.read_text("utf-8").replace(_PLACEHOLDER, name)
                target.write_text(text, "utf-8")
    return (
        f"{folder} has a service named {name!r}. Next:\n"
        f"  cd {shlex.quote(str(folder))}\n"
        "  python -m pytest        # its tests\n"
        "  oncekey dev             # run it on this machine\n"
        "  npx aws-cdk synth       # its CloudFormation template; needs Node.js 22 or newer\n"
        "  CDK_OUTDIR=cdk.out python app.py    # the same without npm\n"
        "README.md says what is where."
    )
