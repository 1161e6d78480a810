"""`dataclass`, as the standard library's decorator, without compiling methods for each class.

The standard decorator writes the source of each class's methods and compiles it. Inside WebAssembly that takes 4 to 7
milliseconds for a class; the modules that a first story needs define 50 of them. Here all classes share the same
methods, which look at the class's fields. So defining a class costs little, and making an instance a little more
(about 2 microseconds). `fields`, `replace`, `asdict` and `field` are the standard library's and work on these classes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import inspect
    from reprlib import recursive_repr
    from types import FunctionType, MemberDescriptorType, SimpleNamespace

    MISSING = dataclasses.MISSING
    FIELD = dataclasses._FIELD  # what `fields` looks for: a field that is neither a ClassVar nor an InitVar

    def dataclass(
        cls: type | None = None,
        /,
        *,
        init: bool = True,
        repr: bool = True,
        eq: bool = True,
        frozen: bool = False,
        kw_only: bool = False,
        slots: bool = False,
    ) -> Any:
        """Adds `__init__`, `__repr__`, `__eq__`, `__hash__` and, for `frozen`, `__setattr__` and `__delattr__`.

        A method that the class defines itself stays.

        Raises:
            TypeError: a field without a default follows one with a default, an annotation is an `InitVar`, or a class
                with `slots` calls `super()` without arguments.
            ValueError: a default is mutable, or a class with `slots` has `__slots__` already.
        """

        def decorate(cls: type) -> type:
            _collect_fields(cls, kw_only)
            cls.__dataclass_params__ = SimpleNamespace(
                init=init, repr=repr, eq=eq, order=False, unsafe_hash=False, frozen=frozen, match_args=True,
                kw_only=kw_only, slots=slots, weakref_slot=False,
            )  # fmt: skip
            if slots:
                cls = _with_slots(cls, frozen)
            if init:
                _define(cls, "__init__", _make_init(cls))
                if "__signature__" not in cls.__dict__:
                    cls.__signature__ = _Signature()
            if repr:
                _define(cls, "__repr__", _repr)
            if eq:
                _define(cls, "__eq__", _eq)
                own_hash = cls.__dict__.get("__hash__")  # Python sets None where a class defines __eq__ alone
                if own_hash is None:
                    cls.__hash__ = _hash if frozen else None
            if frozen:
                cls.__setattr__ = _frozen_setattr
                cls.__delattr__ = _frozen_delattr
            return cls

        return decorate if cls is None else decorate(cls)

    def _define(cls: type, name: str, method: Any) -> None:
        """Adds a method, unless the class has its own."""
        if name not in cls.__dict__:
            setattr(cls, name, method)

    def _collect_fields(cls: type, kw_only: bool) -> None:
        """Reads the class's annotations, after its bases' fields, and leaves its plain defaults as attributes."""
        found: dict[str, dataclasses.Field[Any]] = {}
        for base in cls.__mro__[-1:0:-1]:
            found |= base.__dict__.get("__dataclass_fields__", {})
        for name, annotation in inspect.get_annotations(cls).items():
            text = annotation if isinstance(annotation, str) else str(annotation)
            if "ClassVar" in text:
                continue
            if "InitVar" in text:
                raise TypeError(f"{cls.__qualname__}.{name}: use the standard library's dataclass for an InitVar")
            default = cls.__dict__.get(name, MISSING)
            entry = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
            entry.name, entry.type, entry._field_type = name, annotation, FIELD
            if entry.kw_only is MISSING:
                entry.kw_only = kw_only
            if entry.default is not MISSING:
                if entry.default.__class__.__hash__ is None:
                    kind = type(entry.default).__name__
                    raise ValueError(f"{cls.__qualname__}.{name}: a {kind} is mutable: use field(default_factory=...)")
                setattr(cls, name, entry.default)
            elif default is not MISSING:
                delattr(cls, name)
            found[name] = entry
        cls.__dataclass_fields__ = found
        positional = [entry for entry in found.values() if entry.init and not entry.kw_only]
        cls.__match_args__ = cls.__dict__.get("__match_args__", tuple(entry.name for entry in positional))
        before = None
        for entry in positional:
            if not _required(entry):
                before = entry.name
            elif before is not None:
                raise TypeError(f"{cls.__qualname__}.{entry.name} has no default and follows {before!r}, which has one")

    def _required(entry: dataclasses.Field[Any]) -> bool:
        return entry.default is MISSING and entry.default_factory is MISSING

    def _with_slots(cls: type, frozen: bool) -> type:
        """The same class again with `__slots__`: a class cannot get them later."""
        if "__slots__" in cls.__dict__:
            raise ValueError(f"{cls.__qualname__} has __slots__ already")
        inherited = {name for base in cls.__mro__[1:-1] for name in _slots_of(base)}
        names = tuple(cls.__dataclass_fields__)
        members = dict(cls.__dict__)
        if any(
            "__class__" in member.__code__.co_freevars
            for member in members.values()
            if isinstance(member, FunctionType)
        ):
            raise TypeError(f"{cls.__qualname__}: with slots, super() needs its arguments")
        for name in (*names, "__dict__", "__weakref__"):
            members.pop(name, None)
        members["__slots__"] = tuple(name for name in names if name not in inherited)
        if frozen:  # `copy` and `pickle` set attributes otherwise
            members.setdefault("__getstate__", _getstate)
            members.setdefault("__setstate__", _setstate)
        again = type(cls)(cls.__name__, cls.__bases__, members)
        again.__qualname__ = cls.__qualname__
        return again

    def _slots_of(cls: type) -> tuple[str, ...]:
        slots = cls.__dict__.get("__slots__", ())
        return (slots,) if isinstance(slots, str) else tuple(slots)

    def _make_init(cls: type) -> Any:
        entries = list(cls.__dataclass_fields__.values())
        taken = [entry for entry in entries if entry.init]
        positional = tuple(entry.name for entry in taken if not entry.kw_only)
        known = {entry.name for entry in taken}
        defaults = {entry.name: entry.default for entry in entries if entry.default is not MISSING}
        factories = [(entry.name, entry.default_factory) for entry in entries if entry.default_factory is not MISSING]
        order = tuple(entry.name for entry in entries)
        count = len(order)
        check = hasattr(cls, "__post_init__")
        slotted = any(isinstance(getattr(cls, name, None), MemberDescriptorType) for name in order)
        put = object.__setattr__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            values = dict(zip(positional, args, strict=False))
            if len(args) > len(positional) or (
                kwargs and not (kwargs.keys() <= known and values.keys().isdisjoint(kwargs))
            ):
                raise _arguments_error(self, args, kwargs, positional, known)
            values = {**defaults, **values, **kwargs}
            for name, factory in factories:
                if name not in values:
                    values[name] = factory()
            if len(values) < count:
                missing = [name for name in order if name not in values and name in known]
                if missing:
                    raise TypeError(f"{type(self).__qualname__}() lacks {', '.join(missing)}")
            if slotted:
                for name, value in values.items():
                    put(self, name, value)
            else:
                attributes = self.__dict__
                for name in order:
                    if name in values:
                        attributes[name] = values[name]
            if check:
                self.__post_init__()

        __init__.__qualname__ = f"{cls.__qualname__}.__init__"
        return __init__

    def _arguments_error(
        self: Any, args: tuple[Any, ...], kwargs: dict[str, Any], positional: tuple[str, ...], known: set[str]
    ) -> TypeError:
        name = type(self).__qualname__
        if len(args) > len(positional):
            return TypeError(f"{name}() takes {len(positional)} positional arguments, not {len(args)}")
        unknown = [key for key in kwargs if key not in known]
        if unknown:
            return TypeError(f"{name}() has no argument {unknown[0]!r}; it has {', '.join(sorted(known))}")
        twice = next(key for key in positional[: len(args)] if key in kwargs)
        return TypeError(f"{name}() got {twice!r} twice: by position and by name")

    class _Signature:
        """What `inspect.signature` and `help` show, made when they ask."""

        def __get__(self, instance: Any, cls: type) -> inspect.Signature:
            parameters = []
            for entry in sorted(cls.__dataclass_fields__.values(), key=lambda entry: entry.kw_only):
                if entry.init:
                    kind = inspect.Parameter.KEYWORD_ONLY if entry.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
                    default = inspect.Parameter.empty if entry.default is MISSING else entry.default
                    if entry.default_factory is not MISSING:
                        default = FACTORY
                    parameters.append(inspect.Parameter(entry.name, kind, default=default, annotation=entry.type))
            return inspect.Signature(parameters)

    class _Factory:
        def __repr__(self) -> str:
            return "<factory>"

    FACTORY = _Factory()  # shown as the default of an argument that has a default_factory

    def _compared(self: Any) -> tuple[Any, ...]:
        return tuple([getattr(self, entry.name) for entry in self.__dataclass_fields__.values() if entry.compare])

    @recursive_repr()
    def _repr(self: Any) -> str:
        entries = (entry for entry in self.__dataclass_fields__.values() if entry.repr)
        shown = ", ".join(f"{entry.name}={getattr(self, entry.name)!r}" for entry in entries)
        return f"{self.__class__.__qualname__}({shown})"

    def _eq(self: Any, other: object) -> Any:
        if self is other:
            return True
        return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self: Any) -> int:
        entries = self.__dataclass_fields__.values()
        hashed = [entry.name for entry in entries if (entry.compare if entry.hash is None else entry.hash)]
        return hash(tuple([getattr(self, name) for name in hashed]))

    def _is_frozen(self: Any, name: str) -> bool:
        """A subclass that is not a dataclass may have attributes of its own."""
        return "__dataclass_params__" in type(self).__dict__ or name in self.__dataclass_fields__

    def _frozen_setattr(self: Any, name: str, value: Any) -> None:
        if _is_frozen(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def _frozen_delattr(self: Any, name: str) -> None:
        if _is_frozen(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    def _getstate(self: Any) -> list[Any]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def _setstate(self: Any, state: list[Any]) -> None:
        for name, value in zip(self.__dataclass_fields__, state, strict=True):
            object.__setattr__(self, name, value)
