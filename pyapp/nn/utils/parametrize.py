"""Parameters that are functions of others: `module.weight` is computed from `module.parametrizations`, by
torch.nn.utils.parametrize's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.thread_local import ThreadLocal
from ...engine.user_errors import describe
from ...errors import OperationError
from ..layers.containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Initialization, Parameter, new_parameter


class ParametrizationList(ModuleList):
    """The functions of one tensor, and the arguments of the first function: `original`, or `original0`, `original1`,
    ...
    """

    def __init__(self, modules: list[Module], original: Tensor) -> None:
        super().__init__(modules)
        made, value = Initialization.on, original.detach()
        if not made:  # the values are to be read
            value = ops.empty(*original.shape, dtype=original.dtype, device="meta")
        found: Any
        try:
            found = self._inverse(value)
        except NotImplementedError:  # as if there were none
            found = value
        if not isinstance(found, Tensor) and not (
            isinstance(found, Sequence) and all(isinstance(part, Tensor) for part in found)
        ):
            raise ValueError(f"register_parametrization: right_inverse gives a tensor or a list, not {describe(found)}")
        self.is_tensor = isinstance(found, Tensor)
        parts: dict[str, Any] = (
            {"original": found} if self.is_tensor else {f"original{i}": part for i, part in enumerate(found)}
        )
        self._names = tuple(parts)
        for name, part in parts.items():
            if not made:
                setattr(self, name, new_parameter(ops.zeros, *part.shape, dtype=part.dtype))
            elif self.is_tensor:  # the same parameter, which optimisers may have
                if part is not value:
                    original.data = part.clone()
                (self.register_parameter if original.is_parameter else self.register_buffer)(name, original)
            elif original.is_parameter:
                setattr(self, name, Parameter(part.clone(), original.requires_grad))
            else:
                self.register_buffer(name, part.clone())

    def _inverse(self, value: Tensor) -> Any:
        """The arguments that make the functions return a value, from their `right_inverse`, if they have one."""
        found: Any = value
        with no_grad():
            for module in reversed(list(self)):
                invert = getattr(module, "right_inverse", None)
                found = found if invert is None else invert(found)
        return found

    def originals(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._names]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the functions return `value`."""
        for module in self:
            if not hasattr(module, "right_inverse"):
                raise OperationError(
                    f"a value cannot be assigned: the parametrization {type(module).__name__} has no right_inverse"
                )
        found = self._inverse(value)
        with no_grad():
            for target, part in zip(self.originals(), [found] if self.is_tensor else found, strict=True):
                target.copy_(part)

    def forward(self) -> Tensor:
        first, *more = self
        value: Tensor = first(*self.originals())
        for module in more:
            value = module(value)
        return value


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module is parametrized; without a name, whether any is."""
    held = module.__dict__.get("parametrizations")
    return bool(held) if tensor_name is None or not held else tensor_name in held


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replaces `module.<tensor_name>` by `parametrization(original)`. The original is the tensor, or its
    `right_inverse` if the parametrization has one. ValueError if the name is neither a parameter nor a buffer, or,
    unless `unsafe`, if the shape or dtype changes.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if Initialization.on and not unsafe:
            with no_grad():
                value = getattr(module, tensor_name)
                _check_kept(value, parametrization(value))
        module.parametrizations[tensor_name].append(parametrization)
        return module
    value = {**module._parameters, **module._buffers}.get(tensor_name)
    if value is None:
        raise ValueError(f"register_parametrization: {type(module).__name__} has no tensor {tensor_name!r}")
    before = value.data
    held = ParametrizationList([parametrization], value)
    if Initialization.on and not unsafe:
        try:
            with no_grad():
                _check_kept(before, held())
            if held.is_tensor and held.original.dtype is not before.dtype:
                raise ValueError(f"register_parametrization: right_inverse of {describe(before)} has another dtype")
        except Exception:
            value.data = before
            raise
    delattr(module, tensor_name)
    if not is_parametrized(module):
        kind = type(module)
        module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"plain_class": kind})
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = held
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _check_kept(value: Tensor, made: Any) -> None:
    """ValueError unless what a parametrization makes of a value is a tensor of its shape and dtype."""
    if not isinstance(made, Tensor) or made.shape != value.shape or made.dtype is not value.dtype:
        raise ValueError(f"register_parametrization: {describe(value)} would become {describe(made)}")


def type_before_parametrizations(module: Module) -> type:
    """The class of a module before its tensors were parametrized."""
    kind: type = getattr(module, "plain_class", type(module)) if is_parametrized(module) else type(module)
    return kind


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrizes tensors of `to_module` by the modules that parametrize those of `from_module`, with copies of their
    originals: all tensors, or one. A tensor that `to_module` does not have is made. ValueError for one that
    `from_module` has not parametrized.
    """
    if not is_parametrized(from_module, tensor_name):
        raise ValueError(f"transfer_parametrizations_and_params: {tensor_name or 'no tensor'} is parametrized")
    for name in [tensor_name] if tensor_name is not None else list(from_module.parametrizations):
        held = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            to_module.register_parameter(name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in held:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        with no_grad():
            for target, source in zip(to_module.parametrizations[name].originals(), held.originals(), strict=True):
                target.copy_(source)
    return to_module


class _Thread(ThreadLocal):
    """What is computed once inside `cached`."""

    depth: int = 0
    values: dict[int, Tensor] | None = None  # by the id of a ParametrizationList


_thread = _Thread()


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once, when it is first read."""
    if not _thread.depth:
        _thread.values = {}
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1
        if not _thread.depth:
            _thread.values = None


def _read(held: ParametrizationList) -> Any:
    values = _thread.values
    if values is None:
        return held()
    if id(held) not in values:
        values[id(held)] = held()
    return values[id(held)]


def _write(held: ParametrizationList, value: Tensor) -> None:
    held.right_inverse(value)
    if _thread.values is not None:
        _thread.values.pop(id(held), None)


def _property(name: str) -> property:
    return property(
        lambda module: _read(module.parametrizations[name]),
        lambda module, value: _write(module.parametrizations[name], value),
    )


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a tensor ordinary again. It keeps its value, or, without `leave_parametrized`, gets the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not parametrized")
    held = module.parametrizations[tensor_name]
    if not leave_parametrized and not held.is_tensor:
        raise ValueError("remove_parametrizations: there are several originals; leave the parametrized value")
    first = held.originals()[0]
    value = (held() if leave_parametrized else first).detach().clone()
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    if not module.parametrizations:
        delattr(module, "parametrizations")
        module.__class__ = getattr(type(module), "plain_class")  # noqa: B009
    if first.is_parameter:
        if held.is_tensor:  # the same parameter, which optimisers may have
            first.data = value
        setattr(module, tensor_name, first if held.is_tensor else Parameter(value, first.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    return module
