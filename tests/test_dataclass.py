"""pyapp.dataclass beside the standard library's decorator, on the same class bodies."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from pyapp.dataclass import dataclass

OPTIONS: list[dict[str, Any]] = [
    {}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True}, {"kw_only": True}, {"eq": False},
    {"repr": False}, {"frozen": True, "kw_only": True}, {"init": False}, {"frozen": True, "eq": False},
]  # fmt: skip


def both(options: dict[str, Any]) -> list[Any]:
    """The same two classes, base and derived, by the standard decorator and by ours."""
    made = []
    for decorator in (dataclasses.dataclass, dataclass):

        @decorator(**options)
        class Base:
            """A point."""

            kind: ClassVar[str] = "base"
            x: int
            y: float = 2.0

        @decorator(**options)
        class Derived(Base):
            names: list[str] = field(default_factory=list)
            secret: int = field(default=7, repr=False, compare=False)
            y: float = 3.0
            later: int = field(default=1, kw_only=True)

            def twice(self) -> float:
                return 2 * self.y

        made.append((Base, Derived))
    return made


def outcome(call: Any) -> Any:
    """The value of a call, or the type of its error."""
    try:
        return call()
    except Exception as error:
        return type(error)


def name(options: dict[str, Any]) -> str:
    return "-".join(options) or "plain"


@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_instances_are_those_of_the_standard_decorator(options: dict[str, Any]) -> None:
    arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {"x": 1}), ((1,), {}), ((1, 2.5), {"later": 4}), ((1, 2.5, ["a"], 9), {}), ((), {}), ((1,), {"x": 1}),
        ((1, 2, [], 4, 5), {}), ((), {"x": 1, "unknown": 2}), ((), {"x": 1, "names": ["b"], "secret": 0, "y": 0.0}),
    ]  # fmt: skip
    for args, kwargs in arguments:
        seen = []
        for _, made in both(options):

            def describe(made: Any = made, args: Any = args, kwargs: Any = kwargs) -> Any:
                one, other = made(*args, **kwargs), made(*args, **kwargs)
                again = dataclasses.replace(one, x=5)
                return (
                    repr(one) if options.get("repr", True) else None,
                    one == other,
                    outcome(lambda: hash(one) == hash(other)),
                    one == again,
                    again.x,
                    dataclasses.asdict(one),
                    copy.deepcopy(one).x,
                    [entry.name for entry in dataclasses.fields(one)],
                    outcome(lambda: setattr(one, "x", 3)),
                    outcome(lambda: delattr(one, "y")),
                    # Python 3.11's own decorator fails here with a TypeError about super()
                    len(options) == 2 or outcome(lambda: setattr(one, "new", 3)),
                    hasattr(one, "__dict__"),
                    one.kind,
                    one.twice(),
                )

            seen.append(outcome(describe))
        assert seen[0] == seen[1], (args, kwargs)


@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_classes_say_the_same_about_themselves(options: dict[str, Any]) -> None:
    for standard, ours in zip(*both(options), strict=True):
        assert ours.__match_args__ == standard.__match_args__
        assert str(inspect.signature(ours)) == str(inspect.signature(standard)).replace(" -> None", "")
        assert dataclasses.is_dataclass(ours)
        assert ours.__qualname__ == standard.__qualname__
        assert (ours.__hash__ is None) == (standard.__hash__ is None)


def test_methods_of_the_class_itself_stay_and_post_init_runs() -> None:
    @dataclass(frozen=True)
    class Own:
        value: int
        doubled: int = field(default=0, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "doubled", 2 * self.value)

        def __repr__(self) -> str:
            return "own"

    made = Own(4)
    assert (made.doubled, repr(made)) == (8, "own")
    with pytest.raises(FrozenInstanceError, match="'value'"):
        made.value = 1  # type: ignore[misc]
    match made:
        case Own(value):
            assert value == 4


def test_errors_name_the_argument() -> None:
    @dataclass
    class Point:
        x: int
        y: int

    with pytest.raises(TypeError, match="Point.. lacks y"):
        Point(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument 'z'; it has x, y"):
        Point(1, 2, z=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'x' twice"):
        Point(1, x=3)  # type: ignore[misc]
    with pytest.raises(ValueError, match="a list is mutable"):

        @dataclass
        class Shared:
            names: list[str] = []

    with pytest.raises(TypeError, match="'a', which has one"):

        @dataclass
        class Order:
            a: int = 1
            b: int  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: str = "why"


@dataclass(frozen=True)
class Plain:
    x: int
    y: str = "why"


@pytest.mark.parametrize("made", [Slotted(3), Plain(3)], ids=["slots", "dict"])
def test_frozen_instances_are_pickled(made: Any) -> None:
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_plain_subclass_of_a_frozen_class_has_attributes_of_its_own() -> None:
    class Named(Plain):
        pass

    named = Named(1)
    named.label = "one"  # type: ignore[attr-defined]
    assert named.label == "one"  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        named.x = 2  # type: ignore[misc]
