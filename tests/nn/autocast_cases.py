"""Computations under autocast, for `torch` or pyapp as `t`; `x` (4, 6) float32, `h` the same in the region's dtype."""

from __future__ import annotations

from typing import Any

import numpy as np


def arrays() -> dict[str, np.ndarray]:
    generator = np.random.Generator(np.random.Philox(key=7))
    shapes = {
        "x": (4, 6),
        "w": (5, 6),
        "b": (5,),
        "s": (6, 6),
        "stack": (2, 4, 6),
        "image": (1, 2, 5, 5),
        "k": (3, 2, 3, 3),
    }
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def targets(t: Any) -> Any:
    return t.tensor([0, 3, 1, 2])


CASES: dict[str, Any] = {
    "matmul": lambda t, F, a, h: a["x"] @ a["s"],
    "mm": lambda t, F, a, h: t.mm(a["x"], a["s"]),
    "bmm": lambda t, F, a, h: t.bmm(a["stack"], a["stack"].mT),
    "addmm": lambda t, F, a, h: t.addmm(a["x"], a["x"], a["s"]),
    "baddbmm": lambda t, F, a, h: t.baddbmm(a["stack"] @ a["s"], a["stack"], a["s"].expand(2, 6, 6)),
    "einsum": lambda t, F, a, h: t.einsum("ij,kj->ik", a["x"], a["w"]),
    "linear": lambda t, F, a, h: F.linear(a["x"], a["w"], a["b"]),
    "conv2d": lambda t, F, a, h: F.conv2d(a["image"], a["k"], padding=1),
    "conv2d of both": lambda t, F, a, h: F.conv2d(a["image"].to(h.dtype), a["k"], a["x"][0, :3]),
    "conv1d of both": lambda t, F, a, h: F.conv1d(a["stack"].to(h.dtype), a["k"][:, :1, 0].repeat(1, 4, 1), dilation=2),
    "conv_transpose2d of both": lambda t, F, a, h: F.conv_transpose2d(a["image"].to(h.dtype), a["k"].transpose(0, 1)),
    "conv1d": lambda t, F, a, h: F.conv1d(a["stack"], a["k"].reshape(3, 2, 9)[:, :, :4].repeat(1, 2, 1), padding=1),
    "conv_transpose2d": lambda t, F, a, h: F.conv_transpose2d(a["image"], a["k"].transpose(0, 1)),
    "attention": lambda t, F, a, h: F.scaled_dot_product_attention(a["stack"], a["stack"], a["stack"], is_causal=True),
    "of halves": lambda t, F, a, h: a["x"].half() @ a["s"].half(),
    "of doubles": lambda t, F, a, h: a["x"].double() @ a["s"].double(),
    "add": lambda t, F, a, h: h + a["x"],
    "lstm": lambda t, F, a, h: recurrent(t, "LSTM", a["stack"]),
    "gru": lambda t, F, a, h: recurrent(t, "GRU", a["stack"]),
    "rnn": lambda t, F, a, h: recurrent(t, "RNN", a["stack"]),
    "lstm that projects": lambda t, F, a, h: recurrent(t, "LSTM", a["stack"], proj_size=2),
    "gelu of linear": lambda t, F, a, h: F.gelu(F.linear(a["x"], a["w"])),
    "softmax": lambda t, F, a, h: h.softmax(-1),
    "sum": lambda t, F, a, h: h.sum(-1),
    "layer_norm": lambda t, F, a, h: F.layer_norm(h, (6,)),
    "prod": lambda t, F, a, h: h.prod(-1),
    "cat": lambda t, F, a, h: t.cat([h, a["x"]]),
    "embedding": lambda t, F, a, h: F.embedding(targets(t), a["x"]),
    "cross_entropy": lambda t, F, a, h: F.cross_entropy(h, targets(t)),
    "cross_entropy of linear": lambda t, F, a, h: F.cross_entropy(F.linear(a["x"], a["w"]), targets(t)),
    "nll_loss": lambda t, F, a, h: F.nll_loss(h.log_softmax(-1), targets(t)),
    "mse_loss": lambda t, F, a, h: F.mse_loss(h, a["x"] * 2),
    "l1_loss": lambda t, F, a, h: F.l1_loss(h, -h),
    "smooth_l1_loss": lambda t, F, a, h: F.smooth_l1_loss(h, -h),
    "huber_loss": lambda t, F, a, h: F.huber_loss(h, -h),
    "kl_div": lambda t, F, a, h: F.kl_div(h.log_softmax(-1), h.softmax(-1), reduction="batchmean"),
    "binary_cross_entropy": lambda t, F, a, h: F.binary_cross_entropy(h.sigmoid(), (-h).sigmoid()),
    "with_logits": lambda t, F, a, h: F.binary_cross_entropy_with_logits(h, (-h).sigmoid()),
    "hinge_embedding_loss": lambda t, F, a, h: F.hinge_embedding_loss(h, h.sign()),
    "soft_margin_loss": lambda t, F, a, h: F.soft_margin_loss(h, h.sign()),
    "multi_margin_loss": lambda t, F, a, h: F.multi_margin_loss(h, targets(t)),
    "inside a disabled region": lambda t, F, a, h: disabled(t, a),
    "inside float16": lambda t, F, a, h: nested(t, a),
}


def recurrent(t: Any, kind: str, x: Any, **settings: Any) -> Any:
    """The output of a layer whose weights are 0.1, 0.2 …, in their order."""
    layer = getattr(t.nn, kind)(6, 4, **settings)
    with t.no_grad():
        for parameter in layer.parameters():
            parameter.copy_((t.arange(parameter.numel()) % 7 - 3).reshape(parameter.shape) * 0.1)
    return layer(x)[0].detach()


def disabled(t: Any, a: Any) -> Any:
    with t.autocast("cpu", enabled=False):
        return a["x"] @ a["s"]


def nested(t: Any, a: Any) -> Any:
    with t.autocast("cpu", dtype=t.float16):
        inner = a["x"] @ a["s"]
    return (inner @ a["s"]).to(t.float32) + inner.to(t.float32)


def training(t: Any, make: Any, dtype: str, device: str = "cpu") -> tuple[list[float], list[str]]:
    """Losses of a small network that trains under autocast with a GradScaler, and the dtypes of its gradients."""
    F, a = t.nn.functional, {name: make(value).to(device) for name, value in arrays().items()}
    weights = [t.nn.Parameter(a["w"].clone()), t.nn.Parameter(a["b"].clone()), t.nn.Parameter(a["w"].T[:5, :4].clone())]
    optimizer = t.optim.SGD(weights, lr=0.05)
    scaler = t.amp.GradScaler(device, init_scale=2.0**30 if dtype == "float16" else 8.0, growth_interval=3)
    losses = []
    for _ in range(16):
        with t.autocast(device, dtype=getattr(t, dtype)):
            hidden = F.gelu(F.linear(a["x"], weights[0], weights[1]))
            loss = F.cross_entropy(hidden @ weights[2], targets(t).to(device))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        losses += [float(loss), scaler.get_scale()]
    return losses, [str(weight.grad.dtype).partition(".")[2] for weight in weights]
