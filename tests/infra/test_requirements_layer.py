"""A layer with a user's own requirements, from wheels that the test itself makes."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_

import oncekey
from infra.layer_requirements import ARCHITECTURES, PYTHON_VERSIONS, LayerTarget
from infra.oncekey_cdk import OncekeyLayer
from infra.oncekey_cdk.requirements_layer import PLATFORMS

OWN = Path(oncekey.__file__).parent


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder of wheels: `plain` for every Python, `compiled` for 3.12 on x86_64 alone."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    _wheel(folder, "plain", "py3-none-any", {"plain.py": "", "oncekey/taken_over.py": ""})
    _wheel(folder, "compiled", "cp312-cp312-manylinux2014_x86_64", {"compiled.py": ""})
    return folder


def _wheel(folder: Path, name: str, tag: str, files: dict[str, str]) -> None:
    notes = f"{name}-1.0.dist-info"
    files = {
        **files,
        f"{notes}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{notes}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nTag: {tag}\n",
    }
    files[f"{notes}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{notes}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as wheel:
        for each, content in files.items():
            wheel.writestr(each, content)


def _file(wheels: Path, *lines: str) -> Path:
    file = wheels.parent / "requirements.lock"
    file.write_text("\n".join(["--no-index", f"--find-links {wheels}", *lines]) + "\n", "utf-8")
    return file


def _hash_of(wheels: Path, name: str) -> str:
    (wheel,) = wheels.glob(f"{name}-*.whl")
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def _synthesised(wheels: Path, file: Path, *, runtime: lambda_.Runtime, architecture: str) -> Path:
    app = App(outdir=str(wheels.parent / "cdk.out"), analytics_reporting=False)
    OncekeyLayer.with_requirements(
        Stack(app, "Stack"),
        "Layer",
        file,
        runtime=runtime,
        architecture=lambda_.Architecture.custom(architecture),
    )
    (python,) = Path(app.synth().directory).glob("asset.*/python")
    return python


def test_the_layer_holds_the_library_and_the_requirements(wheels: Path) -> None:
    """The wheels for the functions' Python and processor stand beside the library, whose files no
    package replaces.

    Red when wheels of this machine are taken, or a package may add to the library.
    """
    file = _file(wheels, _hash_of(wheels, "plain"), _hash_of(wheels, "compiled"))

    python = _synthesised(wheels, file, runtime=lambda_.Runtime.PYTHON_3_12, architecture="x86_64")

    modules = {path.name for path in python.iterdir() if path.suffix != ".dist-info"}
    assert modules == {"plain.py", "compiled.py", "oncekey"}
    assert (python / "oncekey/errors.py").read_bytes() == (OWN / "errors.py").read_bytes()
    assert not (python / "oncekey/taken_over.py").exists()


def test_a_package_that_does_not_exist_for_the_target_is_told(wheels: Path) -> None:
    """A wheel for another Python or processor is not put into a layer that could not load it.

    Red when pip falls back on whatever there is.
    """
    file = _file(wheels, _hash_of(wheels, "compiled"))

    with pytest.raises(
        RuntimeError, match=r"cannot fetch .* for Python 3.13 on manylinux_2_34_aarch64 or"
    ):
        _synthesised(wheels, file, runtime=lambda_.Runtime.PYTHON_3_13, architecture="arm64")


@pytest.mark.parametrize(
    ("version", "tag", "is_taken"),
    [
        ("3.11", "manylinux_2_17_x86_64", True),
        ("3.11", "manylinux_2_26_x86_64", True),
        ("3.11", "manylinux_2_28_x86_64", False),
        ("3.12", "manylinux_2_28_x86_64", True),
        ("3.13", "manylinux_2_34_x86_64", True),
        ("3.13", "manylinux_2_35_x86_64", False),
        ("3.14", "manylinux2014_x86_64", True),
        ("3.13", "manylinux_2_28_aarch64", False),
        ("3.13", "musllinux_1_2_x86_64", False),
    ],
)
def test_each_wheel_that_the_runtime_can_load_is_taken(
    wheels: Path, version: str, tag: str, *, is_taken: bool
) -> None:
    """Lambda's Python 3.12 and later runs on Amazon Linux 2023 with glibc 2.34, and 3.11 on Amazon
    Linux 2 with 2.26. Many packages have no wheels for an older glibc any more.

    Red when such a package cannot be put into a layer, or one is that the runtime cannot load.
    """
    python = version.replace(".", "")
    _wheel(wheels, "newer", f"cp{python}-cp{python}-{tag}", {"newer.py": ""})
    file, runtime = _file(wheels, _hash_of(wheels, "newer")), lambda_.Runtime(f"python{version}")

    if is_taken:
        made = _synthesised(wheels, file, runtime=runtime, architecture="x86_64")
        assert (made / "newer.py").exists()
    else:
        with pytest.raises(RuntimeError, match=f"cannot fetch .* for Python {version}"):
            _synthesised(wheels, file, runtime=runtime, architecture="x86_64")


def test_a_package_with_another_hash_is_refused(wheels: Path) -> None:
    """Only the file that was pinned is put into the layer.

    Red when pip is not asked to compare hashes.
    """
    file = _file(wheels, f"plain==1.0 --hash=sha256:{'0' * 64}")

    with pytest.raises(RuntimeError, match="DO NOT MATCH THE HASHES"):
        _synthesised(wheels, file, runtime=lambda_.Runtime.PYTHON_3_13, architecture="arm64")


@pytest.mark.parametrize("names", ["-r{}", "--requirement={}", "  -c {}  # pinned"])
def test_a_change_of_a_file_that_the_requirements_name_makes_a_new_layer(
    wheels: Path, names: str
) -> None:
    """A file that the requirements file names, also through another one, counts as part of it.

    Red when a changed version there is not deployed: the layer of the last synthesis is used.
    """
    (wheels.parent / "more").mkdir()
    between, last = wheels.parent / "more/base.txt", wheels.parent / "more/last.txt"
    between.write_text(names.format("last.txt") + "\n", "utf-8")
    file = _file(wheels, "plain", names.format("more/base.txt"))

    def layer(version: str) -> str:
        last.write_text(version + "\n", "utf-8")
        python = _synthesised(
            wheels, file, runtime=lambda_.Runtime.PYTHON_3_12, architecture="x86_64"
        )
        return python.parent.name

    first = layer("plain==1.0")
    shutil.rmtree(wheels.parent / "cdk.out")

    assert layer("plain<2.0") != first


def test_a_missing_file_is_told_before_anything_is_made(tmp_path: Path) -> None:
    """The construct names the file that is not there.

    Red when pip's error comes.
    """
    with pytest.raises(ValueError, match="there is no requirements file '.*requirements.txt'"):
        OncekeyLayer.with_requirements(Stack(), "Layer", tmp_path / "requirements.txt")


@pytest.mark.parametrize("version", PYTHON_VERSIONS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_oldest_platform_is_that_of_the_services_own_layer(
    version: str, architecture: str
) -> None:
    """A user's layer takes each wheel that the reference service's takes, and newer ones.

    Red when one of the two lists is changed alone.
    """
    target = LayerTarget(python_version=version, architecture=architecture)

    assert PLATFORMS[architecture] == target.platform
