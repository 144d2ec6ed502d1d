"""The layer: what is in it, what is not, and that it is the same whenever it is made."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from infra import layer_bundle
from infra.layer_bundle import MAX_SIZE_MB, LayerBundle, bundle_layer
from infra.layer_requirements import ARCHITECTURES, LayerTarget
from infra.service import SERVICE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "layer" / "python" / "oncekey"
# What Lambda's own Python brings: boto3 and what that needs.
RUNTIME = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")
# e_machine of an ELF file.
MACHINES = {"arm64": 0xB7, "x86_64": 0x3E}
LAMBDA_LIMIT_MB = 250


def _host() -> LayerTarget:
    """The runtime that is most like this machine, so that what is compiled can be loaded here."""
    (architecture,) = [
        name for name, machine in ARCHITECTURES.items() if platform.machine() in {machine, name}
    ]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return LayerTarget(python_version=version, architecture=architecture)


@pytest.fixture(scope="module")
def default() -> LayerBundle:
    """The layer that is deployed if nobody says otherwise."""
    return bundle_layer(LayerTarget())


@pytest.fixture(scope="module")
def host() -> LayerBundle:
    """The layer for this machine's own processor and Python."""
    return bundle_layer(_host())


@pytest.fixture(scope="module", params=["default", "host"])
def bundle(request: pytest.FixtureRequest) -> LayerBundle:
    """Both layers in turn."""
    made: LayerBundle = request.getfixturevalue(request.param)
    return made


def _files(bundle: LayerBundle) -> list[Path]:
    return [path for path in bundle.folder.rglob("*") if path.is_file()]


def _contents(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_layer_holds_exactly_these_packages(bundle: LayerBundle) -> None:
    """Beside oncekey the layer carries Powertools, pydantic and stripe, and what they need."""
    notes = {path.name.partition("-")[0] for path in bundle.folder.glob("python/*.dist-info")}
    modules = {path.name.removesuffix(".py") for path in bundle.folder.glob("python/*")}

    assert notes == {
        "annotated_types",
        "aws_lambda_powertools",
        "certifi",
        "charset_normalizer",
        "idna",
        "jmespath",
        "pydantic",
        "pydantic_core",
        "requests",
        "stripe",
        "typing_extensions",
        "typing_inspection",
        "urllib3",
    }
    assert {name for name in modules if not name.endswith(".dist-info")} == {*notes, "oncekey"}


def test_the_package_is_in_the_layer_file_by_file(bundle: LayerBundle) -> None:
    """The layer holds layer/python/oncekey as it stands."""
    shipped = _contents(bundle.folder / "python" / "oncekey")

    assert shipped == _contents(SOURCE)


def test_what_no_function_needs_is_left_out(bundle: LayerBundle) -> None:
    """No cache, test, command, installer's note, local runtime or boto3 is in the layer; the
    licences of what ships are.
    """
    assert [path.name for path in bundle.folder.iterdir()] == ["python"]
    names = {part for path in _files(bundle) for part in path.relative_to(bundle.folder).parts}
    unwanted = {"__pycache__", "tests", "bin", "RECORD", "INSTALLER", "REQUESTED", "WHEEL"}
    assert names & unwanted == set()
    packages = {path.name for path in (bundle.folder / "python").iterdir()}
    assert packages & {"oncekey_local", "functions", "boto3", "botocore"} == set()
    assert [path for path in _files(bundle) if path.suffix == ".pyc"] == []
    for note in bundle.folder.glob("python/*.dist-info"):
        assert (note / "METADATA").is_file()
        assert [path for path in note.rglob("*") if path.name != "METADATA"], note.name


def test_what_is_compiled_is_for_the_target(bundle: LayerBundle) -> None:
    """Every compiled module is for the processor and the Python that the layer is for."""
    compiled = [path for path in _files(bundle) if ".so" in path.suffixes]
    tag = f".cpython-{bundle.target.python_version.replace('.', '')}-"

    assert "_pydantic_core" in {path.name.partition(".")[0] for path in compiled}
    for path in compiled:
        machine = int.from_bytes(path.read_bytes()[18:20], "little")
        assert machine == MACHINES[bundle.target.architecture], path.name
        assert tag in path.name


def test_the_layer_is_far_below_the_limit_of_lambda(bundle: LayerBundle) -> None:
    """The layer's size is counted, told and bounded."""
    assert bundle.size_bytes == sum(path.stat().st_size for path in _files(bundle))
    assert bundle.size_bytes <= MAX_SIZE_MB * 1e6 < LAMBDA_LIMIT_MB * 1e6 / 5
    assert f"{bundle.size_bytes / 1e6:.1f} MB unzipped" in bundle.summary()


def test_a_layer_that_has_grown_too_large_is_refused(
    default: LayerBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer above the bound is not made, and the message says where to look."""
    monkeypatch.setattr(layer_bundle, "MAX_SIZE_MB", 1)

    with pytest.raises(RuntimeError, match=r"at most 1 MB.*too large; find out with `du`"):
        bundle_layer(default.target)


@pytest.mark.proof
def test_the_same_input_makes_the_same_layer(default: LayerBundle, tmp_path: Path) -> None:
    """A layer that is made from nothing has the digest, names, times and modes of any other."""
    again = bundle_layer(default.target, cache=tmp_path)

    assert (again.digest, again.size_bytes) == (default.digest, default.size_bytes)
    one, other = (
        {
            path.relative_to(bundle.folder): (path.stat().st_mtime, path.stat().st_mode)
            for path in bundle.folder.rglob("*")
        }
        for bundle in (default, again)
    )
    assert one == other


def test_another_input_makes_another_layer(default: LayerBundle, host: LayerBundle) -> None:
    """The digest tells layers of different targets apart."""
    assert default.digest != host.digest


def test_a_package_of_another_hash_is_never_bundled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a package is not the locked one, no layer is made, and none is found the next time."""
    forged = f"annotated-types==0.8.0 \\\n    --hash=sha256:{'0' * 64}\n"
    monkeypatch.setattr(layer_bundle, "locked_requirements", lambda *_: forged)

    with pytest.raises(RuntimeError, match=r"pip cannot fetch.*(?s:.)*DO NOT MATCH THE HASHES"):
        bundle_layer(LayerTarget(), cache=tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_the_functions_load_from_the_layer_alone(host: LayerBundle, tmp_path: Path) -> None:
    """Every handler is imported, and the provider's client made, where nothing else is installed
    but the layer and boto3.
    """
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for name in RUNTIME:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        origin = origin.parent if origin.name == "__init__.py" else origin
        (runtime / origin.name).symlink_to(origin)
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "functions").symlink_to(ROOT / "functions")
    # As in Lambda: the function's own code, the layers, the runtime.
    path = [str(tmp_path / "task"), str(host.folder / "python"), str(runtime)]
    modules = [function.handler.rpartition(".")[0] for function in SERVICE.functions]
    program = (
        f"import sys, importlib; sys.path[:0] = {path!r};"
        f"[importlib.import_module(name) for name in {modules!r}];"
        # What the SDK sends with is loaded when there is something to send.
        "import functions.shared.provider; functions.shared.provider.client();"
        "print(sys.modules['oncekey'].__file__, sys.modules['pydantic'].__file__)"
    )
    variables = {name: "x" for one in SERVICE.functions for name in one.environment}

    done = subprocess.run(
        # -I and -S: neither the environment's packages nor the folder that the test runs in.
        [sys.executable, "-I", "-S", "-B", "-c", program],
        env={**variables, "POWERTOOLS_LOG_LEVEL": "INFO", "AWS_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert all(str(host.folder) in origin for origin in done.stdout.split())
