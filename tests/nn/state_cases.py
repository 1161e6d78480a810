"""Hooks around the state of modules, and extra state: what each case returns is the same in torch and pyapp, P being
either; or both refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def counting(P: Any) -> Any:
    """A module with a number in its state."""

    class Counting(P.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = P.nn.Linear(1, 2)
            self.seen = 0

        def get_extra_state(self) -> Any:
            return {"seen": self.seen}

        def set_extra_state(self, state: Any) -> None:
            self.seen = state["seen"]

    return Counting()


def network(P: Any) -> Any:
    return P.nn.Sequential(counting(P), P.nn.Linear(2, 1))


def constant(P: Any, value: float, bias: bool = True) -> Any:
    """A layer of known numbers."""
    layer = P.nn.Linear(1, 1, bias=bias)
    with P.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(value)
    return layer


def order_of_calls(P: Any) -> Any:
    net, log = network(P), []
    for name, module in (("net", net), ("counting", net[0]), ("inner", net[0].inner)):
        module.register_state_dict_pre_hook(
            lambda m, prefix, keep, n=name: log.append(["before saving", n, prefix, keep])
        )
        module.register_state_dict_post_hook(
            lambda m, state, prefix, told, n=name: log.append(["after saving", n, prefix, list(state), dict(told)])
        )
        module.register_load_state_dict_pre_hook(
            lambda m, state, prefix, told, strict, *lists, n=name: log.append(
                ["before loading", n, prefix, list(state), strict, [list(found) for found in lists]]
            )
        )
        module.register_load_state_dict_post_hook(
            lambda m, keys, n=name: log.append(["after loading", n, [list(found) for found in keys]])
        )
    state = net.state_dict(prefix="all.")
    net.load_state_dict(net.state_dict())
    return [list(state), log]


def extra(P: Any) -> Any:
    a, b = network(P), network(P)
    a[0].seen = 7
    state = a.state_dict()
    keys = b.load_state_dict(state)
    return [list(state), state["0._extra_state"], b[0].seen, [list(k) for k in keys]]


def extra_is_missing(P: Any, strict: bool) -> Any:
    net = network(P)
    state = {name: value for name, value in net.state_dict().items() if "extra" not in name}
    return [list(k) for k in net.load_state_dict(state, strict=strict)]


def extra_is_unexpected(P: Any, strict: bool) -> Any:
    layer = constant(P, 1)
    return [list(k) for k in layer.load_state_dict({**layer.state_dict(), "_extra_state": 3}, strict=strict)]


def changed_after(P: Any) -> Any:
    """A post-hook of a part changes the whole state in place."""
    net = P.nn.Sequential(constant(P, 2), constant(P, 3))
    net[1].register_state_dict_post_hook(
        lambda m, state, prefix, told: state.update({prefix + "kernel": state.pop(prefix + "weight")})
    )
    return {name: value.item() for name, value in net.state_dict().items()}


def replaced_after(P: Any) -> Any:
    """Of torch's older hook the result is the state, but not of a module below."""
    layer = constant(P, 2)
    layer._register_state_dict_hook(lambda m, state, prefix, told: {"only": 1})
    return [layer.state_dict(), list(P.nn.Sequential(layer).state_dict())]


def result_of_a_post_hook(P: Any) -> Any:
    layer = constant(P, 2)
    layer.register_state_dict_post_hook(lambda m, state, prefix, told: state)
    return list(layer.state_dict())


def renamed_before(P: Any) -> Any:
    """A part that knows its old names; the state that was given stays as it is."""
    net = P.nn.Sequential(constant(P, 0), constant(P, 0))

    def rename(m: Any, state: Any, prefix: str, *_: Any) -> None:
        for old, new in (("gamma", "weight"), ("beta", "bias")):
            if prefix + old in state:
                state[prefix + new] = state.pop(prefix + old)

    net[0].register_load_state_dict_pre_hook(rename)
    state = {"0.gamma": P.full((1, 1), 2.0), "0.beta": P.ones(1)}
    state.update({"1.weight": P.full((1, 1), 3.0), "1.bias": P.ones(1)})
    net.load_state_dict(state)
    return [[p.item() for p in net.parameters()], list(state)]


def older_hook(P: Any, with_module: bool) -> Any:
    layer, seen = constant(P, 0), []

    def hook(*args: Any) -> None:
        seen.append(len(args))
        args[-7][args[-6] + "bias"] = P.full((1,), 5.0)

    layer._register_load_state_dict_pre_hook(hook, with_module)
    layer.load_state_dict({"weight": P.ones(1, 1)})
    return [seen, layer.bias.item()]


def reported(P: Any, which: int, strict: bool) -> Any:
    """What a hook adds to the missing, the unexpected, the errors."""
    layer = constant(P, 0)
    layer.register_load_state_dict_pre_hook(lambda *args: args[5 + which].append("something odd"))
    return [list(k) for k in layer.load_state_dict(layer.state_dict(), strict=strict)]


def excused(P: Any) -> Any:
    layer = constant(P, 0)
    layer.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    keys = layer.load_state_dict({"weight": P.full((1, 1), 4.0)})
    return [layer.weight.item(), layer.bias.item(), [list(k) for k in keys]]


def taken_away(P: Any) -> Any:
    layer, calls = constant(P, 0), []
    handles = [
        layer.register_state_dict_pre_hook(lambda *_: calls.append(1)),
        layer.register_state_dict_post_hook(lambda *_: calls.append(2)),
        layer._register_state_dict_hook(lambda *_: calls.append(3)),
        layer.register_load_state_dict_pre_hook(lambda *_: calls.append(4)),
        layer._register_load_state_dict_pre_hook(lambda *_: calls.append(5)),
        layer.register_load_state_dict_post_hook(lambda *_: calls.append(6)),
    ]
    layer.load_state_dict(layer.state_dict())
    for handle in handles:
        handle.remove()
    layer.load_state_dict(layer.state_dict())
    return calls


def older_names(P: Any, strict: bool, **more: Any) -> Any:
    """A class that reads states of its first version itself, and writes one entry more."""
    seen = []

    class Scale(P.nn.Module):  # type: ignore[misc, name-defined]
        _version = 2

        def __init__(self) -> None:
            super().__init__()
            self.scale = P.nn.Parameter(P.zeros(1))
            self.inner = constant(P, 0)

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "kind"] = "plain"

        def _load_from_state_dict(self, state: Any, prefix: str, told: Any, strict: bool, *lists: Any) -> None:
            seen.append([prefix, told.get("version"), strict, state.pop(prefix + "kind", None)])
            if prefix + "gamma" in state:
                state[prefix + "scale"] = state.pop(prefix + "gamma") + 1
            super()._load_from_state_dict(state, prefix, told, strict, *lists)
            seen.append([self.scale.item(), *([n for n in found if n.startswith(prefix)] for found in lists[:2])])

    net = P.nn.Sequential(Scale(), constant(P, 0))
    state = net.state_dict()
    names = list(state)
    state["0.gamma"] = state.pop("0.scale") + 4
    state.update(more)
    for name in [name for name, value in more.items() if value is None]:
        del state[name]
    keys = net.load_state_dict(state, strict=strict)
    return [names, seen, [p.item() for p in net.parameters()], [sorted(k) for k in keys]]


CASES: dict[str, Callable[[Any], Any]] = {
    "older names": lambda P: older_names(P, True),
    "older names, others missing": lambda P: older_names(P, False, **{"0.gamma": None, "1.bias": None}),
    "older names, others unexpected": lambda P: older_names(P, False, **{"0.x": 1, "0.inner.y": 1, "1.z": 1, "q.a": 1}),
    "older names, unexpected": lambda P: older_names(P, True, **{"0.x": 1}),
    "older names, another shape": lambda P: older_names(P, True, **{"0.gamma": P.zeros(3)}),
    "order of calls": order_of_calls, "extra": extra, "changed after": changed_after, "excused": excused,
    "replaced after": replaced_after, "result of a post-hook": result_of_a_post_hook, "renamed before": renamed_before,
    "taken away": taken_away,
    "extra, missing": lambda P: extra_is_missing(P, True),
    "extra, missing, allowed": lambda P: extra_is_missing(P, False),
    "extra, unexpected": lambda P: extra_is_unexpected(P, True),
    "extra, unexpected, allowed": lambda P: extra_is_unexpected(P, False),
    "no extra to get": lambda P: constant(P, 0).get_extra_state(),
    "no extra to set": lambda P: constant(P, 0).set_extra_state(1),
    "older hook": lambda P: older_hook(P, False), "older hook with its module": lambda P: older_hook(P, True),
    **{
        f"reported as {what}{'' if strict else ', not strict'}": lambda P, i=i, strict=strict: reported(P, i, strict)
        for i, what in enumerate(("missing", "unexpected", "an error"))
        for strict in (True, False)
    },
}  # fmt: skip
