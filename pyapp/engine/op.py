"""Ops: one definition, optional vjp, kernels by device; and their dispatch, which is the hot path.

    @primitive(vjp=lambda g, y, x: (g * y,), saves="output")
    def exp(x): ...                         # in NumPy, for the CPU; elsewhere it needs a kernel

    @op()
    def rms_norm(x, weight, epsilon): ...   # a definition in other ops: meaning, reference and default gradient

    @claims("rms_norm")
    def _(x, weight, epsilon): ...          # by kernels; may return NotImplemented: then the definition runs

A vjp is `vjp(grad, output, *args) -> gradients aligned with args` (None where there is none), written in ops.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any
from weakref import ref

from .autocast import REGIONS, Rule, rule_of, run_by_rule
from .autocast import STATE as AUTOCAST
from .autograd import STATE, Node
from .device import Device, cpu
from .dtype import DType
from .launch import MissingKernel, capturing, refuse_capture
from .lazy import np
from .operands import as_tensor, at_home, moved, tensor_of_number
from .out_arguments import into_out
from .tensor import Tensor, set_attribute, set_node, set_requires_grad
from .user_errors import ASKS, MISTAKES, describe, names_itself, tell, warn

Kernel = Callable[..., Any]
OPS: dict[str, Op] = {}
RESERVED: dict[str, str] = {}  # names of the package's own ops, imported or not, and the modules that have them
LATE_CLAIMS: dict[str, str] = {}  # by the name of the op: the module with its claim, imported at the op's first call
PARTS: dict[str, Kernel] = {}  # by the name of the op: complex tensors by real ops of their parts
_PARTS_MODULE = "pyapp.engine.ops.complex_by_parts"
ASK: list[Callable[..., Any]] = []  # of subclasses.py, once there are classes that derive from Tensor
_CLAIMS: dict[str, Kernel] = {}  # by the name of the op, which may be defined later
_CLAIMS_IN_PLACE: dict[str, Callable[..., bool]] = {}


def claims(name: str) -> Callable[[Kernel], Kernel]:
    """Registers what runs the op by kernels of native/kernels.h: it packs launch records, on any device that has these
    kernels. It returns NotImplemented for dtypes and layouts that the records cannot express.
    """

    def register(function: Kernel) -> Kernel:
        _CLAIMS[name] = function
        if name in OPS:
            OPS[name].claim = function
        return function

    return register


def claims_in_place(name: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Registers what writes the op's result into its first argument by kernels. It returns False, and writes nothing,
    where the records cannot express that.
    """

    def register(function: Callable[..., bool]) -> Callable[..., bool]:
        _CLAIMS_IN_PLACE[name] = function
        if name in OPS:
            OPS[name].claim_in_place = function
        return function

    return register


def claim_in_place_of(name: str) -> Callable[..., bool] | None:
    """What writes the result of a function of that name, which is not an op, into its first argument."""
    return _CLAIMS_IN_PLACE.get(name)


def parts_of(name: str) -> Kernel | None:
    """What computes an op of complex tensors by real ops of their parts."""
    if not PARTS:
        importlib.import_module(_PARTS_MODULE)
    return PARTS.get(name)


def _is_complex(argument: Any) -> bool:
    """Whether it is a complex tensor, number or dtype."""
    kind = argument.dtype if isinstance(argument, Tensor) else argument
    return isinstance(kind, complex) or (isinstance(kind, DType) and kind.is_complex)


def _claim_of(name: str) -> Kernel | None:
    """The claim of one of the package's own ops."""
    if name in _CLAIMS or name not in LATE_CLAIMS:
        return _CLAIMS.get(name)

    def claim(*args: Any) -> Any:
        if name not in _CLAIMS:
            importlib.import_module(LATE_CLAIMS[name])
        return _CLAIMS[name](*args)

    return claim


def _of_module(module: str, name: str) -> Op:
    importlib.import_module(module)
    return OPS[name]


class Op:
    """A named operation on tensors; call it like a function. Its first argument is a Tensor (or a list of them)."""

    def __init__(
        self, name: str, definition: Kernel | None, vjp: Kernel | None, saves: str, view: bool, module: str = ""
    ) -> None:
        self.name = self.__name__ = name
        self.definition = definition
        self.vjp = vjp
        # Whether the vjp gives the gradient of complex results as it is: that of a move, or one written for them.
        self.takes_complex = view
        self._of_complex: Op | None = None
        self.saves_inputs = saves in ("inputs", "both")
        self.saves_output = saves in ("output", "both")
        self.reads: Callable[[tuple[Any, ...]], tuple[int, ...]] | None = None  # see read_crosswise
        self.view = view
        self.reads_layout = False  # whether the gradient reads the strides of an argument, beside its shape
        self.flat = False  # linear in pieces: the gradient's own gradient is zero, in all arguments that have one
        self.slices = False  # a slice: every element of the result is a distinct element of the first argument
        self.kernels: dict[str, Kernel] = {}  # what runs it on one type of device
        self.host: Kernel | None = None  # a primitive's implementation in NumPy, on the CPU alone
        self.of_numbers = False  # whether two numbers without a tensor are taken, as torch.add takes them
        self.writes = False  # whether that writes into its first argument, and returns it
        # What runs it by kernels of native/kernels.h, on any device that has them.
        ours = module.startswith("pyapp.")
        self.claim: Kernel | None = _claim_of(name) if ours else None
        # The same, into its first argument; False: not this one.
        self.claim_in_place: Callable[..., bool] | None = _CLAIMS_IN_PLACE.get(name) if ours else None
        self.autocast = rule_of(name) if ours else None  # how it runs in a region of autocast, where that changes it
        self.by_name: Kernel | None = None  # wrapper for calls with torch-only keywords
        # The same into the first argument; it returns False where it does not write.
        self.by_name_in_place: Callable[..., bool] | None = None
        self.parameters: tuple[tuple[str, Any], ...] = ()
        self.module = module
        if not ours and name in RESERVED:
            raise ValueError(f"op: there is an op {name!r} in {RESERVED[name]} already; give yours a name of its own")
        # Itself as a function: what users call, and Tensor's method.
        self.call = (_view_dispatcher if view else _dispatcher)(self)
        OPS[name] = self

    def __reduce__(self) -> Any:
        """A copy, and what a pickle becomes, is the op itself."""
        return _of_module, (self.module, self.name)

    def kernel(self, device: str) -> Callable[[Kernel], Kernel]:
        """Registers what runs this op on a device.

        It may return NotImplemented for layouts or dtypes that it does not take.
        """

        def register(function: Kernel) -> Kernel:
            self.kernels[device] = function
            return function

        return register

    def gradient(self, vjp: Kernel) -> Kernel:
        """Registers the vjp."""
        self.vjp = vjp
        return vjp

    def of_complex(self) -> Op:
        """This op as nodes of complex results have it.

        The gradient of a complex number z is torch's: dL/d(re z) + i dL/d(im z). A vjp that was written for real
        numbers computes g f'(z); the gradient of a function that is complex differentiable is g conj(f'(z)), which is
        conj(vjp(conj(g))).
        """
        if self.takes_complex or self.vjp is None:
            return self
        if self._of_complex is None:
            twin, vjp = object.__new__(Op), self.vjp
            vars(twin).update(vars(self))
            twin.vjp = lambda g, y, *args: [_conjugated(each) for each in vjp(g.conj(), y, *args)]
            self._of_complex = twin
        return self._of_complex

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result, by the fastest way that takes these arguments; leaves no node of its own."""
        first = args[0]
        if not isinstance(first, Tensor) and not (type(first) is list and first and isinstance(first[0], Tensor)):
            args = self._with_tensor_first(args)
            _check_first(self.name, args)
        if self.claim is not None:
            try:
                result = self.claim(*args, **kwargs)
                if result is not NotImplemented:
                    return result
            except MissingKernel:
                pass
        return self._without_claim(args, kwargs)

    def _without_claim(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result by the device's own kernel, by the definition, or on the CPU by NumPy."""
        numbers = _with_own_numbers(args)
        if numbers is not args:
            return self.forward(*numbers, **kwargs)
        device = (args[0] if isinstance(args[0], Tensor) else _flatten(args)[0]).device
        kernel = self.kernels.get(device.type)
        if kernel is not None:
            result = kernel(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if self.definition is not None:
            return self.definition(*args, **kwargs)
        if self.host is not None:
            if device is cpu and not capturing():
                return self.host(*args, **kwargs)
            for x in (*_flatten(args), *_flatten(tuple(kwargs.values()))):
                if not x.dense:
                    _ = x.strides  # NotDense, as in the host's function: its own form computes it where its parts lie
            if any(map(_is_complex, args)) or any(map(_is_complex, _flatten(args))):
                parts = parts_of(self.name)
                if parts is not None:
                    return parts(*args, **kwargs)
            if device is cpu or device.backend.host_helps:
                refuse_capture(self.name)  # or ends the recording, where it may be given up
                return self.host(*args, **kwargs) if device is cpu else self._by_the_host(device, args, kwargs)
        where = "; it runs on the host: move the tensors there with .to('cpu')" if self.host is not None else ""
        raise NotImplementedError(
            f"{device.type} has no kernel for '{self.name.lstrip('_')}' with "
            f"{', '.join(describe(a) for a in args)}{where}"
        )

    def _by_the_host(self, device: Device, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the CPU gives of copies of the tensors, moved to their device."""
        warn(by_the_host(self.name.lstrip("_"), device, *args))
        copies = [moved(argument, cpu) for argument in args]
        result = self.forward(*copies, **{name: moved(value, cpu) for name, value in kwargs.items()})
        return args[0].detach().copy_(result) if self.writes else moved(result, device)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def _with_tensor_first(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """add(1, x): the number as a tensor that does not widen x; add(1, 2): as one of the number's own dtype."""
        if len(args) > 1 and isinstance(args[0], (*_NUMBERS, np.generic)):
            if isinstance(args[1], Tensor):
                return (as_tensor(args[0], args[1]), *args[1:])
            if self.of_numbers and isinstance(args[1], (*_NUMBERS, np.generic)):
                return (tensor_of_number(args[0]), *args[1:])
        return args

    def _with_gradient(self, args: tuple[Any, ...]) -> Any:
        """The result, with a node where an argument requires a gradient: one of args, or of a list that comes first."""
        if self.vjp is None:
            return self.definition(*args) if self.definition is not None else self.forward(*args)
        if not isinstance(args[0], Tensor):
            args = self._with_tensor_first(args)
        STATE.enabled = False
        try:
            result = self.definition(*args) if self.view else self.forward(*args)  # type: ignore[misc]
        finally:
            STATE.enabled = True
        kind = result.dtype
        if kind.has_gradient:
            inputs = args if isinstance(args[0], Tensor) else (*args[0], *args[1:])
            for argument in inputs:
                if isinstance(argument, Tensor) and argument._requires_grad:
                    if result is args[0]:
                        result = result.detach()
                    set_requires_grad(result, True)
                    set_node(result, Node(self.of_complex() if kind.is_complex else self, inputs, result))
                    break
        return _link_to_base(self, args, result) if self.view else result

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call with arguments that only `by_name` knows."""
        return self.by_name(*named_first(self.name, ("input", "other"), args, kwargs), **kwargs)  # type: ignore[misc]

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """The arguments as the definition takes them, by position; None where only `by_name` knows some of them."""
        for theirs, ours in _NUMPY_NAMES:
            if theirs in kwargs:
                kwargs[ours] = kwargs.pop(theirs)
        found, left = list(args), len(kwargs)
        for at, (name, default) in enumerate(self._parameters()[len(args) :], len(args)):
            if name not in kwargs and at < 2:
                name = ("input", "other")[at]
            if name in kwargs:
                found.append(kwargs[name])
                left -= 1
            elif not left:
                break
            elif default is not _NO_DEFAULT:
                found.append(default)
            elif self.by_name is None:
                raise TypeError(f"{self.name}: expects {name!r}{'' if at else ' first'}, got {', '.join(kwargs)}")
            else:
                return None
        if left and self.by_name is None:
            known = {name for name, _ in self._parameters()}
            raise TypeError(f"{self.name}() got an unexpected argument {sorted(kwargs.keys() - known or kwargs)[0]!r}")
        if not found:
            raise TypeError(f"{self.name}: expects 'input' first, got nothing")
        return None if left else tuple(found)

    def _parameters(self) -> tuple[tuple[str, Any], ...]:
        """(name, default) of the definition's parameters."""
        if not self.parameters:
            body = self.definition or self.host or next(iter(self.kernels.values()))
            while hasattr(body, "__wrapped__"):
                body = body.__wrapped__
            names = body.__code__.co_varnames[: body.__code__.co_argcount]
            defaults = body.__defaults__ or ()
            self.parameters = tuple(zip(names, (*[_NO_DEFAULT] * (len(names) - len(defaults)), *defaults), strict=True))
        return self.parameters

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _dispatcher(operation: Op) -> Callable[..., Any]:
    """The dispatch of an op, as a function: Python calls a function faster than an object."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs or not args:
                if "out" in kwargs:
                    return into_out(call, args, kwargs)
                found = operation._by_position(args, kwargs)
                if found is None:
                    return operation._by_name(args, kwargs)
                args, kwargs = found, {}
            if REGIONS.count:
                if ASK and (result := ASK[0](call, args, kwargs)) is not NotImplemented:
                    return result
                if operation.autocast is not None and AUTOCAST.dtype is not None:
                    return run_by_rule(operation.autocast, operation.call, args)
            for argument in args:
                if isinstance(argument, Tensor) and argument._requires_grad:
                    if STATE.enabled:
                        return operation._with_gradient(args)
                    break
            if not isinstance(args[0], Tensor) and not _are_constants(args[0]):
                return operation._with_gradient(args) if STATE.enabled else operation.forward(*args)
            claim = operation.claim
            if claim is not None:
                try:
                    result = claim(*args)
                    if result is not NotImplemented:
                        return result
                except MissingKernel:
                    pass
            return operation._without_claim(args, {})
        except MISTAKES as error:
            if (moved := at_home(args)) is not args:
                return call(*moved, **kwargs)
            if (result := tell(error, operation.name, args, kwargs, call)) is None:
                raise
            return result

    return _as_function(operation, call)


def _view_dispatcher(operation: Op) -> Callable[..., Any]:
    """The dispatch of a view op, whose only tensor comes first: its definition serves every device."""
    definition: Any = operation.definition

    def call(*args: Any) -> Any:
        try:
            if not STATE.enabled:
                return definition(*args)
            if args[0]._requires_grad:
                return operation._with_gradient(args)
            return _link_to_base(operation, args, definition(*args))
        except MISTAKES as error:
            if (found := tell(error, operation.name, args, {}, call)) is None:
                raise
            return found

    return _as_function(operation, call)


def _as_function(operation: Op, call: Callable[..., Any]) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = operation.name.lstrip("_")
    call.operation = operation  # type: ignore[attr-defined]
    ASKS.add(call.__code__)
    return names_itself(call)


_NO_DEFAULT = object()
_NUMPY_NAMES = (("axis", "dim"), ("keepdims", "keepdim"))  # torch takes NumPy's names for these, too


def read_crosswise(edges: tuple[Any, ...]) -> tuple[int, ...]:
    """The arguments of a product that its gradient reads: each one if the other one wants a gradient (its edge is not
    None). They must not change before the backward pass. `reads` of an op says this; None: all that the op saves.
    """
    if edges[0] is None:
        return () if edges[1] is None else (0,)
    return (1,) if edges[1] is None else (0, 1)


def read_nothing(edges: tuple[Any, ...]) -> tuple[int, ...]:
    """As read_crosswise, of ops whose gradient reads only the shapes and types of the arguments, or the result."""
    return ()


def named_first(name: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The positional arguments, with those that were given by torch's names for the first ones taken from `kwargs`."""
    for at in names[len(args) :]:
        if at not in kwargs:
            break
        args += (kwargs.pop(at),)
    if not args:
        raise TypeError(f"{name}: expects {names[0]!r} first, got {', '.join(kwargs) or 'nothing'}")
    return args


_FEW_VIEWS = 32
_NUMBERS = (bool, int, float, complex)
_OWN = frozenset((*_NUMBERS, type(None), str, tuple, list))


def _link_to_base(op: Op, args: tuple[Any, ...], view: Tensor) -> Tensor:
    """Links a view and its base, so that in-place writes through either update the other's gradient history. Leaves
    that require a gradient cannot be written under autograd, so they need no links.
    """
    source = args[0]
    if view._storage is not source._storage or view is source:
        return view
    owner = source.view_of[2] if source.view_of else source
    set_attribute(view, "view_of", (op, args, owner))
    if owner._requires_grad and owner.node is None:
        return view
    known = owner.views
    if known is None:
        known = []
        set_attribute(owner, "views", known)
    elif len(known) >= _FEW_VIEWS and len(known) & (len(known) - 1) == 0:  # now and then forget those that are gone
        known[:] = [reference for reference in known if reference() is not None]
    known.append(ref(view))
    return view


def link_to_base(op: Op, args: tuple[Any, ...], view: Tensor) -> Tensor:
    """As a view op links its result, for views that are made without its call. An observer (tracing.py) sees them."""
    return _link_to_base(op, args, view)


def by_the_host(name: str, device: Device, *args: Any) -> str:
    """The warning that a device has no kernel for a call."""
    return (
        f"{device.type} has no kernel for '{name}' with {', '.join(describe(a) for a in args)}: the host computes it "
        "from copies"
    )


def _conjugated(gradient: Tensor | None) -> Tensor | None:
    return gradient.conj() if gradient is not None and gradient.dtype.is_complex else gradient


def _flatten(args: tuple[Any, ...]) -> list[Tensor]:
    found = []
    for argument in args:
        if isinstance(argument, Tensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            found.extend(t for t in argument if isinstance(t, Tensor))
    return found


def _with_own_numbers(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with Python's numbers in place of NumPy's, which count as those, and of such as are of a class made
    from them; kernels take no others."""
    if all(type(argument) in _OWN or isinstance(argument, Tensor) for argument in args):
        return args
    found = tuple(_own_number(argument) for argument in args)
    return found if any(a is not b for a, b in zip(found, args, strict=True)) else args


def _own_number(value: Any) -> Any:
    if type(value) in _OWN or isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        number = value.item()
        return number if type(number) in _NUMBERS else value
    plain: tuple[Any, ...] = (int, float, complex)
    return next((kind(value) for kind in plain if isinstance(value, kind)), value)


def _are_constants(given: Any) -> bool:
    """Whether it is a list of tensors, none of which requires a gradient."""
    if type(given) is not list:
        return False
    for x in given:
        if not isinstance(x, Tensor) or x._requires_grad:
            return False
    return bool(given)


def _check_first(name: str, args: tuple[Any, ...]) -> None:
    """TypeError where the first argument is neither a tensor nor has any."""
    if not isinstance(args[0], (Tensor, list, tuple)) or not _flatten(args):
        raise TypeError(f"{name}: expects a tensor, got {describe(args[0]) if args else 'nothing'}")


def _described(operation: Op, function: Kernel) -> Op:
    """The op with the docstring and the parameters of the function that it was made of, for help()."""
    operation.__doc__ = operation.call.__doc__ = function.__doc__
    operation.call.__wrapped__ = function  # type: ignore[attr-defined]
    return operation


def op(
    vjp: Kernel | None = None, saves: str = "inputs", name: str | None = None, autocast: Rule | None = None
) -> Callable[[Kernel], Op]:
    """Makes an op of a definition in other ops. `saves`: what the vjp reads: "inputs", "output", "both" or "none".
    `autocast`: the rule by which it runs in a region of autocast.
    """

    def wrap(function: Kernel) -> Op:
        made = Op(name or function.__name__, function, vjp, saves, False, function.__module__)
        made.autocast = autocast or made.autocast
        return _described(made, function)

    return wrap


def primitive(
    vjp: Kernel | None = None,
    saves: str = "inputs",
    name: str | None = None,
    autocast: Rule | None = None,
    writes: bool = False,
) -> Callable[[Kernel], Op]:
    """Makes an op whose body is its implementation on the host, in NumPy: it serves the CPU where no kernel does. Other
    devices need a kernel: a claim's, or their own, registered with `.kernel(device)`. The arguments are those of `op`.
    `writes`: the body writes into its first argument, and returns it.
    """

    def wrap(function: Kernel) -> Op:
        made = Op(name or function.__name__, None, vjp, saves, False, function.__module__)
        made.host, made.autocast, made.writes = function, autocast or made.autocast, writes
        return _described(made, function)

    return wrap


def view_op(vjp: Kernel | None, name: str | None = None) -> Callable[[Kernel], Op]:
    """Makes an op that only rearranges shape, strides and offset: any device, no copy."""

    def wrap(function: Kernel) -> Op:
        return _described(Op(name or function.__name__, function, vjp, "none", True, function.__module__), function)

    return wrap
