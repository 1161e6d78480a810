"""Module: parameters, buffers and children by name, as in torch.nn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, no_grad
from ..engine.op import describe

if TYPE_CHECKING:
    from ..engine.autograd import RemovableHandle


class Parameter:
    """`Parameter(tensor)` marks a tensor as trainable; assigned to a Module it becomes one of its parameters."""

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Tensor:  # type: ignore[misc]
        data = data.detach()
        if requires_grad and data.dtype.is_floating_point:
            data.requires_grad_()
        data.is_parameter = True
        return data


class Module:
    """Holds parameters, buffers and other modules as attributes; `forward` says what it computes."""

    training: bool = True
    _hooks: Any = None  # ModuleHooks, where there are any

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self) -> None:
        self._parameters: dict[str, Tensor] = {}
        self._buffers: dict[str, Tensor] = {}
        self._transient: set[str] = set()
        self._modules: dict[str, Module] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if "_modules" in state and name not in ("_parameters", "_buffers", "_modules", "_transient"):
            for group in (self._parameters, self._buffers, self._modules):
                group.pop(name, None)
            if isinstance(value, Module):
                self._modules[name] = value
            elif isinstance(value, Tensor) and getattr(value, "is_parameter", False):
                self._parameters[name] = value
        object.__setattr__(self, name, value)

    def register_buffer(self, name: str, value: Tensor, persistent: bool = True) -> None:
        """A tensor that belongs to the module but is not trained; saved in state_dict unless `persistent` is False."""
        object.__setattr__(self, name, value)
        self._buffers[name] = value
        if not persistent:
            self._transient.add(name)

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """A parameter by its name; None keeps the name for none."""
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """A module by its name."""
        setattr(self, name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path ("" is this one). AttributeError where there is none."""
        found = self
        for part in target.split(".") if target else ():
            if part not in found._modules:
                raise AttributeError(f"{type(self).__name__} has no module {target!r}: {part!r} is not there")
            found = found._modules[part]
        return found

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at a dotted path. AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._parameters:
            raise AttributeError(f"{type(self).__name__} has no parameter {target!r}")
        return owner._parameters[name]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is not None:
            return self._hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # -- hooks

    def _register(self, kind: str, hook: Any) -> RemovableHandle:
        from .hooks import ModuleHooks, register

        if self._hooks is None:
            object.__setattr__(self, "_hooks", ModuleHooks())
        return register(getattr(self._hooks, kind), hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args)` runs before forward; what it returns, if anything, are the arguments instead.

        With `with_kwargs`: `hook(module, args, kwargs)`, which returns (args, kwargs).
        """
        return self._register("before", (hook, with_kwargs))

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args, output)` (or args, kwargs, output) runs after forward; what it returns, if anything, is
        the output instead.
        """
        return self._register("after", (hook, with_kwargs))

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of forward's positional tensors are known;
        what it returns, if anything, are the inputs' gradients instead.
        """
        return self._register("backward", hook)

    # -- walking

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Itself and every module below, by dotted path."""
        yield prefix, self
        for name, child in self._modules.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Each parameter once (a shared one under its first name)."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Tensor]:
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules():
            for name, buffer in module._buffers.items():
                yield (f"{path}.{name}" if path else name), buffer

    def buffers(self) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers())

    # -- state

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, sharing memory with the module."""
        result = {}
        for path, module in self.named_modules():
            for name, value in (*module._parameters.items(), *module._buffers.items()):
                if name not in module._transient:
                    result[f"{path}.{name}" if path else name] = value.detach()
        return result

    def load_state_dict(
        self, state: Mapping[str, Tensor], strict: bool = True, renames: Mapping[str, str] | None = None
    ) -> tuple[list[str], list[str]]:
        """Copies values in; returns (missing, unexpected) names. Strict: either raises KeyError. Shapes must agree.

        `renames`: parts of the state's names and what they are called here, {"gamma": "weight", "beta": "bias"}.
        """
        own = self.state_dict()
        if renames:
            from .weights import renamed

            named = {renamed(name, renames): value for name, value in state.items()}
            if len(named) != len(state):
                raise KeyError(f"load_state_dict: renames {dict(renames)} give two tensors the same name")
            state = named
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        if strict and (missing or unexpected):
            raise KeyError(f"load_state_dict: missing {missing or 'nothing'}, unexpected {unexpected or 'nothing'}")
        for name, target in own.items():
            if name in state and state[name].shape != target.shape:
                raise ValueError(
                    f"load_state_dict: {name} is {describe(target)}, the state holds {describe(state[name])}"
                )
        with no_grad():
            for name, target in own.items():
                if name in state:
                    target.copy_(state[name])
        return missing, unexpected

    def replace(self, name: str, value: Tensor) -> None:
        """Puts another tensor (another dtype, a block format) in the place of the parameter `name` (dotted)."""
        path, _, last = name.rpartition(".")
        owner = dict(self.named_modules())[path]
        if last not in owner._parameters:
            raise KeyError(f"replace: there is no parameter {name!r}")
        setattr(owner, last, Parameter(value, requires_grad=False))

    # -- modes

    def train(self, mode: bool = True) -> Module:
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, on: bool = True) -> Module:
        for parameter in self.parameters():
            if parameter.dtype.is_floating_point:
                parameter.requires_grad_(on)
        return self

    def zero_grad(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Calls `function` on every module, children first."""
        for child in self._modules.values():
            child.apply(function)
        function(self)
        return self

    def to(self, dtype: Any = None) -> Module:
        """Converts floating-point parameters and buffers; what is shared stays so. ("cpu" is where they are.)"""
        shared: dict[int, Tensor] = {}
        for module in self.modules():
            for group in (module._parameters, module._buffers):
                for name, value in list(group.items()):
                    if value.dtype.is_floating_point and dtype is not None:
                        known = shared.get(id(value))
                        converted = value.detach().to(dtype) if known is None else known
                        if known is None and group is module._parameters:
                            converted = Parameter(converted, value.requires_grad)
                        shared[id(value)] = converted
                        object.__setattr__(module, name, converted)
                        group[name] = converted
        return self

    def float(self) -> Module:
        """to(float32)."""
        return self.to("float32")

    def double(self) -> Module:
        """to(float64)."""
        return self.to("float64")

    def half(self) -> Module:
        """to(float16)."""
        return self.to("float16")

    def bfloat16(self) -> Module:
        """to(bfloat16)."""
        return self.to("bfloat16")

    def cpu(self) -> Module:
        """Itself: modules live on the CPU."""
        return self

    def extra_repr(self) -> str:
        """What stands in the parentheses of repr."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._modules.items()]
        if not lines:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleList(Module):
    """Modules in a list, named by position."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        setattr(self, str(len(self._modules)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def extend(self, modules: Any) -> ModuleList:
        for module in modules:
            self.append(module)
        return self

    def __getitem__(self, index: Any) -> Any:
        """A module, or by a slice a list of the same kind."""
        found = list(self._modules.values())[index]
        return type(self)._of(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, module: Module) -> None:
        name = list(self._modules)[index]
        self._modules[name] = module  # in its place, where setattr would put it last
        object.__setattr__(self, name, module)

    @classmethod
    def _of(cls, modules: list[Module]) -> ModuleList:
        return cls(modules)


class Sequential(ModuleList):
    """Modules applied one after another."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    @classmethod
    def _of(cls, modules: list[Module]) -> ModuleList:
        return cls(*modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x
