"""Module: parameters, buffers and children by name, as in torch.nn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..engine import DType, Tensor, as_dtype, no_grad
from ..engine.dtype import DTYPES
from ..engine.launch import note_setting
from ..engine.ops import empty
from ..engine.storage import CAPTURES
from ..engine.tensor import check_device
from ..engine.user_errors import MISTAKES, describe, raised_inside, tell
from ..errors import OperationError
from .members import GROUPS, adopt_members, adopting, new_members, replace_members
from .parameter import Parameter
from .state import IncompatibleKeys, OwnState, StateHooks, WithoutModule, collect, new_state, register

__all__ = ["Module"]

if TYPE_CHECKING:
    from typing import Self

    from ..engine.autograd import RemovableHandle
    from ..engine.device import Device

_OWN = frozenset(
    (*GROUPS, "_non_persistent_buffers_set", "_absent", "__dict__")
)  # what __setattr__ does not sort into the groups
_LAYERS = __name__.rpartition(".")[0] + "."  # the package of the layers


def _check_name(what: str, name: str) -> None:
    """Checks a name. Names in a state are paths with dots between the names of modules."""
    if not isinstance(name, str) or not name or "." in name:
        raise KeyError(f"{what}: a name is a text without a dot, not {name!r}")


def _naming_the_layer(make: Callable[..., None]) -> Callable[..., None]:
    """A constructor whose errors have the layer's name and arguments; of layers in a layer, the outermost's."""

    @functools.wraps(make)
    def named(self: Module, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except MISTAKES as error:
            name = next(kind.__name__ for kind in type(self).__mro__ if kind.__module__.startswith(_LAYERS))
            if isinstance(error, MemoryError):
                from ..engine.error_words import described_call  # late: most visits of the page have no error

                text = str(error).partition("; in ")[0].rpartition(": cannot")  # without the name of a layer inside
                what = f"cannot{text[2]}" if text[1] else text[2]
                raise MemoryError(f"{name}: {what}; in {described_call(name, args, kwargs)}") from None
            if raised_inside(error) or isinstance(error, OperationError):
                tell(error, name, args, kwargs)
            raise

    return named


def device_and_dtype(args: tuple[Any, ...], device: Any, dtype: Any) -> tuple[Device | None, DType | None]:
    """What the arguments of Module.to, of which a tensor stands for both, ask for; None where they do not say."""
    for argument in args:
        if isinstance(argument, Tensor):
            device, dtype = argument.device, argument.dtype
        elif isinstance(argument, DType):
            dtype = argument
        elif isinstance(argument, str) and argument in DTYPES:
            dtype = argument
        elif argument is not None and not isinstance(argument, bool):
            device = argument
    return None if device is None else check_device(device), None if dtype is None else as_dtype(dtype)


class Module(OwnState):
    """Holds parameters, buffers and other modules as attributes; `forward` says what it computes."""

    training: bool = True
    _hooks: Any = None  # ModuleHooks, if there are any: this module's own, or of all modules
    _state_hooks: StateHooks | None = None
    lacking_in_older_states: tuple[str, ...] = ()  # buffers that load_state_dict does not miss
    _version: int = 1  # version of the layout of the state: hooks get it as local_metadata["version"]

    if TYPE_CHECKING:
        _parameters: dict[str, Tensor]
        _buffers: dict[str, Tensor]
        _modules: dict[str, Any]  # None where a module has been, or may be

    def __getattr__(self, name: str) -> Any:
        """For classes whose own __getattr__ ends here, as in torch. It finds nothing more: the error is that of the
        attribute, or of the property of that name."""
        return object.__getattribute__(self, name)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if cls.__module__.startswith(_LAYERS) and "__init__" in vars(cls):
            cls.__init__ = _naming_the_layer(cls.__init__)  # type: ignore[method-assign]
        if "__setstate__" in vars(cls):
            cls.__setstate__ = adopting(cls.__setstate__)  # type: ignore[method-assign]

    def __init__(self) -> None:
        new_members(self)
        self._non_persistent_buffers_set: set[str] = set()
        self._absent: set[str] = set()  # names of buffers that are None now: tensors assigned there are buffers

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes the attributes of a copy or a pickle. Classes override it, and call this one."""
        self.__dict__.update(state)
        adopt_members(self)

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if "_modules" not in state:
            if isinstance(value, Module) or getattr(value, "is_parameter", False) is True:
                raise AttributeError(
                    f"cannot assign {name!r} before Module.__init__() call: {type(self).__name__}: call "
                    "super().__init__() first"
                )
        elif name not in _OWN:
            is_parameter = isinstance(value, Tensor) and getattr(value, "is_parameter", False)
            if isinstance(value, Tensor) and not is_parameter:
                if value._is_buffer:
                    self.register_buffer(name, value, value.persistent)
                    return
                if name in self._parameters:
                    raise TypeError(
                        f"cannot assign {describe(value)} as parameter {name!r} of {type(self).__name__}: put it into "
                        "a Parameter"
                    )
                if name in self._buffers or name in self._absent:
                    self._absent.discard(name)
                    self._buffers[name] = value
                    object.__setattr__(self, name, value)
                    return
            absent = value is None and name in self._buffers
            placed = isinstance(value, Module) or (value is None and name in self._modules)
            kept = self._modules if placed else self._parameters if is_parameter else None
            if name in state["_parameters"] or name in state["_buffers"] or name in state["_modules"]:
                if value is not None and not isinstance(value, (Tensor, Module)):
                    self._refuse(name, value)
                for group in (self._parameters, self._buffers, self._modules):
                    if name in group and group is not kept:
                        del group[name]
            elif name in self._absent and value is not None and not isinstance(value, (Tensor, Module)):
                raise TypeError(f"{type(self).__name__}: {name!r} is a buffer, and cannot become {describe(value)}")
            if absent:
                self._absent.add(name)
            if kept is not None:
                self._non_persistent_buffers_set.discard(name)
                kept[name] = value  # in the place of the one before, if there was one
        elif name in GROUPS:
            replace_members(self, name, value)
            return
        object.__setattr__(self, name, value)
        if name == "__dict__":
            adopt_members(self)

    def _refuse(self, name: str, value: Any) -> None:
        """TypeError if a value that is neither a tensor nor a module would replace one, as in torch."""
        kinds = (self._parameters, "parameter"), (self._modules, "module"), (self._buffers, "buffer")
        for group, kind in kinds:
            if name in group:
                raise TypeError(f"cannot assign {describe(value)} as {kind} {name!r} of {type(self).__name__}")

    def __delattr__(self, name: str) -> None:
        member = False
        for group in (self._parameters, self._buffers, self._modules):
            if name in group:
                del group[name]
                member = True
        self._absent.discard(name)
        if not member or name in self.__dict__:
            object.__delattr__(self, name)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Registers a tensor that belongs to the module but is not trained. It is saved in state_dict unless
        `persistent` is False. None reserves the name: a tensor that is assigned to it later is such a buffer.
        """
        _check_name("register_buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} takes a tensor or None, got {describe(tensor)}")
        self._check_free("register_buffer", name, self._buffers)
        object.__setattr__(self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)
        if tensor is None:
            self._buffers.pop(name, None)
            self._absent.add(name)
            return
        self._absent.discard(name)
        self._buffers[name] = tensor

    def _check_free(self, what: str, name: str, group: dict[str, Any]) -> None:
        """KeyError if the name is an attribute of another kind already, as in torch."""
        if hasattr(self, name) and name not in group and getattr(self, name) is not None:
            raise KeyError(f"{what}: {type(self).__name__} has an attribute {name!r} already")

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Registers a parameter by name; None reserves the name. TypeError for a tensor that is not a Parameter."""
        if param is not None and not getattr(param, "is_parameter", False):
            raise TypeError(f"register_parameter: takes a Parameter or None, got {describe(param)}")
        _check_name("register_parameter", name)
        self._check_free("register_parameter", name, self._parameters)
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Registers a child module by name."""
        _check_name("add_module", name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} takes a Module or None, got {describe(module)}")
        self._check_free("add_module", name, self._modules)
        self._modules.setdefault(name, None)
        setattr(self, name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path ("" is this one). AttributeError if there is none."""
        found = self
        for part in target.split(".") if target else ():
            if found._modules.get(part) is None:
                raise AttributeError(f"{type(self).__name__} has no module {target!r}: there is no {part!r}")
            found = found._modules[part]
        return found

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._parameters:
            raise AttributeError(f"{type(self).__name__} has no parameter {target!r}")
        return owner._parameters[name]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._buffers:
            raise AttributeError(f"{type(self).__name__} has no buffer {target!r}")
        return owner._buffers[name]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path, whose owner exists; with `strict` it must replace one."""
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError("set_submodule: the path of a module has a name, not ''")
        if strict:
            self.get_submodule(target)
        owner = self.get_submodule(path)
        setattr(owner, name, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function: it has no forward()'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if CAPTURES.count:  # a Graph holds for this mode and these hooks
            note_setting(self, "training")
            note_setting(self, "_hooks")
        try:
            if self._hooks is not None:
                return self._hooks.call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except MISTAKES as error:
            if type(self).__module__.startswith(_LAYERS) and raised_inside(error):
                tell(error, type(self).__name__, args, kwargs)
            raise

    # -- hooks

    def _register(self, kind: str, hook: Any, prepend: bool) -> RemovableHandle:
        from .hooks import ModuleHooks  # late: imports user-defined gradients, which few modules need

        own = vars(self).get("_hooks")
        if own is None:
            own = ModuleHooks()
            object.__setattr__(self, "_hooks", own)
        return register(getattr(own, kind), hook, prepend)

    def _hooks_of(kind: str) -> property:  # type: ignore[misc]
        def get(self: Module) -> Any:
            from .hooks import HooksByNumber  # late, as above

            return HooksByNumber(self, kind)

        def assign(self: Module, hooks: Any) -> None:
            own = get(self)
            given = list(hooks.values())
            own.clear()
            for hook in given:
                own[0] = hook

        return property(get, assign)

    _forward_pre_hooks, _forward_hooks = _hooks_of("before"), _hooks_of("after")
    _backward_pre_hooks, _backward_hooks = _hooks_of("before_backward"), _hooks_of("backward")
    del _hooks_of

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before forward. Its result, unless None, replaces the arguments.

        With `with_kwargs`: `hook(module, args, kwargs)`, which returns (args, kwargs). `prepend`: before this module's
        other hooks of the kind.
        """
        return self._register("before", (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, output)` (or args, kwargs, output) runs after forward. Its result, unless None, replaces
        the output. `prepend`: before this module's other hooks of the kind. `always_call`: also where forward, or a
        hook before this one, has failed, with None as output; the error goes on then.
        """
        return self._register("after", (hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of forward's positional tensors are computed.
        Its result, unless None, replaces the gradients of the inputs. `prepend`: before this module's other ones.
        """
        return self._register("backward", hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` runs when the gradients of the outputs are computed. Its result, unless None,
        replaces them. `prepend`: before this module's other ones.
        """
        return self._register("before_backward", hook, prepend)

    def _register_state(self, kind: str, hook: Any) -> RemovableHandle:
        if self._state_hooks is None:
            object.__setattr__(self, "_state_hooks", StateHooks())
        return register(getattr(self._state_hooks, kind), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before state_dict collects from this module."""
        return self._register_state("before_saving", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` runs after state_dict, and may change the state in
        place.
        """
        return self._register_state("after_saving", (hook, False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """A post-hook whose result, unless None, replaces the state: torch's older form, which models still use."""
        return self._register_state("after_saving", (hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` runs
        before load_state_dict. It may change a copy of the entries below the prefix, for instance rename old names.
        Entries that it adds to the lists are reported.
        """
        return self._register_state("before_loading", hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """The same without the module as first argument, as torch's older models use it."""
        return self._register_state("before_loading", hook if with_module else WithoutModule(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs after load_state_dict. Names that it removes from the lists are no
        longer errors.
        """
        return self._register_state("after_loading", hook)

    # -- walking

    def _paths(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and every module below, by dotted path; a shared one under each of its names."""
        yield prefix, self
        if recurse:
            for name, child in self._modules.items():
                if child is not None:
                    yield from child._paths(f"{prefix}.{name}" if prefix else name)

    def _members(self, group: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for path, module in self._paths(prefix, recurse):
            for name, value in getattr(module, group).items():
                if id(value) not in seen:
                    if remove_duplicate:
                        seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and every module below, by dotted path, each once; modules in `memo` are left out."""
        known = set() if memo is None else memo
        for path, module in self._paths(prefix):
            if module not in known:
                if remove_duplicate:
                    known.add(module)
                yield path, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def _get_name(self) -> str:
        return type(self).__name__

    def children(self) -> Iterator[Module]:
        return (child for _, child in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen: set[int] = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Each parameter once (a shared one under its first name); without `recurse` only those of this module."""
        return self._members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Each buffer once; without `recurse` only those of this module."""
        return self._members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # -- state

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name after `prefix`. They are detached and share memory with the
        module; with `keep_vars` they are the parameters and buffers themselves. Writes into `destination`, if given.
        Extra state is called `_extra_state`. `_metadata` of the result has the versions of the modules' states by
        path, as in torch.
        """
        return collect(self, new_state() if destination is None else destination, prefix, keep_vars)

    def _load_own(self, *given: Any) -> None:
        """_load_from_state_dict, for classes that override it."""
        from .state_loading import load_own  # late: saved states alone need it

        load_own(self, *given)

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        assign: bool = False,
        renames: Mapping[str, str] | None = None,
    ) -> IncompatibleKeys:
        """Copies the values into the module; returns (missing, unexpected) names. With `strict` either raises
        StateError, a RuntimeError that lists every mismatch. Shapes must agree. Extra state is passed to
        set_extra_state.

        `assign`: the state's tensors, in their dtypes, replace those of the module. `renames`: parts of the state's
        names and their names in this module, {"gamma": "weight", "beta": "bias"}.
        """
        from .state_loading import load  # late, as above

        return load(self, state_dict, strict, assign, renames)

    def _assign(self, name: str, value: Tensor) -> None:
        path, _, last = name.rpartition(".")
        owner = self.get_submodule(path)
        if last in owner._parameters:
            setattr(owner, last, Parameter(value, owner._parameters[last].requires_grad))
        else:
            setattr(owner, last, value)

    def replace(self, name: str, value: Tensor) -> None:
        """Replaces the value of the parameter `name` (dotted) by another tensor (another dtype, a block format)."""
        path, _, last = name.rpartition(".")
        owner = self.get_submodule(path)
        if last not in owner._parameters:
            raise KeyError(f"replace: there is no parameter {name!r}")
        setattr(owner, last, Parameter(value, requires_grad=False))

    # -- modes

    def train(self, mode: bool = True) -> Self:
        if not isinstance(mode, bool):
            raise ValueError(f"train: the mode is True or False, not {mode!r}")
        if not self._overridden_inside("train"):
            for module in self.modules():
                module.training = mode
            return self
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def _overridden_inside(self, name: str) -> bool:
        """Whether the class of a module inside has a method of its own in place of Module's: it is then called."""
        own = getattr(Module, name)
        return any(getattr(type(module), name) is not own for module in self.modules() if module is not self)

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        for parameter in self.parameters():
            if parameter.dtype.is_floating_point:
                parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, or sets them to zero."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = parameter.new_zeros(parameter.shape)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Calls `fn` on every module, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Applies `change` to the values of parameters, their gradients and buffers. They stay the same objects, so
        optimisers keep them and shared ones stay shared.
        """
        changed: set[int] = set()
        within = recurse and self._overridden_inside("_apply")
        for child in self.children() if within else ():
            child._apply(change)
        with no_grad():
            for module in self.modules() if recurse and not within else (self,):
                for value in (*module._parameters.values(), *module._buffers.values()):
                    if id(value) in changed:
                        continue
                    changed.add(id(value))
                    grad, value.grad = value.grad, None
                    value.data = change(value.detach())
                    value.grad = None if grad is None else change(grad)
        return self

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Self:
        """Moves parameters, their gradients and buffers to a device, and converts those with a floating-point or
        complex dtype to another one; of complex ones a floating-point dtype keeps the real part. A tensor as argument
        stands for its device and dtype. Shared tensors stay shared. The order in memory is kept: `memory_format` has
        no effect.

        TypeError for a dtype that is neither floating-point nor complex; use `quantize` for block formats.
        """
        place, kind = device_and_dtype(args, device, dtype)
        if kind is not None and not kind.has_gradient:
            raise TypeError(
                f"Module.to: takes a floating-point or complex dtype, got {kind}; use nn.quantize for block formats"
            )

        def change(value: Tensor) -> Tensor:
            if kind is not None and value.dtype.has_gradient:
                value = value.to(kind)
            return value if place is None else value.to(place)

        return self._apply(change)

    def type(self, dst_type: Any) -> Self:
        """to(dst_type)."""
        return self.to(dtype=dst_type)

    def float(self) -> Self:
        """Floating-point parameters and buffers in float32; complex ones stay complex."""
        return self._in("float32")

    def double(self) -> Self:
        """Floating-point parameters and buffers in float64."""
        return self._in("float64")

    def half(self) -> Self:
        """Floating-point parameters and buffers in float16."""
        return self._in("float16")

    def bfloat16(self) -> Self:
        """Floating-point parameters and buffers in bfloat16."""
        return self._in("bfloat16")

    def _in(self, dtype: str) -> Self:
        return self._apply(lambda value: value.to(dtype) if value.dtype.is_floating_point else value)

    def cpu(self) -> Self:
        """Parameters and buffers on the CPU."""
        return self._on("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Parameters and buffers on a card, the current one if `device` is None."""
        return self._on("cuda" if device is None else device)

    def _on(self, device: Any) -> Self:
        """Not by `to`, which may be a class's own and call these."""
        place = check_device(device)
        return self._apply(lambda value: value.to(place))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """No effect: modules run eagerly. TypeError for the arguments of Keras' compile, which `pyapp.keras` has."""
        if kwargs.keys() & {"optimizer", "loss", "metrics"}:
            raise TypeError(
                f"{type(self).__name__}.compile has torch's arguments; models that compile(optimizer=…, loss=…) and "
                "fit are those of pyapp.keras, for example pyapp.keras.Sequential([module])"
            )

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Gives parameters and buffers new, uninitialised memory on a device, and drops the gradients."""
        place = check_device(device)
        self.zero_grad()
        return self._apply(lambda value: empty(value.shape, dtype=value.dtype, device=place), recurse)

    def share_memory(self) -> Self:
        """The module itself: threads share its memory anyway, and processes get copies."""
        return self

    def extra_repr(self) -> str:
        """The text in the parentheses of repr."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._modules.items()]
        if not lines and "\n" not in own:
            return f"{self._get_name()}({own})"
        return f"{self._get_name()}(\n  " + "\n  ".join([*own.splitlines(), *lines]) + "\n)"
