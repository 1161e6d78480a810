"""Hooks of modules, and of all modules; names that a state cannot contain."""

from __future__ import annotations

from typing import Any

import pytest

from pyapp import nn, ones
from pyapp.nn.modules import module as hooks


def test_backward_hooks_of_a_first_layer() -> None:
    """As in torch, whose hook runs when the gradients of the outputs are known, with None for each input."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    seen: list[Any] = []
    for i, layer in enumerate(net):
        layer.register_full_backward_hook(
            lambda module, before, after, i=i: seen.append(
                (i, [None if g is None else tuple(g.shape) for g in before], [tuple(g.shape) for g in after])
            )
        )
    net(ones(4, 2)).sum().backward()
    assert seen == [(1, [(4, 3)], [(4, 1)]), (0, [None], [(4, 3)])]
    assert net[0].weight.grad is not None


def test_hooks_may_be_taken_away_from_a_first_layer() -> None:
    layer, calls = nn.Linear(2, 1), []
    handle = layer.register_full_backward_hook(lambda *_: calls.append(1))
    layer(ones(1, 2)).sum().backward()
    handle.remove()
    layer(ones(1, 2)).sum().backward()
    assert calls == [1]


@pytest.mark.parametrize("name", ["a.b", ""])
def test_names_that_a_state_could_not_hold(name: str) -> None:
    net = nn.Linear(2, 1)
    with pytest.raises(KeyError, match="register_buffer"):
        net.register_buffer(name, ones(1))
    with pytest.raises(KeyError, match="register_parameter"):
        net.register_parameter(name, None)
    with pytest.raises(KeyError, match="add_module"):
        net.add_module(name, nn.ReLU())


def test_paddings_that_are_none() -> None:
    with pytest.raises(ValueError, match="Conv2d: padding is numbers, 'same' or 'valid', not 'full'"):
        nn.Conv2d(3, 4, 3, padding="full")


def test_hooks_of_all_modules(request: pytest.FixtureRequest) -> None:
    seen: list[str] = []
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    net[0].register_forward_hook(lambda *_: seen.append("own after"))
    net[0].register_forward_pre_hook(lambda *_: seen.append("own before"))
    net[1].register_full_backward_hook(lambda *_: seen.append("own backward"))

    def note(what: str) -> Any:
        return lambda module, *_: seen.append(f"{what} {type(module).__name__}")

    handles = [
        hooks.register_module_forward_pre_hook(note("before")),
        hooks.register_module_forward_hook(note("after")),
        hooks.register_module_full_backward_pre_hook(note("backward before")),
        hooks.register_module_full_backward_hook(note("backward")),
    ]
    request.addfinalizer(lambda: [handle.remove() for handle in handles])
    y = net(ones(1, 2, requires_grad=True))
    assert seen == [
        "before Sequential", "before Linear", "own before", "after Linear", "own after", "before Sequential",
        "before ReLU", "after ReLU", "after Sequential", "after Sequential",
    ]  # fmt: skip
    seen.clear()
    y.sum().backward()
    assert seen == [
        "backward before Sequential", "backward before Sequential", "backward before ReLU", "backward ReLU",
        "backward Sequential", "own backward", "backward before Linear", "backward Linear", "backward Sequential",
    ]  # fmt: skip
    for handle in handles:
        handle.remove()
    seen.clear()
    net(ones(1, 2))
    assert seen == ["own before", "own after"] and nn.ReLU()._hooks is None and nn.Module._hooks is None


def test_hooks_of_all_modules_may_change_what_passes() -> None:
    layer = nn.Identity()
    with hooks.register_module_forward_pre_hook(lambda module, args: (args[0] + 1,)):
        with hooks.register_module_forward_hook(lambda m, a, kw, out: out * 10 + kw.get("more", 0), with_kwargs=True):
            assert layer(ones(1)).tolist() == [20]
            own = layer.register_forward_hook(
                lambda module, args, output: output + 1
            )  # its own hooks, not those of all
            assert layer(ones(1)).tolist() == [21] and nn.Identity()(ones(1)).tolist() == [20]
            own.remove()
    assert layer(ones(1)).tolist() == [1]


def test_the_order_of_hooks_and_their_keywords() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Any, by: float = 1.0) -> Any:
            return x * by

    layer, seen = Scaled(), []
    layer.register_forward_pre_hook(lambda m, args, kw: (args, {"by": kw.get("by", 1.0) + 1}), with_kwargs=True)
    layer.register_forward_pre_hook(lambda m, args: seen.append("second before"))
    layer.register_forward_pre_hook(lambda m, args: seen.append("first before"), prepend=True)
    layer.register_forward_hook(lambda m, args, kw, out: seen.append(kw), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, out: seen.append("first after"), prepend=True)
    layer.register_full_backward_hook(lambda m, i, o: seen.append("second backward"))
    layer.register_full_backward_hook(lambda m, i, o: seen.append("first backward"), prepend=True)
    layer.register_full_backward_pre_hook(lambda m, o: seen.append("second gradient"))
    layer.register_full_backward_pre_hook(lambda m, o: seen.append("first gradient"), prepend=True)
    x = ones(2, requires_grad=True)
    layer(x, by=2.0).sum().backward()
    assert seen == [
        "first before", "second before", "first after", {"by": 3.0}, "first gradient", "second gradient",
        "first backward", "second backward",
    ] and x.grad.tolist() == [3, 3]  # fmt: skip
    layer.register_forward_pre_hook(lambda m, args, kw: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"returns None or \(args, kwargs\)"):
        layer(x)


def test_hooks_that_are_called_always() -> None:
    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("from forward")

    layer, seen = Fails(), []
    layer.register_forward_hook(lambda m, args, out: seen.append("not called"))
    layer.register_forward_hook(lambda m, args, out: seen.append((len(args), out)), always_call=True)
    layer.register_forward_hook(lambda m, args, kw, out: 1 / 0, always_call=True, with_kwargs=True)
    with pytest.warns(UserWarning, match="Fails: a hook with always_call raised ZeroDivisionError"):
        with pytest.raises(KeyError, match="from forward"):
            layer(ones(1))
    assert seen == [(1, None)]
    well = nn.Identity()
    well.register_forward_hook(lambda m, args, out: seen.append("once"), always_call=True)
    well(ones(1))
    assert seen == [(1, None), "once"]
