"""Losses and further functions of torch."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import quant
from pyapp.engine.ops.int8_product import int8_linear
from pyapp.nn import functional as F

from ..call import Call, family, reference
from ..operands import Draw


@family
def losses(d: Draw) -> Call:
    name = d.pick(
        (
            "cross_entropy cross_entropy_space nll mse l1 smooth_l1 bce_logits kl cosine huber "
            "soft_targets cdist ops_cross_entropy"
        ).split()
    )
    rows, classes = d.size(33), d.size()
    reduction = str(d.pick(("mean", "sum", "none")))
    if name in ("cross_entropy", "nll"):
        x, y = d.operand((rows, classes)), d.operand((rows,), "int64", 0, classes)
        smooth = d.pick((0.0, 0.0, 0.1))
        if name == "nll":
            return Call(name, [x, y], lambda x, y: F.nll_loss(x.log_softmax(-1), y, reduction=reduction))
        return Call(
            name,
            [x, y],
            lambda x, y: F.cross_entropy(x, y, reduction=reduction, label_smoothing=smooth),
            details={"smooth": smooth},
        )
    if name == "ops_cross_entropy":
        lead = d.shape(1 + d.below(2), 40, empty=False)
        x, y = d.operand((*lead, classes)), d.operand(lead, str(d.pick(("int64", "int32"))), 0, classes)
        return Call(name, [x, y], ops.cross_entropy)
    if name == "cross_entropy_space":
        a, b = d.size(9), d.size(9)
        x, y = d.operand((min(rows, 3), classes, a, b)), d.operand((min(rows, 3), a, b), "int64", 0, classes)
        return Call(name, [x, y], lambda x, y: F.cross_entropy(x, y, reduction=reduction))
    shape = d.shape(1 + d.below(3), 2000, empty=False)
    if name == "cdist":
        k = d.size(33)
        x, y = d.operand((rows, k)), d.operand((d.size(33), k))
        p = float(d.pick((1.0, 2.0)))
        return Call(
            f"cdist {p}",
            [x, y],
            lambda x, y: pyapp.cdist(x, y, p),
            learns=False,
            tolerance=0.02 if d.kind != "float64" else 0,
        )
    if name == "soft_targets":
        x, y = d.operand((rows, classes)), d.operand((rows, classes), low=0.0, high=1.0)
        return Call(name, [x, y], lambda x, y: F.cross_entropy(x, y, reduction=reduction))
    x = d.operand(shape)
    y = d.operand(shape, low=0.1, high=0.9)
    if name == "cosine":
        return Call(name, [x, y], lambda x, y: F.cosine_similarity(x, y, dim=-1, eps=0.1))
    if name == "kl":
        return Call(name, [x, y], lambda x, y: F.kl_div(x.log_softmax(-1), y, reduction=reduction))
    call = {"mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss, "huber": F.huber_loss}.get(
        name, F.binary_cross_entropy_with_logits
    )
    return Call(name, [x, y], lambda x, y: call(x, y, reduction=reduction))


@family
def further_losses(d: Draw) -> Call:
    name = d.pick(
        (
            "weighted ignored planes ctc embedding_bag offsets triplet margin mha fold unpool one_hot "
            "bincount bucketize histc renorm index_reduce put unique cov nll_planes int8 grid3d affine"
        ).split()
    )
    rows, classes = d.size(33), d.size()
    kind = str(d.pick(("float32", "float32", "float64")))
    reduction = str(d.pick(("mean", "sum", "none")))
    if name in ("weighted", "ignored"):
        x, y = d.operand((rows, classes)), d.operand((rows,), "int64", 0, classes)
        w = d.operand((classes,), low=0.2, high=1.5)
        smooth = float(d.pick((0.0, 0.1)))
        ignored = d.below(classes) if name == "ignored" else -100
        if name == "ignored":
            y.source.values[y.index.reshape(-1)[0]] = (ignored + 1) % classes
            if classes == 1:
                ignored = -100
        return Call(
            name,
            [x, y, w],
            lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=ignored, reduction=reduction, label_smoothing=smooth),
            details={"ignored": ignored},
        )
    if name in ("planes", "nll_planes"):
        batch, a, b = int(d.pick((1, 2, 3))), d.size(17), d.size(9)
        x, y = d.operand((batch, classes, a, b)), d.operand((batch, a, b), "int64", 0, classes)
        w = d.operand((classes,), low=0.2, high=1.5)
        weighted = d.chance(0.5)
        if name == "planes":
            return Call(
                name, [x, y, w], lambda x, y, w: F.cross_entropy(x, y, w if weighted else None, reduction=reduction)
            )
        return Call(name, [x, y, w], lambda x, y, w: F.nll_loss(x, y, w if weighted else None, reduction=reduction))
    if name == "ctc":
        t, n, c, s = int(d.pick((6, 9, 17))), int(d.pick((1, 2, 3))), int(d.pick((3, 5, 20))), int(d.pick((1, 2, 3)))
        x, y = d.operand((t, n, c), kind), d.operand((n, s), "int64", 1, c)
        lengths, targets = [t - d.below(2) for _ in range(n)], [1 + d.below(s) for _ in range(n)]
        return Call(
            name,
            [x, y],
            lambda x, y: F.ctc_loss(
                x.log_softmax(-1),
                y,
                pyapp.tensor(lengths),
                pyapp.tensor(targets),
                reduction=reduction,
                zero_infinity=True,
            ),
        )
    if name in ("embedding_bag", "offsets"):
        table = d.operand((d.size(), d.size()))
        mode = str(d.pick(("sum", "mean", "max")))
        if name == "offsets":
            total = d.size(33)
            ids = d.operand((total,), "int64", 0, table.shape[0])
            starts = sorted({0, *(d.below(total) for _ in range(3))})
            weights = d.operand((total,))
            weighted = mode == "sum" and d.chance(0.6)
            return Call(
                f"embedding_bag of offsets {mode}",
                [table, ids, weights],
                lambda t, i, w: F.embedding_bag(
                    i, t, pyapp.tensor(starts, device=i.device), mode=mode, per_sample_weights=w if weighted else None
                ),
            )
        ids = d.operand((d.size(9), d.size(9)), str(d.pick(("int64", "int32"))), 0, table.shape[0])
        padding = d.below(table.shape[0]) if d.chance(0.3) and mode != "max" else None
        return Call(
            f"embedding_bag {mode}",
            [table, ids],
            lambda t, i: F.embedding_bag(i, t, mode=mode, padding_idx=padding),
            details={"padding": padding},
        )
    if name in ("triplet", "margin"):
        x, y, z = (d.operand((rows, classes)) for _ in range(3))
        return Call(name, [x, y, z], lambda x, y, z: F.triplet_margin_loss(x, y, z, reduction=reduction))
    if name == "mha":
        heads, size = int(d.pick((1, 2, 4))), int(d.pick((2, 4, 8)))
        width, t, s, n = heads * size, int(d.pick((1, 3, 7))), int(d.pick((1, 4, 9))), int(d.pick((1, 2)))
        q, k, v = d.operand((t, n, width)), d.operand((s, n, width)), d.operand((s, n, width))
        w, b, o, c = (
            d.operand((3 * width, width)),
            d.operand((3 * width,)),
            d.operand((width, width)),
            d.operand((width,)),
        )
        mask = d.operand((n, s), "bool", high=0.3)
        need, masked = d.chance(0.4), d.chance(0.5) and s > 1

        def attend(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor, o: Tensor, c: Tensor, m: Tensor) -> Any:
            keep = pyapp.zeros(n, 1, dtype=m.dtype, device=m.device)
            m = pyapp.cat((keep, m[:, 1:]), 1)
            y, p = F.multi_head_attention_forward(
                q, k, v, width, heads, w, b, None, None, False, 0.0, o, c, False, m if masked else None, need
            )
            return (y, p) if need else y

        return Call(
            "multi_head_attention",
            [q, k, v, w, b, o, c, mask],
            attend,
            details={"need": need, "masked": masked, "heads": heads},
        )
    if name == "fold":
        k, s = int(d.pick((2, 3))), int(d.pick((1, 2)))
        h, w = k + d.below(6), k + d.below(6)
        count = ((h - k) // s + 1) * ((w - k) // s + 1)
        x = d.operand((2, 3 * k * k, count))
        return Call(name, [x], lambda x: F.fold(x, (h, w), k, stride=s))
    if name == "unpool":
        x = d.operand((2, 3, 6, 8))

        def there_and_back(x: Tensor) -> Tensor:
            y, places = F.max_pool2d(x, 2, return_indices=True)
            return F.max_unpool2d(y, places, 2)

        return Call(name, [x], there_and_back)
    if name == "one_hot":
        y = d.operand(d.shape(1 + d.below(3), 60), str(d.pick(("int64",))), 0, classes)
        return Call(name, [y], lambda y: F.one_hot(y, classes), False)
    if name == "bincount":
        y, w = d.operand((rows,), "int64", 0, classes), d.operand((rows,), kind)
        return Call(name, [y, w], lambda y, w: pyapp.bincount(y, w.float() if not reference() else w, classes), False)
    if name == "bucketize":
        x, edges = d.operand(d.shape(2, 200), kind), d.operand((d.size(17),), kind)
        return Call(name, [x, edges], lambda x, e: pyapp.bucketize(x, e.sort()[0]), False)
    if name == "histc":
        return Call(
            name, [d.operand(d.shape(2, 600, empty=False), kind)], lambda x: pyapp.histc(x, 9, -2.0, 2.0), False
        )
    if name == "renorm":
        shape = d.shape(2 + d.below(2), 600, empty=False)
        dim = d.below(len(shape))
        return Call(name, [d.operand(shape, kind)], lambda x: pyapp.renorm(x, 2.0, dim, 1.0))
    if name in ("index_reduce", "put"):
        shape = d.shape(1 + d.below(3), 500, empty=False)
        dim = d.below(len(shape))
        x, index = d.operand(shape, kind), d.operand((d.size(9),), "int64", 0, shape[dim])
        if name == "put":
            flat = d.operand((min(5, int(np.prod(shape))),), "int64", 0, 1, expands=False)
            flat.source.values[flat.index] = d.random.permutation(int(np.prod(shape)))[: flat.shape[0]]
            return Call(
                name,
                [x, flat, d.operand(flat.shape, kind)],
                lambda x, i, s: pyapp.put(x, i, s, True),
            )
        sizes = list(shape)
        sizes[dim] = index.shape[0]
        how = str(d.pick(("mean", "amax", "amin", "prod")))
        return Call(
            f"{name} {how}",
            [x, index, d.operand(tuple(sizes), kind)],
            lambda x, i, s: pyapp.index_reduce(x, dim, i, s, how),
            False,
        )
    if name == "cov":
        return Call(name, [d.operand((d.size(9), max(d.size(17), 3)), kind)], lambda x: pyapp.cov(x))
    if name == "int8":
        n, k = d.size(33), d.size()
        weight = pyapp.from_numpy(d.random.randint(-127, 128, (n, k)).astype(np.int8))
        x = d.operand((*d.shape(1 + d.below(2), 40), k), "int8", -127, 128)

        def product(x: Tensor) -> Tensor:
            if reference():
                return (x.double() @ weight.double().mT).float()
            return int8_linear(x, quant.pack_int8(weight).to(x.device))

        return Call("int8_linear", [x], product, False)
    if name == "grid3d":
        x, g = d.operand((2, 2, 3, 4, 5), kind), d.operand((2, 2, 3, 2, 3), kind, -1.1, 1.1)
        return Call(name, [x, g], lambda x, g: F.grid_sample(x, g, align_corners=True))
    theta = d.operand((2, 2, 3), kind)
    return Call("affine_grid", [theta], lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False))
