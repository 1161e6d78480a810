"""The inputs of a program: their names, forms and sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..engine import ops
from ..engine.dtype import int64
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from ..fx.names import Namespace
from ..utils import _pytree
from .dims import ANY, Dim, UserError


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name, defaults included."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


class Inputs:
    """The inputs of a program: how arguments become the leaves that the graph takes, and which shapes they have."""

    def __init__(self, signature: inspect.Signature, given: dict[str, Any]) -> None:
        """`given`: all arguments by name."""
        self.signature, self.given = signature, given
        self.leaves, self.spec = _pytree.tree_flatten(given)
        paths, _ = _pytree.tree_flatten_with_path(given)
        self.names = _words([path for path, _ in paths])
        self.sizes: list[list[int | Dim]] = [
            list(leaf.shape) if isinstance(leaf, Tensor) else [] for leaf in self.leaves
        ]

    @classmethod
    def of(cls, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Inputs:
        """Those of a call of a function, such as a module's forward."""
        signature = inspect.signature(forward)
        return cls(signature, _bound(signature, args, kwargs))

    def called(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the forward, with other leaves in place of those of the example."""
        bound = self.signature.bind_partial()
        bound.arguments.update(_pytree.tree_unflatten(list(leaves), self.spec))
        return bound.args, bound.kwargs

    def examples(self) -> list[dict[str, Tensor]]:
        """The tensors by name; where sizes may differ, in a second example with other sizes, too."""
        given = [
            (name, leaf, sizes)
            for name, leaf, sizes in zip(self.names, self.leaves, self.sizes, strict=True)
            if isinstance(leaf, Tensor)
        ]
        found = [{name: leaf.detach().clone() for name, leaf, _ in given}]
        if any(isinstance(size, Dim) for _, _, sizes in given for size in sizes):
            found.append({name: self._resized(leaf, sizes) for name, leaf, sizes in given})
        return found

    def _resized(self, leaf: Tensor, sizes: list[int | Dim]) -> Tensor:
        for dim, size in enumerate(sizes):
            if isinstance(size, Dim):
                now = leaf.shape[dim]
                wanted = now + 1 if size.max is None or now < size.max else max(now - 1, size.min)
                places = [k % max(now, 1) for k in range(wanted)]
                leaf = leaf.index_select(dim, ops.tensor(places, dtype=int64, device=leaf.device))
        return leaf.detach().clone()

    def vary(self, dynamic: Any) -> None:
        """Notes which sizes may differ. UserError for what does not fit the inputs."""
        if dynamic is None:
            return
        example = _pytree.tree_unflatten(list(range(len(self.leaves))), self.spec)
        if not isinstance(dynamic, Mapping):
            dynamic = self._by_name([entry for _, entry in _entries("the module", dynamic)])
        unknown = [name for name in dynamic if name not in self.signature.parameters]
        if unknown:
            raise UserError(f"dynamic_shapes: has {unknown}; the arguments are {list(self.signature.parameters)}")
        for name, given in dynamic.items():
            self._note(name, example[name], given)

    def _by_name(self, dynamic: Sequence[Any]) -> dict[str, Any]:
        """Entries in the order of the arguments, by name. Those of `*args` are one tuple; or they follow, as layers
        here take `*args` where torch's have names.
        """
        found: dict[str, Any] = {}
        left = list(dynamic)
        for name, parameter in self.signature.parameters.items():
            if left and parameter.kind is parameter.VAR_POSITIONAL:
                is_tuple = len(left) == 1 and isinstance(left[0], (tuple, list))
                is_tuple = is_tuple and not any(isinstance(size, (Dim, int)) for size in left[0])
                found[name], left = tuple(left[0] if is_tuple else left), []
            elif left:
                found[name] = left.pop(0)
        if left:
            raise UserError(f"dynamic_shapes: has {len(dynamic)} entries, the module {len(found)} arguments")
        return found

    def _note(self, name: str, numbers: Any, given: Any) -> None:
        if given is None:
            return
        if isinstance(numbers, int):
            sizes = self.sizes[numbers]
            for dim, size in _entries(name, given):
                if not isinstance(dim, int) or not -len(sizes) <= dim < len(sizes):
                    raise UserError(f"dynamic_shapes: {name} has {len(sizes)} dims, no dim {dim!r}")
                if isinstance(size, Dim):
                    if sizes[dim] == 0:
                        raise UserError(f"dynamic_shapes: {name} is empty at dim {dim}: give an example that is not")
                    sizes[dim] = size
                elif size is not None and size != sizes[dim]:
                    raise UserError(f"dynamic_shapes: {name} has {sizes[dim]} at dim {dim}, not {size!r}")
            return
        for key, inner in _entries(name, given):
            try:
                self._note(f"{name}[{key!r}]", numbers[key], inner)
            except (KeyError, IndexError, TypeError) as error:
                raise UserError(f"dynamic_shapes: {name} has no {key!r}") from error

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """The tensors of a call. ValueError for other arguments than those of the example, AssertionError for other
        sizes."""
        try:
            leaves, spec = _pytree.tree_flatten(_bound(self.signature, args, kwargs))
        except TypeError as error:
            raise ValueError(f"the exported program does not take these arguments: {error}") from error
        if spec != self.spec:
            raise ValueError(f"the exported program takes arguments of the form {self.spec}, got {spec}")
        known: dict[str, tuple[str, int]] = {}
        for name, leaf, example, sizes in zip(self.names, leaves, self.leaves, self.sizes, strict=True):
            if not isinstance(example, Tensor):
                if leaf is not example and (type(leaf) is not type(example) or leaf != example):
                    raise ValueError(
                        f"{name} was {example!r:.80} when the program was exported, and is {leaf!r:.80} now"
                    )
                continue
            if not isinstance(leaf, Tensor):
                raise ValueError(f"{name} is a tensor, not {describe(leaf)}")
            if leaf.dtype is not example.dtype:
                raise RuntimeError(f"{name} is {example.dtype} in the exported program, got {describe(leaf)}")
            if leaf.ndim != len(sizes):
                raise AssertionError(f"{name} has {len(sizes)} dims in the exported program, got {describe(leaf)}")
            for dim, (size, found) in enumerate(zip(sizes, leaf.shape, strict=True)):
                place = f"{name}.size()[{dim}]"
                if not isinstance(size, Dim):
                    if found != size:
                        raise AssertionError(f"{place} is {size} in the exported program, got {found}")
                    continue
                if found < size.min or size.max is not None and found > size.max:
                    raise AssertionError(f"{place} is {size}, got {found}")
                if size not in ANY:
                    first = known.setdefault(size.__name__, (place, found))
                    if first[1] != found:
                        raise AssertionError(f"{place} and {first[0]} are both {size}, got {found} and {first[1]}")
        return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _entries(name: str, given: Any) -> Iterable[tuple[Any, Any]]:
    """(key, entry) of what `dynamic_shapes` says of an argument, of a container, or of the module."""
    if isinstance(given, Mapping):
        return given.items()
    if isinstance(given, (tuple, list)):
        return enumerate(given)
    raise UserError(f"dynamic_shapes: the entry of {name} is a dict, a list or a tuple, not {given!r}")


def _words(paths: Sequence[Any]) -> list[str]:
    """A name of Python for each leaf: "x", "batch_ids", "pair_0"; no two are the same."""
    names, found = Namespace(), list[str]()
    for path in paths:
        word = "_".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path)
        if word.isidentifier() and word not in found:
            names.take(word)
        else:
            word = names.create_name(word)
        found.append(word)
    return found
