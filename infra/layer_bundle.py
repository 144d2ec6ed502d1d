"""The layer as a folder: the package `oncekey` and its locked dependencies, without Docker.

`python -m infra.layer_bundle` makes it and says how large it is; the CDK app does the same as it is
synthesised. Same input, same files, same digest, on whatever machine.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.bundles import CACHE, ROOT, publish
from infra.layer_requirements import (
    ARCHITECTURES,
    PYTHON_VERSIONS,
    LayerTarget,
    locked_requirements,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Lambda takes 250 MB for a function and all its layers together, unzipped:
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
# Far below that, so that a dependency of another 20 MB is noticed. It would slow every cold start.
MAX_SIZE_MB = 40

# Raise it when the same packages give other files, so that no old folder is used as a new one.
_FORMAT = 1
_ALL = "all"
_UNWANTED_FOLDERS = {"__pycache__", "tests"}
# Of pip's notes, the licences must ship, and METADATA, which says what they are for.
_KEPT_NOTES = re.compile(r"METADATA|(?:LICEN[CS]E|NOTICE|COPYING|AUTHORS).*", re.IGNORECASE)
# 1980-01-01T00:00:00Z, the first moment that a ZIP file can name.
_MODIFIED_S = 315_532_800


@dataclass(frozen=True, kw_only=True)
class LayerBundle:
    """A finished layer.

    Attributes:
        folder: What Lambda unpacks to /opt: it holds `python` and nothing else.
        target: The runtime that it is for.
        digest: SHA-256 of every path and every byte in it, in hexadecimal.
        size_bytes: The sum of its files, unzipped.
        files: How many they are.
    """

    folder: Path
    target: LayerTarget
    digest: str
    size_bytes: int
    files: int

    def summary(self) -> str:
        """One line for a person: what it is, how large, and of which content."""
        return (
            f"layer for Python {self.target.python_version} on {self.target.architecture}:"
            f" {self.size_bytes / 1e6:.1f} MB unzipped (at most {MAX_SIZE_MB} MB),"
            f" {self.files} files, sha256 {self.digest[:16]}"
        )


def bundle_layer(target: LayerTarget, *, cache: Path = CACHE) -> LayerBundle:
    """Make the layer, or find it in `cache`.

    When it returns, the folder is complete and never changes. Other content goes into another
    folder. If the cache has no packages of this lock and target, pip fetches them from the index of
    the machine's configuration. A killed run leaves a folder with a temporary name, which is never
    used as a layer.

    Raises:
        RuntimeError: A package cannot be fetched or has another hash than the locked one, or the
            layer is larger than `MAX_SIZE_MB`.
    """
    requirements = locked_requirements(ROOT, target)
    cache.mkdir(parents=True, exist_ok=True)
    packages = _packages(requirements, target, cache)
    with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as making:
        python = Path(making, "layer", "python")
        shutil.copytree(packages, python, copy_function=_link)
        no_caches = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / "layer/python/oncekey", python / "oncekey", ignore=no_caches)
        _normalise(python.parent)
        digest, size_bytes, files = measure(python.parent)
        folder = cache / f"layer-{digest[:32]}"
        publish(python.parent, folder)
    bundle = LayerBundle(
        folder=folder, target=target, digest=digest, size_bytes=size_bytes, files=files
    )
    if size_bytes > MAX_SIZE_MB * 1e6:
        raise RuntimeError(
            f"{bundle.summary()}: too large; find out with `du` in {folder} what has grown"
        )
    return bundle


def _packages(requirements: str, target: LayerTarget, cache: Path) -> Path:
    """The folder with the locked packages of this target, pruned."""
    inputs = f"{_FORMAT}\n{target.python_version}\n{target.platform}\n{requirements}"
    folder = cache / f"packages-{hashlib.sha256(inputs.encode()).hexdigest()[:32]}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as making:
            lock = Path(making, "requirements.lock")
            lock.write_text(requirements, "utf-8")
            packages = Path(making, "packages")
            _install(lock, target, packages)
            _prune(packages)
            publish(packages, folder)
    return folder


def _install(lock: Path, target: LayerTarget, folder: Path) -> None:
    """Unpack the wheels of another machine. Nothing of them is run or compiled."""
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-input", "--no-deps", "--no-compile", "--require-hashes", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", target.python_version),
        *("--platform", target.platform, "--target", str(folder), "--requirement", str(lock)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"pip cannot fetch the layer's packages for {target.platform}:\n{done.stderr}"
        )


def _prune(folder: Path) -> None:
    """Remove caches, tests, commands, and pip's notes about this installation."""
    # Where pip puts the packages' commands.
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if path.name in _UNWANTED_FOLDERS:
                shutil.rmtree(path)
        elif path.suffix == ".pyc" or (_is_note(path) and not _KEPT_NOTES.fullmatch(path.name)):
            path.unlink()


def _is_note(path: Path) -> bool:
    return any(parent.suffix == ".dist-info" for parent in path.parents)


def _link(source: str, destination: str) -> None:
    """Share the bytes with the cache, if the file system can."""
    try:
        os.link(source, destination)
    except OSError:
        shutil.copyfile(source, destination)


def _normalise(folder: Path) -> None:
    """Remove every trace of who made it, and when."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (_MODIFIED_S, _MODIFIED_S))


def measure(folder: Path) -> tuple[str, int, int]:
    """The digest, the size in bytes and the number of the files."""
    whole, size_bytes, files = hashlib.sha256(), 0, 0
    for name, content in _contents(folder):
        whole.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        size_bytes += len(content)
        files += 1
    return whole.hexdigest(), size_bytes, files


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name in sorted(paths):
        if paths[name].is_file():
            yield name, paths[name].read_bytes()


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the layer, or `all` of them, and print the size and the folder of each."""
    parser = argparse.ArgumentParser(prog="python -m infra.layer_bundle", description=main.__doc__)
    parser.add_argument("--python", default=LayerTarget.python_version, metavar="3.13")
    parser.add_argument(
        "--architecture", choices=(*ARCHITECTURES, _ALL), default=LayerTarget.architecture
    )
    given = parser.parse_args(arguments)
    versions = PYTHON_VERSIONS if given.python == _ALL else (given.python,)
    architectures = tuple(ARCHITECTURES) if given.architecture == _ALL else (given.architecture,)
    try:
        for version, architecture in itertools.product(versions, architectures):
            bundle = bundle_layer(LayerTarget(python_version=version, architecture=architecture))
            sys.stdout.write(f"{bundle.summary()}\n{bundle.folder}\n")
    except (RuntimeError, ValueError) as error:
        sys.exit(f"infra.layer_bundle: {error}")


if __name__ == "__main__":
    main()
