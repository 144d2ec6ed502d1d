"""A layer of the library and a user's own requirements, bundled without Docker."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

if TYPE_CHECKING:
    from collections.abc import Iterator

# The wheels that every Lambda runtime of the processor can load (PEP 599).
PLATFORMS = {"arm64": "manylinux2014_aarch64", "x86_64": "manylinux2014_x86_64"}
# The newest glibc 2.x that a runtime has. Python 3.12 and later runs on Amazon Linux 2023, earlier
# ones on Amazon Linux 2.
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html
_GLIBC_OF_AL2, _GLIBC_OF_AL2023 = 26, 34
_FIRST_ON_AL2023 = 12
# `manylinux2014` is another name for it (PEP 600).
_GLIBC_OF_2014 = 17
# Lambda's limit for a function and all its layers, unzipped.
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_MAX_MB = 250
# A line of a requirements file that names another one, relative to the folder of the first.
# https://pip.pypa.io/en/stable/reference/requirements-file-format/
_NAMES_FILE = re.compile(
    r"^\s*(?:-[rc]\s*=?|--(?:requirement|constraint)[\s=])\s*(\S+)", re.MULTILINE
)
_UNWANTED = shutil.ignore_patterns("__pycache__", "*.pyc")


def code_with_requirements(
    package: Path,
    requirements: Path,
    *,
    runtime: lambda_.Runtime,
    architecture: lambda_.Architecture,
) -> lambda_.Code:
    """`package` and the wheels of `requirements`, for this runtime, as a layer holds them.

    pip fetches them when the app is synthesised. If neither the requirements file, nor a file that
    it names (`-r`, `-c`), nor the library has changed, the copy in `cdk.out` is used. A changed
    comment counts as a change.

    Raises:
        RuntimeError: pip cannot fetch a wheel for this runtime, a hash differs from the file's, or
            the result is larger than Lambda takes.
    """
    made = _Made(package, requirements, runtime.name.removeprefix("python"), architecture.name)
    return lambda_.Code.from_asset(
        str(package),
        asset_hash=made.inputs_digest(),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(
            # The image is never pulled, because local bundling does not fail.
            image=DockerImage.from_registry("scratch"),
            local=cast("ILocalBundling", made),
        ),
    )


@jsii.implements(ILocalBundling)
class _Made:
    def __init__(self, package: Path, requirements: Path, python: str, architecture: str) -> None:
        self._package = package
        self._requirements = requirements
        self._python = python
        self._platforms = platforms(python, architecture)

    def inputs_digest(self) -> str:
        """Of all that decides what is in the layer."""
        whole = hashlib.sha256(f"{self._python}\n{self._platforms}\n".encode())
        for file in _with_named(self._requirements):
            whole.update(file.read_bytes())
        for name, content in _sources(self._package):
            whole.update(f"\n{name}\0{hashlib.sha256(content).hexdigest()}".encode())
        return whole.hexdigest()

    def try_bundle(self, output_dir: str, *_: object, **__: object) -> bool:
        folder = Path(output_dir, "python")
        with tempfile.TemporaryDirectory() as making:
            wheels = Path(making, "wheels")
            self._install(wheels)
            shutil.copytree(wheels, folder, ignore=_UNWANTED)
        # Where pip puts the packages' commands, with the path of this machine's Python.
        shutil.rmtree(folder / "bin", ignore_errors=True)
        # Last, so that no requirement replaces the library.
        shutil.rmtree(folder / self._package.name, ignore_errors=True)
        copy_package(self._package, folder)
        size_mb = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        if size_mb > _MAX_MB:
            raise RuntimeError(
                f"the layer of {self._requirements} has {size_mb:.0f} MB, and Lambda takes"
                f" {_MAX_MB} MB for a function and its layers: leave out what handlers do not need"
            )
        return True

    def _install(self, folder: Path) -> None:
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-input", "--no-compile", "--only-binary", ":all:", "--implementation", "cp"),
            *("--python-version", self._python),
            *(f"--platform={platform}" for platform in self._platforms),
            *("--target", str(folder), "--requirement", str(self._requirements)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(
                f"pip cannot fetch {self._requirements} for Python {self._python} on"
                f" {self._platforms[0]} or older:\n{done.stderr}"
            )
        folder.mkdir(exist_ok=True)


def platforms(python: str, architecture: str) -> list[str]:
    """The platforms of wheels that the runtime can load, the newest first.

    pip takes each by its name, and does not know that a newer one can load what an older one can.
    """
    oldest = PLATFORMS[architecture]
    processor = oldest.removeprefix("manylinux2014_")
    minor = int(python.rpartition(".")[2])
    newest = _GLIBC_OF_AL2023 if minor >= _FIRST_ON_AL2023 else _GLIBC_OF_AL2
    versions = range(newest, _GLIBC_OF_2014 - 1, -1)
    return [*(f"manylinux_2_{version}_{processor}" for version in versions), oldest]


def _with_named(requirements: Path) -> list[Path]:
    """A requirements file and all others that it names, directly or not.

    One that is missing is left to pip, which says so.
    """
    found: list[Path] = []
    open_files = [requirements]
    while open_files:
        file = open_files.pop(0)
        if file in found or not file.is_file():
            continue
        found.append(file)
        named = _NAMES_FILE.findall(file.read_text("utf-8", "replace"))
        open_files += [(file.parent / name).resolve() for name in named]
    return found


def copy_package(package: Path, folder: Path) -> None:
    """Copy a package below `folder`, without caches."""
    shutil.copytree(package, folder / package.name, ignore=_UNWANTED)


def _sources(package: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(package).as_posix(), path.read_bytes()
