"""Our named tuples are those of `typing`, and nothing imports `typing` for them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import typing

import pytest

from conch import lean


class Theirs(typing.NamedTuple):
    name: str
    age: int = 7

    @property
    def next_age(self) -> int:
        return self.age + 1


class Ours(lean.NamedTuple):
    name: str
    age: int = 7

    @property
    def next_age(self) -> int:
        return self.age + 1


@pytest.fixture(params=[Theirs, Ours])
def kind(request: pytest.FixtureRequest) -> typing.Any:
    return request.param


def test_fields_are_given_by_place_or_by_name_and_may_have_defaults(kind: typing.Any) -> None:
    assert kind("ada", 8) == kind(age=8, name="ada") == ("ada", 8)
    assert kind("ada").age == 7
    assert kind("ada").next_age == 8
    assert kind._fields == ("name", "age")
    assert kind._field_defaults == {"age": 7}


@pytest.mark.parametrize("values, named", [((), {}), (("a", 1, 2), {}), (("a",), {"size": 1}), (("a",), {"name": "b"})])
def test_a_missing_or_unknown_field_is_refused(kind: typing.Any, values: typing.Any, named: typing.Any) -> None:
    with pytest.raises(TypeError):
        kind(*values, **named)


def test_a_class_that_is_called_often_stays_the_same(kind: typing.Any) -> None:
    often = [kind("ada", number) for number in range(100)]

    assert [each.age for each in often] == list(range(100))
    assert kind(age=8, name="ada") == ("ada", 8)
    with pytest.raises(TypeError):
        kind("ada", 1, 2)


def test_a_value_cannot_be_changed(kind: typing.Any) -> None:
    ada = kind("ada")

    with pytest.raises(AttributeError):
        ada.name = "bob"
    with pytest.raises(AttributeError):
        ada.size = 1


def test_a_copy_may_differ(kind: typing.Any) -> None:
    assert kind("ada")._replace(age=9) == kind("ada", 9)
    assert kind("ada")._asdict() == {"name": "ada", "age": 7}


def test_a_value_prints_as_the_call_that_makes_it(kind: typing.Any) -> None:
    ada = kind("ada")

    assert repr(ada) == f"{kind.__name__}(name='ada', age=7)"
    assert eval(repr(ada), {kind.__name__: kind}) == ada


def test_our_values_survive_a_pickle() -> None:
    from conch.host.processes import Process

    process = Process("host", "boot", 1, 2)

    copied = pickle.loads(pickle.dumps(process))

    assert copied == process and type(copied) is Process


def test_every_name_is_one_of_typing_or_of_the_modules_that_wait() -> None:
    waiting = {"Lock", "import_module", "json", "lazy_module", "re", "signal", "threading"}

    assert [name for name in lean.__all__ if not hasattr(typing, name) and name not in waiting] == []


def test_a_named_tuple_costs_no_import_of_typing() -> None:
    program = "import sys, conch.lean; sys.exit('typing' in sys.modules)"

    assert subprocess.run([sys.executable, "-S", "-c", program], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0
