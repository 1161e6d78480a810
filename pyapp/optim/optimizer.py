"""Base of the optimisers: parameter groups, and a state that can be saved.

Steps are written in tensor ops, so they run on the device of the parameter; the state is there too.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from sys import float_info
from typing import Any, TypeAlias

from ..engine import Tensor, bfloat16, enable_grad, float16, float32, float64, no_grad
from ..engine.autograd import RemovableHandle
from ..engine.element_programs import ElementProgram, HeldNumbers, Numbers
from ..engine.launch import Recorder, recorder, stop_capture
from ..engine.operands import is_half
from ..engine.ops import full_like, sparse_coo_tensor, tensor, view_as_real, zeros_like
from ..engine.ops.optimizer_steps import Step, optimizer_steps
from ..engine.user_errors import describe
from ..errors import shown

__all__ = ["Optimizer"]

Group = dict[str, Any]
ParamsT: TypeAlias = "Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]"  # torch's name


class _Required:
    """The default of a setting that each group must have."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that calls the hooks of its optimiser around it."""

    @wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._opt_called is False:
            self._opt_called = True
        before, after = self._hooks_of("step")
        if self._within == "step" or not (before or after):
            return step(self, *args, **kwargs)
        stop_capture(f"{type(self).__name__} calls hooks, which a replay would not")
        given, named = (self, *args), kwargs
        for hook in before:
            changed = hook(self, given, named)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"a hook before a step returns None or (args, kwargs), not {changed!r:.80}")
                given, named = changed
        with self._inside("step"):
            found = step(*given, **named)
        for hook in after:
            hook(self, given, named)
        return found

    return wrapped


def _saving_with_hooks(state_dict: Callable[..., Any]) -> Callable[..., Any]:
    """A state_dict that calls the hooks of its optimiser around it."""

    @wraps(state_dict)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._within == "saving":
            return state_dict(self, *args, **kwargs)
        before, after = self._hooks_of("saving")
        for hook in before:
            hook(self)
        with self._inside("saving"):
            found = state_dict(self, *args, **kwargs)
        for hook in after:
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    return wrapped


def _loading_with_hooks(load_state_dict: Callable[..., Any]) -> Callable[..., Any]:
    """A load_state_dict that calls the hooks of its optimiser around it."""

    @wraps(load_state_dict)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before, after = self._hooks_of("loading")
        if self._within == "loading" or not (before or after):
            return load_state_dict(self, *args, **kwargs)
        name = next(iter(kwargs), None) if not args else None
        given: Any = dict(args[0] if name is None else kwargs[name])  # hooks may add and remove entries
        for hook in before:
            changed = hook(self, given)
            given = given if changed is None else changed
        with self._inside("loading"):
            found = load_state_dict(self, given, *args[1:], **{k: v for k, v in kwargs.items() if k != name})
        for hook in after:
            hook(self)
        return found

    return wrapped


_FLAGS = {"foreach": None, "capturable": False, "differentiable": False, "fused": None}  # torch's, and their defaults
_KINDS = (float32, float64, float16, bfloat16)  # of parameters
_FREE = {"lr", "initial_lr", "betas"}  # settings that never decide which kernels run
_COUNTS = {"step", "mu_product", "eta", "mu"}  # Python numbers in `state`, tensors of one element in state dicts
_EXACT = 1 << 24  # as a float32 has each whole number up to here
_SMALL = 1 << 16  # elements of a parameter, whose step takes less time than its Python
MOST_STEPS = 1 << 53  # as a float has each whole number up to here


class _Signature:
    """The arguments of an optimiser for `inspect.signature`: scripts ask whether there is `fused`."""

    def __get__(self, optimizer: Optimizer | None, owner: type[Optimizer]) -> inspect.Signature:
        given = inspect.signature(owner.__init__)
        parameters = list(given.parameters.values())[1:]
        if owner.of_pyapp and parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
            kind = inspect.Parameter.KEYWORD_ONLY
            flags = [inspect.Parameter(name, kind, default=_FLAGS[name]) for name in owner.flags]
            parameters[-1:] = flags
        return given.replace(parameters=parameters)


class Optimizer:
    """Base of the optimisers. `params`: parameters, (name, parameter) pairs, or groups `{"params": [...], "lr": ...,
    ...}` whose settings override the defaults. `param_groups` are these groups and may be changed between steps;
    `state` is a dict per parameter. With `maximize` steps ascend the gradient. torch's `foreach`, `fused` and
    `capturable` are accepted and ignored.
    """

    __signature__ = _Signature()
    flags: tuple[str, ...] = ()  # torch's flags that its groups have
    _hooks: dict[str, tuple[list[Callable[..., Any]], list[Callable[..., Any]]]] | None = None  # before it, after it
    needs_whole = False  # whether a step computes with more of a parameter than each element by itself
    takes_complex = True  # whether a step of complex parameters is that of their parts
    saves_tensors = True  # whether torch's state dicts of this class have tensors for the numbers of `_COUNTS`
    of_pyapp = False  # whether settings, parameters and states are those that pyapp's own steps take
    _opt_called: bool | None = None  # whether it has stepped since a schedule was made for it; torch's name
    _waiting: tuple[list[Tensor], list[Step]] | None = None  # parameters and their steps that wait for others
    _within: str | None = None  # what is under way: the same of a base class inside calls no hooks

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.of_pyapp = cls.of_pyapp or cls.__module__.startswith("pyapp.")
        if "step" in vars(cls):
            own = cls.step if cls.__module__.startswith("pyapp.") else _unrecorded(cls.step)
            cls.step = _with_hooks(own)  # type: ignore[method-assign]
        if "state_dict" in vars(cls):
            cls.state_dict = _saving_with_hooks(cls.state_dict)  # type: ignore[method-assign]
        if "load_state_dict" in vars(cls):
            cls.load_state_dict = _loading_with_hooks(cls.load_state_dict)  # type: ignore[method-assign]

    def __init__(
        self, params: Iterable[Any], defaults: Mapping[str, Any], maximize: bool | None = None, **flags: Any
    ) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts: {name} takes a "
                f"list of parameters or of groups, got {describe(params)}"
            )
        given: list[Any] = list(params)
        if not given:
            raise ValueError(f"optimizer got an empty parameter list: {name} got no parameters")
        unknown = flags.keys() - _FLAGS.keys()
        if unknown:
            raise TypeError(f"{name} has no setting {', '.join(sorted(unknown))}")
        if flags.get("differentiable"):
            raise NotImplementedError(f"{name}: steps have no gradients; compute them without an optimiser")
        if flags.get("fused") and flags.get("foreach"):
            raise RuntimeError(f"{name}: fused and foreach are two ways to run a step: choose one of them")
        kept = {name: flags.get(name, _FLAGS[name]) for name in self.flags}
        self.defaults = {**defaults, **({} if maximize is None else {"maximize": maximize}), **kept}
        self.state: dict[Tensor, dict[str, Any]] = defaultdict(dict)  # as in torch, for user-defined optimisers
        self.param_groups: list[Group] = []
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group; of named parameters also their `param_names`. TypeError for anything but floating-point or
        complex leaf tensors (a class of one's own takes all leaves), ValueError for a parameter that is in another
        group; a warning where one is there twice.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(
                f"{type(self).__name__}: a group is a dict with its parameters under 'params', as "
                f"{{'params': layer.parameters(), 'lr': 0.1}}, not {describe(group)}"
            )
        params = group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError(f"{type(self).__name__}: a set of parameters has no order; give a list")
        given = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in given if isinstance(p, tuple)]
        params = [p[1] if isinstance(p, tuple) else p for p in given]
        if names and len(names) < len(given):
            raise ValueError(f"{type(self).__name__}: {len(names)} of {len(given)} parameters of a group have names")
        named = bool(names) or "param_names" in group
        if any(("param_names" in other) != named for other in self.param_groups):
            raise ValueError(f"{type(self).__name__}: the parameters of all groups have names, or of none")
        known = {id(parameter) for other in self.param_groups for parameter in other["params"]}
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{type(self).__name__} takes tensors, got {describe(parameter)}")
        params = [parameter._own_part for parameter in params]
        for parameter in params:
            fits = not self.of_pyapp or (parameter.dtype.part in _KINDS and parameter.dense)
            if not (fits and parameter.is_leaf) or (parameter.dtype.is_complex and not self.takes_complex):
                if not self.of_pyapp:
                    raise ValueError(
                        f"can't optimize a non-leaf Tensor: {type(self).__name__} takes leaf tensors, got "
                        f"{describe(parameter)}"
                    )
                kinds = "floating-point or complex" if self.takes_complex else "floating-point"
                raise (TypeError if parameter.is_leaf else ValueError)(
                    f"can't optimize a non-leaf Tensor, or other numbers: {type(self).__name__} takes dense {kinds} "
                    f"leaf tensors, got {describe(parameter)}"
                )
            if self.needs_whole and parameter.shard_groups:
                raise ValueError(
                    f"{type(self).__name__}: computes with whole parameters, but this process has only a part of one, "
                    f"{describe(parameter)}; use another optimiser, such as AdamW"
                )
            if id(parameter) in known:
                raise ValueError(f"{type(self).__name__}: a parameter {describe(parameter)} is in two groups")
        if len(set(map(id, params))) < len(params):
            warnings.warn(
                f"{type(self).__name__}: a parameter is in its group more than once, and changes as often in a step; "
                "name tied weights once",
                stacklevel=2,
            )
        merged = {**self.defaults, **group, "params": params}
        lacking = [name for name, value in merged.items() if value is required]
        if lacking:
            raise ValueError(f"{type(self).__name__}: a group of parameters has no {', '.join(lacking)}")
        if names:
            merged["param_names"] = names
        if self.of_pyapp:
            self._check(merged)
        self.param_groups.append(merged)

    def _check(self, group: Group) -> None:
        for name in ("lr", "weight_decay", "eps", "momentum"):
            value = group.get(name, 0.0)
            if not 0 <= value <= float_info.max:
                raise ValueError(f"{type(self).__name__}: {name} must be a number >= 0, got {value}")
        if "betas" in group:
            check_range(self, group, "betas")

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` is called before each step; args begin with the optimiser. It may return
        others, as (args, kwargs)."""
        return self._register("step", 0, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` is called after each step."""
        return self._register("step", 1, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer)` is called before state_dict collects. `prepend`: before the other ones."""
        return self._register("saving", 0, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer, state_dict)` is called with the result of state_dict, which it may change. What it returns,
        unless None, is the result instead. `prepend`: before the other ones."""
        return self._register("saving", 1, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer, state_dict)` is called before load_state_dict, with a shallow copy of the state, which it
        may change. What it returns, unless None, is loaded instead. `prepend`: before the other ones."""
        return self._register("loading", 0, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """`hook(optimizer)` is called after load_state_dict. `prepend`: before the other ones."""
        return self._register("loading", 1, hook, prepend)

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
    ) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
        """Lists of equal lengths, sorted by the device and dtype of the tensors of the first, each with the places that
        its tensors had (without `with_indices` an empty list): what steps over lists of tensors begin with.
        """
        groups: dict[tuple[Any, Any], list[int]] = {}
        for at, x in enumerate(tensorlistlist[0]):
            if x is not None:
                groups.setdefault((x.device, x.dtype), []).append(at)
        return {
            key: ([[part[at] for at in places] if part else [] for part in tensorlistlist],
                  places if with_indices else [])
            for key, places in groups.items()
        }  # fmt: skip

    def _register(self, what: str, when: int, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        if self._hooks is None:
            self._hooks = {"step": ([], []), "saving": ([], []), "loading": ([], [])}
        known = self._hooks[what][when]
        known.insert(0 if prepend else len(known), hook)
        return RemovableHandle(known, hook)

    def _hooks_of(self, what: str) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
        """Copies of the hooks before and after it: a hook may remove itself."""
        before, after = ([], []) if self._hooks is None else self._hooks[what]
        return list(before), list(after)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles are without the hooks, as torch's are."""
        return {name: value for name, value in vars(self).items() if name not in ("_hooks", "_waiting")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes what __getstate__ gave, or a part of it. Classes override it for settings that older states lack."""
        self.__dict__.update(state)

    @contextmanager
    def _inside(self, what: str) -> Iterator[None]:
        around, self._within = self._within, what
        try:
            yield
        finally:
            self._within = around

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, or sets them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = zeros_like(parameter)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. A `closure` is called first, and its loss is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        recording = recorder()
        if recording is not None:
            if type(self)._advance is Optimizer._advance:
                stop_capture(f"{type(self).__name__} computes its numbers in Python: a replay would not follow them")
            form = self._form()
            recording.conditions.append(lambda: self._form() == form)
            recording.shared["steps", id(self)] = []
        with no_grad(), self._together(recording is None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is not None:
                        update = self._update if grad.dense else self._update_kept
                        update(group, parameter, -grad if group.get("maximize") else grad)
        return loss

    @contextmanager
    def _together(self, collects: bool) -> Iterator[None]:
        """Steps that `_run` gets in this block are run at its end, in their order: one call of all takes less time."""
        before, self._waiting = self._waiting, ([], []) if collects else None
        try:
            yield
        finally:
            steps, self._waiting = self._waiting, before
            if steps is not None and steps[0]:
                optimizer_steps(*steps)

    def _run(self, parameter: Tensor, step: Step) -> None:
        """A step by the kernels of `optimizer_steps`, now or, of a small parameter, at the end of `_together`."""
        if self._waiting is None or not parameter.dense or parameter.numel() > _SMALL:
            optimizer_steps.definition([parameter], [step])  # type: ignore[misc]
        else:
            self._waiting[0].append(parameter)
            self._waiting[1].append(step)

    def _update_kept(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        """One step of the elements of a parameter that a sparse gradient keeps. RuntimeError where there is none."""
        raise RuntimeError(
            f"{type(self).__name__}: takes no sparse gradients, which embeddings with sparse=True have; use "
            "SparseAdam, SGD or Adagrad"
        )

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        """One step of one parameter, in place. `grad` has its shape and must not be changed."""
        entry = self.state.get(parameter)
        made: dict[str, Any] = {}
        if entry is None:
            entry = made
        states = self._states(group, parameter, entry)
        values = self._advance(group, parameter, entry)
        if made:
            self.state[parameter] = made
        recording = recorder() if self._waiting is None else None
        numbers = values if recording is None else self._held(recording, group, parameter, entry, values)
        self._write(group, parameter, grad, states, numbers)

    def _write(
        self, group: Group, parameter: Tensor, grad: Tensor, states: tuple[Tensor, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        """The step by kernels; of complex parameters that of their parts, as in torch. Of parameters of 16 bits it is
        computed in float32, and they and their states are rounded once."""
        if is_half(parameter):
            wide = parameter.float(), *[state.float() for state in states]
            with self._together(True):
                self._launch(group, wide[0], grad.float(), wide[1:], numbers)
            for rounded, exact in zip((parameter, *states), wide, strict=True):
                rounded.copy_(exact)
            return
        if parameter.dtype.is_complex:
            parameter, grad = view_as_real(parameter), view_as_real(grad)
            states = tuple(map(view_as_real, states))
        self._launch(group, parameter, grad, states, numbers)

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        """The tensors that a step changes beside the parameter, made where they are missing (`_new`)."""
        return ()

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        """Counts a step in the entry, and gives the numbers for `_launch`. It computes with the settings, the shape and
        the numbers of the entry alone: before each replay of a Graph it runs again."""
        raise NotImplementedError

    def _launch(
        self, group: Group, parameter: Tensor, grad: Tensor, states: tuple[Tensor, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        """The step by kernels: unless a class has its own, one runs `_program` for all elements. Which ones depends on
        `_form` alone."""
        (of_program,) = numbers
        self._run(parameter, Step(self._program(group), grad, states, of_program))

    def _program(self, group: Group) -> ElementProgram:
        """The step of one element: (parameter, gradient, states, numbers) → (parameter, None, states)."""
        raise NotImplementedError

    def _form(self) -> Any:
        """What decides which kernels a step runs: settings and which of them are 0, and the parameters."""
        return [
            [
                bool(x) if isinstance(x, (int, float)) else len(x) if name == "params" else x
                for name, x in group.items()
                if name not in _FREE
            ]
            for group in self.param_groups
        ]

    def _new(self, entry: dict[str, Any], name: str, parameter: Tensor, value: float = 0.0) -> Tensor:
        """A state of the parameter's shape; `value` everywhere at first."""
        found = entry.get(name)
        if found is None:
            # A Graph would write the first values again.
            stop_capture(f"{type(self).__name__} makes its state: the first step cannot be captured", passing=True)
            first = complex(value, value) if parameter.dtype.is_complex else value
            found = entry[name] = full_like(parameter, first) if value else zeros_like(parameter)
        return found

    def _held(
        self, recording: Recorder, group: Group, parameter: Tensor, entry: dict[str, Any],
        numbers: tuple[tuple[float, ...], ...],
    ) -> tuple[HeldNumbers, ...]:  # fmt: skip
        """The numbers in memory that a Graph's replays write. Parameters of a group with equal numbers share them."""
        counts = _counts(entry)
        steps: list[_ReplayedStep] = recording.shared["steps", id(self)]
        for known in steps:
            if known.group is group and known.numbers == numbers and _counts(known.entries[0]) == counts:
                known.entries.append(entry)
                return known.held
        made = _ReplayedStep(self, group, parameter, entry, numbers)
        steps.append(made)
        recording.actions.append(made.advance)
        return made.held

    def state_dict(self) -> dict[str, Any]:
        """`state` by the parameter's number, and the groups' settings; shares memory with the optimiser. Numbers of
        steps and their like are tensors of one element, as in torch.
        """
        numbers: dict[Tensor, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers[parameter] = len(numbers)
            kept = {name: value for name, value in group.items() if name != "params"}
            groups.append({**kept, "params": [numbers[parameter] for parameter in group["params"]]})
        state = {
            numbers[key] if isinstance(key, Tensor) else key: self._saved(entry) for key, entry in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def _saved(self, entry: Any) -> Any:
        """A copy of a parameter's entry, whose tensors are the same, as torch saves it; of what a class of one's own
        keeps otherwise the thing itself."""
        if not isinstance(entry, dict):
            return entry
        if not (self.of_pyapp and self.saves_tensors):
            return dict(entry)
        return {name: _as_tensor(value) if name in _COUNTS else value for name, value in entry.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict; tensors are copied to the devices of their parameters. ValueError if the
        groups do not fit, or shapes of pyapp's own optimisers; those of other classes get what they saved, floats in
        the dtypes of their parameters.
        """
        groups = state["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("load_state_dict: the state has other parameter groups than the optimiser")
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        loaded: dict[Any, Any] = {}
        for number, entry in state["state"].items():
            if not self.of_pyapp and not isinstance(number, int):
                loaded[number] = deepcopy(entry)  # what a class keeps for all parameters
                continue
            parameter = every[int(number)]
            loaded[parameter] = (
                {name: self._loaded(number, name, v, parameter) for name, v in entry.items()}
                if self.of_pyapp
                else _moved(entry, parameter)
            )
        for own, group in zip(self.param_groups, groups, strict=True):  # the same dicts: schedules and Graphs hold them
            own.update({name: value for name, value in group.items() if name != "params"})
        self.__setstate__({"state": defaultdict(dict, loaded), "param_groups": self.param_groups})

    def _loaded(self, number: Any, name: str, value: Any, parameter: Tensor) -> Any:
        """One value of a loaded state, copied."""
        if name in _COUNTS:
            number_of = value.item() if isinstance(value, Tensor) else value
            if not isinstance(number_of, int | float) or not abs(number_of) < MOST_STEPS:
                raise ValueError(f"load_state_dict: {name} of parameter {number} is {shown(number_of, 40)}")
            return number_of
        if not isinstance(value, Tensor):
            return deepcopy(value)
        if not self._fits(name, value, parameter):
            raise ValueError(
                f"load_state_dict: {name} of parameter {number} is {describe(value)}, the parameter "
                f"{describe(parameter)}"
            )
        value = value.detach().clone().to(parameter.device)
        floats = value.dtype.is_floating_point and parameter.dtype.is_floating_point
        return value.to(parameter.dtype) if floats and value.shape == parameter.shape else value

    def _fits(self, name: str, value: Tensor, parameter: Tensor) -> bool:
        """Whether a tensor of a loaded state can belong to this parameter."""
        return value.shape == parameter.shape

    def __repr__(self) -> str:
        groups = [
            "\n".join([f"Parameter Group {k}", *(f"    {n}: {group[n]}" for n in sorted(group) if n != "params")])
            for k, group in enumerate(self.param_groups)
        ]
        return f"{type(self).__name__} (\n" + "\n\n".join(groups) + "\n)"


Optimizer.step = _with_hooks(Optimizer.step)  # type: ignore[method-assign]
Optimizer.state_dict = _saving_with_hooks(Optimizer.state_dict)  # type: ignore[method-assign]
Optimizer.load_state_dict = _loading_with_hooks(Optimizer.load_state_dict)  # type: ignore[method-assign]


class _ReplayedStep:
    """Parameters of a group with the same numbers in a Graph: before each replay their steps are counted, and the
    numbers written."""

    def __init__(
        self, optimizer: Optimizer, group: Group, parameter: Tensor, entry: dict[str, Any],
        numbers: tuple[tuple[float, ...], ...],
    ) -> None:  # fmt: skip
        self.optimizer, self.group, self.parameter, self.entries = optimizer, group, parameter, [entry]
        self.numbers, self.held = numbers, tuple(HeldNumbers(of_program) for of_program in numbers)

    def advance(self) -> None:
        first, *others = self.entries
        found = self.optimizer._advance(self.group, self.parameter, first)
        for held, of_program in zip(self.held, found, strict=True):
            held.renew(of_program)
        if others:
            counts = _counts(first)
            for entry in others:
                entry.update(counts)


def _as_tensor(number: float) -> Tensor:
    return tensor(number, dtype="float32" if number == int(number) and abs(number) < _EXACT else "float64")


def _moved(value: Any, parameter: Tensor, name: str = "") -> Any:
    """A value of a loaded state, copied, for classes of one's own: tensors go to the parameter's device, floats but
    `step` into its dtype, as in torch.
    """
    if isinstance(value, Tensor):
        value = value.detach().clone().to(parameter.device)
        floats = name != "step" and value.dtype.is_floating_point and parameter.dtype.is_floating_point
        return value.to(parameter.dtype) if floats else value
    if isinstance(value, dict):
        return {key: _moved(part, parameter, key) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_moved(part, parameter) for part in value)
    return deepcopy(value)


def _counts(entry: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a parameter's state."""
    return {name: value for name, value in entry.items() if not isinstance(value, Tensor)}


def _unrecorded(step: Callable[..., Any]) -> Callable[..., Any]:
    """A user's own step, whose numbers a Graph would not follow."""

    @wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        stop_capture(f"{type(self).__name__} has a step of its own: a replay would not follow its numbers")
        return step(self, *args, **kwargs)

    return wrapped


def check_range(optimizer: Optimizer, group: Group, *names: str, last: bool = False) -> None:
    """ValueError for settings outside [0, 1), or [0, 1] if `last`."""
    for name in names:
        values = group[name] if isinstance(group[name], (tuple, list)) else (group[name],)
        if not all(0 <= value < 1 or (last and value == 1) for value in values):
            raise ValueError(f"{type(optimizer).__name__}: {name} must be in [0, 1), got {group[name]}")


def counted(entry: dict[str, Any]) -> int:
    """The number of this step in a parameter's state, counted from 1."""
    entry["step"] = step = entry.get("step", 0) + 1
    return int(step)


def decayed(grad: Any, parameter: Any, decay: Any) -> Any:
    """The gradient with L2 weight decay, in a program (ElementProgram); itself where the decay is None."""
    return grad if decay is None else grad + parameter * decay


def add_scaled(x: Tensor, y: Tensor, factor: float) -> Tensor:
    """x + factor * y, in place."""
    return x.add_(y * factor)


def update_mean(mean: Tensor, value: Tensor, share: float) -> Tensor:
    """A moving mean, in place: mean + share * (value - mean)."""
    return mean.add_((value - mean).mul_(share))


def with_values(grad: Tensor, values: Tensor) -> Tensor:
    """A coalesced sparse tensor with other values."""
    return sparse_coo_tensor(grad.indices(), values, grad.shape, is_coalesced=True, check_invariants=False)
