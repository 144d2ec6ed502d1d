"""What is stored chooses neither what is imported, nor how much memory reading it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ResultUnavailable
from oncekey.encoding.refusals import Unreadable
from oncekey.encoding.results import decode, encode
from oncekey.record.record import Status
from oncekey.record.stored_answer import (
    LARGEST_TEXT_BYTES,
    AnswerDamaged,
    Blob,
    NotKept,
    opened,
    place_answer,
)
from tests.support.events import load
from tests.support.function_calls import Calls
from tests.support.protected import Protected, problem_of
from tests.support.records import record
from tests.support.replacing import replace
from tests.support.result_kinds import Item
from tests.support.steps import Steps, step

if TYPE_CHECKING:
    from pathlib import Path

POST = load("apigw_http_v2_post")
_MODELS = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


open({witness!r}, "a").write("loaded\\n")


@dataclass
class Charged:
    amount: int


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: int
"""
_READ = "from oncekey.encoding.results import decode; print(repr(decode({text!r})))"


def forged(kind: str, name: str, **parts: Any) -> str:
    """A stored result that names this class."""
    return json.dumps({"$": kind, "c": name, "v": {}, **parts})


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a module of models, whose loading leaves a witness, and one that imports it."""
    witness = str(tmp_path / "witness")
    (tmp_path / "my_models.py").write_text(_MODELS.format(witness=witness))
    (tmp_path / "my_handler.py").write_text("from my_models import Charged\n")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text(f"open({witness!r}, 'a').write('x')\n")
    return tmp_path


def reads(text: str, folder: Path, *, first: str = "") -> subprocess.CompletedProcess[str]:
    """A fresh process that does `first`, and then reads `text`."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {first}\n{_READ.format(text=text)}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.fault("K1.3")
@pytest.mark.parametrize(
    "text",
    [
        forged("dataclass", "my_models:Charged", v={"amount": 1}),
        forged("namedtuple", "my_models:Pair", v={"left": 1, "right": 2}),
        forged("enum", "my_models:Colour", v="RED"),
        forged("model", "my_models:Charged", v={"amount": 1}),
        forged("dataclass", "my_package.sub:Anything"),
        forged("dataclass", "my_package:Anything"),
        json.dumps([{"a": json.loads(forged("dataclass", "my_models:Charged", v={"amount": 1}))}]),
    ],
)
def test_reading_a_result_imports_no_module(text: str, package: Path) -> None:
    """A stored result that names a class of a module which nobody has loaded is refused, with what
    to do, and the module is not run.

    Red when a class is imported because a stored result names it.
    """
    read = reads(text, package)

    assert read.returncode != 0
    assert "Unreadable" in read.stderr
    assert "import it at the top of the handler's module" in read.stderr
    assert not (package / "witness").exists()


@pytest.mark.fault("K1.3")
def test_a_fresh_sandbox_reads_what_its_handlers_module_imports(package: Path) -> None:
    """In a process that has loaded the handler's module alone, a class that this module imports is
    found.

    Red when only classes of the module of the handler itself are found.
    """
    text = forged("dataclass", "my_models:Charged", v={"amount": 1})

    read = reads(text, package, first="import my_handler")

    assert (read.stdout, read.stderr) == ("Charged(amount=1)\n", "")


@pytest.mark.fault("K1.3")
@pytest.mark.parametrize(
    "text",
    [
        forged("dataclass", "os:system"),
        forged("dataclass", "subprocess:Popen"),
        forged("model", "tests.support.result_kinds:Item", v={"name": "x"}),
        forged("namedtuple", "tests.support.result_kinds:Item", v={"name": "x"}),
        forged("enum", "tests.support.result_kinds:Item", v="name"),
        forged("dataclass", "oncekey.results:decode"),
        forged("dataclass", "oncekey.results:json.loads"),
        forged("dataclass", ":"),
        forged("dataclass", "nothing"),
        forged("dataclass", "oncekey.results:"),
        json.dumps({"$": "dataclass", "c": 5, "v": {}}),
        json.dumps({"$": "dataclass", "c": None, "v": {}}),
        json.dumps({"$": "dataclass", "c": ["os"], "v": {}}),
    ],
)
def test_what_is_no_class_of_its_kind_is_made_nothing_of(text: str) -> None:
    """Of what is loaded only dataclasses, enums, named tuples and models are made, each of its
    kind.

    Red when the kind of a class is not compared, or anything that has a name is taken.
    """
    with pytest.raises(Unreadable):
        decode(text)


@pytest.mark.fault("K1.3")
def test_a_time_of_pydantics_is_read_without_pydantic(package: Path) -> None:
    """A time in pydantic's zone is read as an equal one where pydantic is not loaded, and pydantic
    is not loaded for it.

    Red when reading imports pydantic.
    """
    text = json.dumps({"$": "datetime", "v": "2026-11-28T10:00:00+00:00", "pydantic": True})

    read = reads(
        text,
        package,
        first="import atexit; atexit.register(lambda: print('pydantic_core' in sys.modules))",
    )

    assert read.stdout.splitlines()[-1] == "False"
    assert "datetime.datetime(2026, 11, 28, 10, 0" in read.stdout


@pytest.mark.fault("K1.3")
def test_a_stored_class_that_is_not_loaded_makes_a_call_say_so() -> None:
    """A call whose stored result names such a class raises `ResultUnavailable`, and runs nothing.

    Red when the call runs again, or imports what the record names.
    """
    calls = Calls()
    calls.result = Item("x", 1)
    calls.call({"id": "a"})
    pk, stored = next(iter(calls.store.records.items()))
    assert isinstance(stored.response, str)
    evil = stored.response.replace("tests.support.result_kinds:Item", "antigravity:Item")
    calls.store.records[pk] = replace(stored, response=evil)

    with pytest.raises(ResultUnavailable):
        calls.call({"id": "a"})

    assert "antigravity" not in sys.modules
    assert len(calls.runs) == 1


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """What inflates to many times what is ever stored."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(b" " * LARGEST_TEXT_BYTES) for _ in range(20)]
    return b"".join([packer.compress(b'"'), *parts, packer.compress(b'"'), packer.flush()])


@pytest.mark.fault("K1.4")
def test_inflating_ends_at_a_bound(bomb: bytes) -> None:
    """What inflates to more than is ever stored is damaged; it takes no more memory than the
    largest answer.

    Red when the whole of it is inflated first.
    """
    tracemalloc.start()
    with pytest.raises(AnswerDamaged):
        opened(bomb, None)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 3 * LARGEST_TEXT_BYTES


@pytest.mark.fault("K1.4")
def test_a_bomb_in_a_record_is_an_answer_that_is_not_available(bomb: bytes) -> None:
    """A replay of it is refused (500 `answer-unavailable`), and the handler does not run again.

    Red when it is inflated, or the key runs again.
    """
    service = Protected()
    service.send(POST)
    pk, stored = next(iter(service.store.records.items()))
    service.store.records[pk] = replace(stored, response=bomb)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)
    assert len(service.runs) == 1


@pytest.mark.fault("K1.4")
def test_a_bomb_as_a_steps_result_stops_the_attempt(bomb: bytes) -> None:
    """A step whose stored result is one is not run again, and its operation waits for a person.

    Red when results of steps are inflated without a bound.
    """
    service = Steps()
    service.dies(step("charge", "c-1"))
    service.lets_the_lease_run_out()
    pk, stored = next(iter(service.store.records.items()))
    finished = replace(stored.steps.finished[0], result=bomb)
    steps = replace(stored.steps, finished=(finished,))
    service.store.records[pk] = replace(stored, steps=steps)

    assert service.sends(step("charge", "c-1"))["statusCode"] == 409
    assert service.ran == ["charge"]
    assert service.record.status is Status.UNKNOWN
    assert service.record.escalated_at_ms is not None


@pytest.mark.fault("K1.4")
@pytest.mark.parametrize("less", [0, 1])
def test_whatever_is_stored_can_be_read(less: int) -> None:
    """The largest answer that is kept is within the bound of reading; a larger one is not kept.

    Red when more is stored than is ever read again.
    """
    text = encode("x" * (LARGEST_TEXT_BYTES - 2 - less))
    stored, blob = place_answer(text, record(), expires_at_s=1, has_bucket=True)
    assert isinstance(blob, Blob)
    assert opened(stored, blob.data) == text

    larger = text + " " * (less + 1)
    assert place_answer(larger, record(), expires_at_s=1, has_bucket=True) == (
        NotKept("answer-too-large"),
        None,
    )


@pytest.mark.fault("K1.4")
def test_what_is_not_whole_is_damaged() -> None:
    """Bytes that end too early, or go on after their end, are no stored answer.

    Red when the end of what is inflated is not looked for.
    """
    whole = zlib.compress(b'{"statusCode":200}')
    for damaged in (whole[:-1], whole + b"x", whole + whole, b""):
        with pytest.raises(AnswerDamaged):
            opened(damaged, None)
