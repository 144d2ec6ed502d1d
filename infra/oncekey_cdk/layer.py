"""The layer with the library."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jsii
from aws_cdk import BundlingOptions, DockerImage, ILocalBundling, Stack
from aws_cdk import aws_lambda as lambda_

from .arguments import explained
from .faults import overridden, override_faults, refuse
from .requirements_layer import code_with_requirements, copy_package

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from constructs import Construct

    from .faults import Props

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64
_PACKAGE = "oncekey"
_SHARED_ID = "OncekeyLayer"
_NO_CACHES = ["**/__pycache__", "**/*.pyc"]


@explained
class OncekeyLayer(lambda_.LayerVersion):
    """The library as a layer: by default the package that is installed beside this one.

    It is pure Python and needs only boto3, which Lambda's Python has. If your handlers need more
    (Powertools, pydantic), `with_requirements` bundles it for their processor.

    Args:
        code: What the layer holds, with a folder `python`.
        runtimes: The functions' Python.
        architectures: The functions' processors.
        layer_props: Overrides of any property of `aws_lambda.LayerVersion`, by the CDK's names.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        code: lambda_.Code | None = None,
        runtimes: Sequence[lambda_.Runtime] = (RUNTIME,),
        architectures: Sequence[lambda_.Architecture] = (ARCHITECTURE,),
        layer_props: Mapping[str, Any] | None = None,
    ) -> None:
        faults = override_faults(
            layer_props, name="layer_props", of=lambda_.LayerVersion, fixed={"code": "use code="}
        )
        refuse(faults, scope=scope, construct_id=construct_id, kind="OncekeyLayer")
        defaults: Props = {
            "code": code or installed_library(),
            "compatible_runtimes": [*runtimes],
            "compatible_architectures": [*architectures],
            "description": "oncekey: every Idempotency-Key takes effect once",
        }
        super().__init__(scope, construct_id, **overridden(defaults, layer_props))

    @classmethod
    def with_requirements(
        cls,
        scope: Construct,
        construct_id: str,
        requirements: str | Path,
        *,
        runtime: lambda_.Runtime = RUNTIME,
        architecture: lambda_.Architecture = ARCHITECTURE,
        layer_props: Mapping[str, Any] | None = None,
    ) -> OncekeyLayer:
        """The library and the packages of a requirements file, for one Python and one processor.

            layer = OncekeyLayer.with_requirements(self, "Layer", "requirements.lock")
            IdempotentFunction(self, "Payments", layers=[layer], ...)

        pip fetches wheels, without Docker, and runs nothing of them. Pin each package with its
        hash: pip then refuses any other file. pip judges markers by this machine's Python, so
        resolve for Lambda's:

            uv pip compile requirements.in --generate-hashes --python-version 3.13
                --python-platform aarch64-manylinux2014 -o requirements.lock

        Args:
            scope: The stack, or a construct in it.
            construct_id: Its name there.
            requirements: The file, with each package and each of its dependencies.
            runtime: The functions' Python.
            architecture: The functions' processor.
            layer_props: Overrides, as of the construct itself.

        Raises:
            ValueError: There is no such file, or an argument is wrong.
            RuntimeError: pip cannot fetch the packages, or they are too large.
        """
        file = Path(requirements)
        faults = [] if file.is_file() else [f"there is no requirements file {str(requirements)!r}"]
        refuse(faults, scope=scope, construct_id=construct_id, kind="OncekeyLayer")
        code = code_with_requirements(
            installed_package(), file, runtime=runtime, architecture=architecture
        )
        return cls(
            scope,
            construct_id,
            code=code,
            runtimes=[runtime],
            architectures=[architecture],
            layer_props=layer_props,
        )

    @staticmethod
    def shared(
        scope: Construct, *, runtime: lambda_.Runtime, architecture: lambda_.Architecture
    ) -> OncekeyLayer:
        """The layer of the stack that `scope` is in, the same for every function of its kind."""
        stack = Stack.of(scope)
        is_default = (runtime.name, architecture.name) == (RUNTIME.name, ARCHITECTURE.name)
        kind = "" if is_default else f"-{runtime.name}-{architecture.name}"
        found = stack.node.try_find_child(_SHARED_ID + kind)
        if found is not None:
            return cast("OncekeyLayer", found)
        return OncekeyLayer(
            stack, _SHARED_ID + kind, runtimes=[runtime], architectures=[architecture]
        )


def installed_package() -> Path:
    """The folder of the installed package `oncekey`.

    Raises:
        ValueError: The package is not installed.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ValueError(f"the package {_PACKAGE} is not installed: install it, or pass code=")
    return Path(spec.origin).parent


def installed_library() -> lambda_.Code:
    """The installed package `oncekey` as a layer holds it, copied without Docker.

    Raises:
        ValueError: The package is not installed.
    """
    package = installed_package()
    return lambda_.Code.from_asset(
        str(package),
        exclude=_NO_CACHES,
        bundling=BundlingOptions(
            # The image is never pulled, because local bundling does not fail.
            image=DockerImage.from_registry("scratch"),
            local=cast("ILocalBundling", _Copy(package)),
        ),
    )


@jsii.implements(ILocalBundling)
class _Copy:
    def __init__(self, package: Path) -> None:
        self._package = package

    def try_bundle(self, output_dir: str, *_: object, **__: object) -> bool:
        copy_package(self._package, Path(output_dir, "python"))
        return True
