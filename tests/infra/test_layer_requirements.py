"""Which of the locked packages the layer carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.environments import environment_from
from infra.layer_requirements import LayerTarget, locked_requirements

ROOT = Path(__file__).parents[2]
HASH = f"    --hash=sha256:{'a' * 64}\n"


def _project(folder: Path, *, needs: str, lock: str) -> Path:
    (folder / "pyproject.toml").write_text(
        "[project]\n[project.optional-dependencies]\n"
        f'reference = ["oncekey[more]"]\nmore = [{needs}]\n'
    )
    (folder / "requirements.lock").write_text(lock)
    return folder


def test_boto3_and_what_only_boto3_needs_stay_with_lambda() -> None:
    """What the runtime brings is not picked; what another package asks for as well is."""
    picked = locked_requirements(ROOT, LayerTarget())

    names = {line.partition("==")[0] for line in picked.splitlines() if "==" in line}
    assert names & {"boto3", "botocore", "s3transfer", "python-dateutil", "six"} == set()
    assert {"aws-lambda-powertools", "pydantic", "stripe", "jmespath", "urllib3"} <= names
    assert "moto" not in names


def test_every_package_is_pinned_by_version_and_hash() -> None:
    """Each picked package has its version and the lock's hashes, and is not bound to this host."""
    lines = locked_requirements(ROOT, LayerTarget()).splitlines()

    assert ";" not in "".join(lines)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if "==" in line:
            assert following.startswith("    --hash=sha256:")


def test_the_markers_are_held_against_lambda_and_not_against_this_machine(tmp_path: Path) -> None:
    """Of a package that is locked twice the one for the target's Python is picked, and one that is
    for another system only is not.
    """
    root = _project(
        tmp_path,
        needs="'packaging', 'certifi; platform_machine == \"aarch64\"'",
        lock=(
            f"certifi==1 ; platform_machine == 'riscv64' \\\n{HASH}"
            f"certifi==2 ; platform_machine == 'x86_64' \\\n{HASH}"
            f"packaging==1 ; python_full_version < '3.14' \\\n{HASH}"
            f"packaging==2 ; python_full_version >= '3.14' \\\n{HASH}"
        ),
    )

    # Neither release is what is installed here, and so the message tells which was picked.
    target = LayerTarget(python_version="3.14", architecture="x86_64")
    with pytest.raises(RuntimeError, match=r"packaging \S+ is installed, 2 locked; run") as newer:
        locked_requirements(root, target)
    assert "certifi" not in str(newer.value)
    with pytest.raises(RuntimeError, match=r"packaging \S+ is installed, 1 locked") as older:
        locked_requirements(root, LayerTarget(python_version="3.13"))
    assert "certifi is not in requirements.lock" in str(older.value)


def test_what_is_locked_but_not_installed_is_named(tmp_path: Path) -> None:
    """A package whose own needs cannot be read here is a fault that says what to do."""
    root = _project(tmp_path, needs='"no-such-package"', lock=f"no-such-package==1 \\\n{HASH}")

    with pytest.raises(RuntimeError, match=r"no-such-package is not installed; run `make synth`"):
        locked_requirements(root, LayerTarget())


def test_a_lock_without_hashes_is_refused(tmp_path: Path) -> None:
    """A line of the lock that pins nothing is named, and nothing is picked."""
    root = _project(tmp_path, needs='"packaging"', lock="packaging>=1\n")

    with pytest.raises(RuntimeError, match=r"pins nothing with 'packaging>=1': run `make lock`"):
        locked_requirements(root, LayerTarget())


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_python_and_processor_are_options(version: str, architecture: str) -> None:
    """The context names the functions' Python and processor; every package is locked for each."""
    context = {"python_version": version, "architecture": architecture}

    target = environment_from(context).runtime

    assert target == LayerTarget(python_version=version, architecture=architecture)
    assert "stripe==" in locked_requirements(ROOT, target)


def test_a_runtime_that_no_layer_can_be_made_for_is_refused() -> None:
    """A wrong Python and a wrong processor are both named, with those that can be had."""
    with pytest.raises(ValueError, match=r"python_version must be one of .*3.14, not '3.9'.*arm64"):
        environment_from({"python_version": "3.9", "architecture": "mips"})
    with pytest.raises(ValueError, match=r"architecture must be one of arm64, x86_64, not 'mips'"):
        LayerTarget(architecture="mips")
