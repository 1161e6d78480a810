"""Mistakes of users, for torch and pyapp: handlers written for torch's errors must catch pyapp's.

`P` is torch or pyapp; golden_user_errors.json (make_golden_user_errors.py) holds torch's class of error for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Case = tuple[str, Callable[[Any], object]]


def x(P: Any) -> Any:
    return P.arange(6, dtype=P.float32).reshape(2, 3)


def leaf(P: Any) -> Any:
    return P.ones(2, 3, requires_grad=True)


def F(P: Any) -> Any:
    return P.nn.functional


def _twice(P: Any) -> None:
    y = leaf(P).exp().sum()
    y.backward()
    y.backward()


def _changed(P: Any) -> None:
    a = leaf(P)
    y = a.exp()
    y.add_(1)
    y.sum().backward()


def _state(P: Any, change: Callable[[dict[str, Any]], Any], strict: bool = True) -> None:
    layer = P.nn.Linear(3, 2)
    state = dict(layer.state_dict())
    change(state)
    layer.load_state_dict(state, strict=strict)


def _extra(P: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state.update(more=P.zeros(1))


SHAPES: list[Case] = [
    ("add shapes", lambda P: x(P) + P.zeros(4)),
    ("matmul shapes", lambda P: x(P) @ x(P)),
    ("matmul vector", lambda P: x(P) @ P.zeros(2)),
    ("mm dims", lambda P: P.mm(x(P), P.zeros(3))),
    ("bmm dims", lambda P: P.bmm(x(P), x(P))),
    ("dot", lambda P: P.dot(P.zeros(2), P.zeros(3))),
    ("dot dims", lambda P: P.dot(x(P), x(P))),
    ("reshape", lambda P: x(P).reshape(4)),
    ("reshape two -1", lambda P: x(P).reshape(-1, -1)),
    ("view strides", lambda P: x(P).t().view(6)),
    ("view size", lambda P: x(P).view(7)),
    ("expand", lambda P: x(P).expand(4, 3)),
    ("expand fewer", lambda P: x(P).expand(3)),
    ("cat shapes", lambda P: P.cat([x(P), P.zeros(2, 4)])),
    ("cat empty", lambda P: P.cat([])),
    ("cat dims", lambda P: P.cat([x(P), P.zeros(3)])),
    ("stack shapes", lambda P: P.stack([x(P), P.zeros(3)])),
    ("stack empty", lambda P: P.stack([])),
    ("split sizes", lambda P: x(P).split([1, 2])),
    ("split zero", lambda P: x(P).split(0)),
    ("chunk zero", lambda P: x(P).chunk(0)),
    ("permute few", lambda P: x(P).permute(0)),
    ("permute twice", lambda P: x(P).permute(0, 0)),
    ("t dims", lambda P: P.zeros(2, 3, 4).t()),
    ("narrow", lambda P: x(P).narrow(0, 1, 2)),
    ("repeat few", lambda P: x(P).repeat(2)),
    ("unflatten", lambda P: x(P).unflatten(1, (2, 2))),
    ("unfold size", lambda P: x(P).unfold(0, 3, 1)),
    ("einsum sizes", lambda P: P.einsum("ij,jk->ik", x(P), x(P))),
    ("einsum dims", lambda P: P.einsum("ijk->i", x(P))),
    ("einsum operands", lambda P: P.einsum("ij,jk", x(P))),
    ("broadcast_to", lambda P: P.broadcast_to(x(P), (2, 2))),
    ("where shapes", lambda P: P.where(x(P) > 1, x(P), P.zeros(4))),
    ("linear", lambda P: P.nn.Linear(4, 2)(x(P))),
    ("conv1d channels", lambda P: F(P).conv1d(P.zeros(1, 2, 5), P.zeros(4, 3, 2))),
    ("conv2d kernel", lambda P: F(P).conv2d(P.zeros(1, 1, 2, 2), P.zeros(1, 1, 3, 3))),
    ("conv2d dims", lambda P: F(P).conv2d(P.zeros(3, 3), P.zeros(1, 1, 3, 3))),
    ("conv2d stride", lambda P: F(P).conv2d(P.zeros(1, 1, 4, 4), P.zeros(1, 1, 3, 3), stride=0)),
    ("conv2d groups", lambda P: F(P).conv2d(P.zeros(1, 3, 4, 4), P.zeros(2, 1, 3, 3), groups=2)),
    ("Conv2d groups", lambda P: P.nn.Conv2d(3, 4, 1, groups=2)),
    ("max_pool2d dims", lambda P: F(P).max_pool2d(P.zeros(3), 2)),
    ("max_pool2d padding", lambda P: F(P).max_pool2d(P.zeros(1, 1, 4, 4), 2, padding=2)),
    ("avg_pool1d padding", lambda P: F(P).avg_pool1d(P.zeros(1, 1, 4), 2, padding=2)),
    ("pad reflect", lambda P: F(P).pad(P.zeros(1, 1, 3), (4, 4), mode="reflect")),
    ("pad mode", lambda P: F(P).pad(P.zeros(1, 1, 3), (1, 1), mode="nonsense")),
    ("pad odd", lambda P: F(P).pad(x(P), (1, 1, 1))),
    ("pad long", lambda P: F(P).pad(x(P), (1,) * 6)),
    ("interpolate none", lambda P: F(P).interpolate(P.zeros(1, 1, 3))),
    ("interpolate both", lambda P: F(P).interpolate(P.zeros(1, 1, 3), size=2, scale_factor=2)),
    ("interpolate mode", lambda P: F(P).interpolate(P.zeros(1, 1, 3), size=2, mode="nonsense")),
    ("interpolate bilinear dims", lambda P: F(P).interpolate(P.zeros(1, 1, 3), size=2, mode="bilinear")),
    ("interpolate antialias", lambda P: F(P).interpolate(P.zeros(1, 1, 3, 3), size=2, mode="nearest", antialias=True)),
    ("grid_sample mode", lambda P: F(P).grid_sample(P.zeros(1, 1, 2, 2), P.zeros(1, 2, 2, 2), mode="nonsense")),
    ("grid_sample shapes", lambda P: F(P).grid_sample(P.zeros(1, 1, 2, 2), P.zeros(2, 2, 2, 2))),
    ("layer_norm", lambda P: F(P).layer_norm(x(P), (2,))),
    ("LayerNorm", lambda P: P.nn.LayerNorm(4)(x(P))),
    ("batch_norm channels", lambda P: P.nn.BatchNorm1d(4)(x(P))),
    ("batch_norm dims", lambda P: P.nn.BatchNorm2d(3)(x(P))),
    ("batch_norm one value", lambda P: P.nn.BatchNorm1d(3)(P.zeros(1, 3))),
    ("group_norm", lambda P: F(P).group_norm(P.zeros(1, 3, 2), 2)),
    ("GroupNorm", lambda P: P.nn.GroupNorm(2, 3)),
    ("attention", lambda P: F(P).scaled_dot_product_attention(P.zeros(1, 1, 2, 4), P.zeros(1, 1, 2, 3), x(P))),
    ("MultiheadAttention", lambda P: P.nn.MultiheadAttention(5, 2)),
    ("pixel_shuffle", lambda P: F(P).pixel_shuffle(P.zeros(1, 3, 2, 2), 2)),
    ("glu", lambda P: F(P).glu(x(P))),
    ("LSTM", lambda P: P.nn.LSTM(4, 5)(P.zeros(2, 3))),
    ("LSTM dims", lambda P: P.nn.LSTM(4, 5)(P.zeros(2, 3, 4, 4))),
    ("LSTM proj", lambda P: P.nn.LSTM(4, 5, proj_size=9)),
    ("cross sizes", lambda P: P.linalg.cross(P.zeros(2), P.zeros(2))),
    ("meshgrid dims", lambda P: P.meshgrid(x(P), x(P), indexing="ij")),
    ("meshgrid indexing", lambda P: P.meshgrid(P.zeros(2), P.zeros(2), indexing="zz")),
    ("tensordot", lambda P: P.tensordot(x(P), x(P), dims=1)),
    ("kron none", lambda P: P.kron(x(P), None)),
    ("masked_select", lambda P: P.masked_select(x(P), P.tensor([True, False]))),
    ("masked_scatter few", lambda P: x(P).masked_scatter(x(P) > 0, P.zeros(2))),
    ("masked_fill tensor", lambda P: x(P).masked_fill(x(P) > 0, P.zeros(2))),
    ("copy_", lambda P: x(P).copy_(P.zeros(4))),
    ("setitem", lambda P: x(P).__setitem__(0, P.zeros(4))),
    ("setitem mask", lambda P: x(P).__setitem__(P.tensor([True]), 0.0)),
    ("add_ shape", lambda P: P.zeros(3).add_(x(P))),
    ("item", lambda P: x(P).item()),
    ("bool", lambda P: bool(x(P))),
    ("float", lambda P: float(x(P))),
    ("len", lambda P: len(P.tensor(1.0))),
    ("iter", lambda P: list(iter(P.tensor(1.0)))),
    ("ragged", lambda P: P.tensor([[1, 2], [3]])),
    ("tensor text", lambda P: P.tensor("text")),
    ("tensor texts", lambda P: P.tensor(["a", "b"])),
    ("tensor none", lambda P: P.tensor(None)),
    ("tensor dict", lambda P: P.tensor({})),
    ("zeros negative", lambda P: P.zeros(-1)),
    ("zeros float", lambda P: P.zeros(1.5)),
    ("arange step 0", lambda P: P.arange(0, 3, 0)),
    ("arange sign", lambda P: P.arange(3, 0, 1)),
    ("linspace steps", lambda P: P.linspace(0, 1, -1)),
    ("eye negative", lambda P: P.eye(-1)),
    ("full text", lambda P: P.full((2,), "a")),
    ("randint empty", lambda P: P.randint(3, 3, (2,))),
    ("randperm negative", lambda P: P.randperm(-1)),
    ("multinomial many", lambda P: P.multinomial(P.tensor([1.0, 2.0]), 5)),
    ("multinomial negative", lambda P: P.multinomial(P.tensor([1.0, -2.0]), 1)),
    ("bernoulli", lambda P: P.bernoulli(P.tensor([2.0]))),
    ("normal_ std", lambda P: P.zeros(2).normal_(0, -1)),
    ("uniform_ limits", lambda P: P.zeros(2).uniform_(2, 1)),
    ("topk", lambda P: x(P).topk(4)),
    ("kthvalue", lambda P: x(P).kthvalue(4)),
    ("quantile", lambda P: x(P).quantile(1.5)),
    ("max empty", lambda P: P.zeros(0).max()),
    ("max empty dim", lambda P: P.zeros(0, 2).max(0)),
    ("argmax empty", lambda P: P.zeros(0).argmax()),
    ("amax empty", lambda P: P.zeros(0).amax()),
    ("median empty dim", lambda P: P.zeros(2, 0).median(1)),
    ("diag", lambda P: P.diag(P.zeros(2, 2, 2))),
    ("trace", lambda P: P.trace(P.zeros(3))),
    ("tril", lambda P: P.tril(P.zeros(3))),
    ("roll", lambda P: P.roll(x(P), (1, 2), 0)),
    ("flip twice", lambda P: P.flip(x(P), (0, 0))),
    ("sum twice", lambda P: x(P).sum((0, 0))),
    ("clamp none", lambda P: x(P).clamp()),
    ("div mode", lambda P: P.div(x(P), 2, rounding_mode="nonsense")),
    ("vander dims", lambda P: P.vander(x(P))),
    ("histc", lambda P: P.histc(x(P), 0)),
    ("bincount negative", lambda P: P.bincount(P.tensor([-1]))),
    ("bincount float", lambda P: P.bincount(P.tensor([1.0]))),
    ("one_hot small", lambda P: F(P).one_hot(P.tensor([5]), 3)),
    ("one_hot float", lambda P: F(P).one_hot(P.tensor([1.0]), 3)),
    ("repeat_interleave", lambda P: P.repeat_interleave(P.zeros(3), P.tensor([1, 2]))),
    ("combinations", lambda P: P.combinations(x(P))),
    ("rfft n", lambda P: P.fft.rfft(x(P), n=0)),
    ("stft n_fft", lambda P: P.stft(P.zeros(4), 16, return_complex=True, center=False)),
]

INDICES: list[Case] = [
    ("softmax dim", lambda P: x(P).softmax(2)),
    ("sum dim", lambda P: x(P).sum(2)),
    ("max dim", lambda P: x(P).max(2)),
    ("sort dim", lambda P: x(P).sort(2)),
    ("std dim", lambda P: x(P).std(-3)),
    ("transpose dim", lambda P: x(P).transpose(0, 2)),
    ("unsqueeze dim", lambda P: x(P).unsqueeze(4)),
    ("squeeze dim", lambda P: x(P).squeeze(4)),
    ("cat dim", lambda P: P.cat([x(P), x(P)], 2)),
    ("size dim", lambda P: x(P).size(2)),
    ("flatten dim", lambda P: x(P).flatten(0, 2)),
    ("cumsum dim", lambda P: x(P).cumsum(2)),
    ("index", lambda P: x(P)[2]),
    ("index many", lambda P: x(P)[0, 0, 0]),
    ("index text", lambda P: x(P)["a"]),
    ("index float", lambda P: x(P)[1.5]),
    ("index tensor", lambda P: x(P)[P.tensor([5])]),
    ("index tensor float", lambda P: x(P)[P.tensor([1.0])]),
    ("index mask", lambda P: x(P)[P.tensor([True, False, True])]),
    ("index negative step", lambda P: x(P)[::-1]),
    ("index scalar", lambda P: P.tensor(1.0)[0]),
    ("select", lambda P: x(P).select(0, 5)),
    ("index_select", lambda P: x(P).index_select(0, P.tensor([5]))),
    ("index_select float", lambda P: x(P).index_select(0, P.tensor([1.0]))),
    ("index_select dims", lambda P: x(P).index_select(0, P.tensor([[0]]))),
    ("gather", lambda P: x(P).gather(0, P.tensor([[5]]))),
    ("gather dims", lambda P: x(P).gather(0, P.tensor([0]))),
    ("gather float", lambda P: x(P).gather(0, x(P))),
    ("scatter", lambda P: x(P).scatter(0, P.tensor([[5]]), 1.0)),
    ("scatter_add dims", lambda P: x(P).scatter_add(0, P.tensor([0]), x(P))),
    ("index_add", lambda P: x(P).index_add(0, P.tensor([5]), P.zeros(1, 3))),
    ("index_copy", lambda P: x(P).index_copy(0, P.tensor([5]), P.zeros(1, 3))),
    ("index_fill", lambda P: x(P).index_fill(0, P.tensor([5]), 1.0)),
    ("take", lambda P: P.take(x(P), P.tensor([9]))),
    ("take_along_dim", lambda P: P.take_along_dim(x(P), P.tensor([[9]]), 0)),
    ("embedding", lambda P: F(P).embedding(P.tensor([5]), x(P))),
    ("Embedding", lambda P: P.nn.Embedding(3, 2)(P.tensor([3]))),
    ("embedding float", lambda P: F(P).embedding(P.tensor([1.0]), x(P))),
    ("nll target", lambda P: F(P).nll_loss(x(P), P.tensor([5, 0]))),
    ("cross_entropy target", lambda P: F(P).cross_entropy(x(P), P.tensor([5, 0]))),
    ("cross_entropy batch", lambda P: F(P).cross_entropy(x(P), P.tensor([0, 0, 0]))),
    ("cross_entropy float", lambda P: F(P).cross_entropy(x(P), P.tensor([0.0, 1.0]))),
    ("nll batch", lambda P: F(P).nll_loss(x(P), P.tensor([0, 0, 0]))),
    ("bce shapes", lambda P: F(P).binary_cross_entropy(P.ones(2), P.ones(3))),
    ("bce range", lambda P: F(P).binary_cross_entropy(P.tensor([2.0]), P.ones(1))),
    ("bce logits shapes", lambda P: F(P).binary_cross_entropy_with_logits(P.ones(2), P.ones(3))),
    ("mse reduction", lambda P: F(P).mse_loss(x(P), x(P), reduction="nonsense")),
    ("Sequential", lambda P: P.nn.Sequential(P.nn.ReLU())[3]),
    ("ModuleList", lambda P: P.nn.ModuleList([])[0]),
    ("ModuleDict", lambda P: P.nn.ModuleDict({})["a"]),
]

DTYPES: list[Case] = [
    ("add text", lambda P: x(P) + "a"),
    ("matmul dtypes", lambda P: x(P) @ x(P).t().double()),
    ("linear dtypes", lambda P: F(P).linear(x(P), x(P).double())),
    ("mean int", lambda P: P.tensor([1, 2]).mean()),
    ("std int", lambda P: P.tensor([1, 2]).std()),
    ("neg bool", lambda P: -P.tensor([True])),
    ("sub bool", lambda P: P.tensor([True]) - P.tensor([True])),
    ("invert float", lambda P: ~x(P)),
    ("and float", lambda P: x(P) & x(P)),
    ("shift float", lambda P: x(P) << 1),
    ("add_ float", lambda P: P.tensor([1]).add_(1.5)),
    ("div_ int", lambda P: P.tensor([1]).div_(2)),
    ("masked_fill mask", lambda P: x(P).masked_fill(x(P), 0.0)),
    ("where condition", lambda P: P.where(x(P), x(P), x(P))),
    ("dtype text", lambda P: x(P).to("nonsense")),
    ("zeros dtype", lambda P: P.zeros(2, dtype="nonsense")),
    ("device", lambda P: P.zeros(2, device="nonsense")),
    ("softmax int", lambda P: P.tensor([1, 2]).softmax(0)),
    ("requires_grad int", lambda P: P.tensor([1, 2], requires_grad=True)),
    ("requires_grad_ int", lambda P: P.tensor([1, 2]).requires_grad_()),
    ("Parameter int", lambda P: P.nn.Parameter(P.tensor([1]))),
    ("scatter dtypes", lambda P: x(P).scatter(0, P.tensor([[0]]), P.tensor([[1]]))),
    ("copysign text", lambda P: P.copysign(x(P), "a")),
    ("pow int negative", lambda P: P.tensor([2]) ** -1),
    ("uint8 overflow", lambda P: P.tensor([300], dtype=P.uint8)),
    ("full overflow", lambda P: P.full((2,), 300, dtype=P.int8)),
    ("fill_ overflow", lambda P: P.zeros(2, dtype=P.int8).fill_(300)),
    ("int64 overflow", lambda P: P.tensor([2**70])),
    ("cholesky int", lambda P: P.linalg.cholesky(P.eye(2, dtype=P.int64))),
    ("unknown argument", lambda P: x(P).sum(nonsense=1)),
    ("few arguments", lambda P: x(P).reshape()),
    ("no tensor", lambda P: P.softmax("a", 0)),
    ("no tensors", lambda P: P.cat("ab")),
    ("cat none", lambda P: P.cat([x(P), None])),
    ("stack numbers", lambda P: P.stack([1, 2])),
    ("clamp text", lambda P: x(P).clamp("a")),
    ("gelu", lambda P: F(P).gelu(x(P), approximate="nonsense")),
    ("numpy grad", lambda P: leaf(P).numpy()),
    ("from_numpy list", lambda P: P.from_numpy([1, 2])),
    ("attribute", lambda P: x(P).nonsense),
    ("iinfo float", lambda P: P.iinfo(P.float32)),
    ("finfo int", lambda P: P.finfo(P.int32)),
]

LINALG: list[Case] = [
    ("inv shape", lambda P: P.linalg.inv(x(P))),
    ("inv singular", lambda P: P.linalg.inv(P.zeros(2, 2))),
    ("solve singular", lambda P: P.linalg.solve(P.zeros(2, 2), P.ones(2))),
    ("solve shapes", lambda P: P.linalg.solve(P.eye(2), P.ones(3))),
    ("cholesky", lambda P: P.linalg.cholesky(-P.eye(2))),
    ("det shape", lambda P: P.linalg.det(x(P))),
    ("svd dims", lambda P: P.linalg.svd(P.zeros(3))),
    ("qr mode", lambda P: P.linalg.qr(x(P), mode="nonsense")),
    ("eigh shape", lambda P: P.linalg.eigh(x(P))),
    ("matrix_power", lambda P: P.linalg.matrix_power(x(P), 2)),
    ("multi_dot", lambda P: P.linalg.multi_dot([x(P), x(P)])),
    ("norm ord", lambda P: P.linalg.norm(x(P), "nonsense")),
    ("vector_norm dim", lambda P: P.linalg.vector_norm(x(P), dim=5)),
    ("lstsq", lambda P: P.linalg.lstsq(x(P), P.zeros(5, 1))),
]

AUTOGRAD: list[Case] = [
    ("backward shape", lambda P: leaf(P).exp().backward()),
    ("backward none", lambda P: x(P).sum().backward()),
    ("backward twice", _twice),
    ("backward changed", _changed),
    ("backward gradient", lambda P: leaf(P).exp().backward(P.ones(2))),
    ("leaf in place", lambda P: leaf(P).add_(1)),
    ("view in place", lambda P: leaf(P)[0].add_(1)),
    ("expanded in place", lambda P: P.zeros(1).expand(3).add_(1)),
    ("grad unused", lambda P: P.autograd.grad(leaf(P).sum(), leaf(P))),
    ("grad none", lambda P: P.autograd.grad(x(P).sum(), x(P))),
    ("grad assigned", lambda P: setattr(leaf(P), "grad", P.ones(4))),
    ("grad assigned text", lambda P: setattr(leaf(P), "grad", "a")),
    ("requires_grad inner", lambda P: setattr(leaf(P).exp(), "requires_grad", False)),
    ("retain_grad", lambda P: x(P).retain_grad()),
    ("register_hook", lambda P: x(P).register_hook(print)),
    ("deepcopy inner", lambda P: __import__("copy").deepcopy(leaf(P).exp())),
]

MODULES: list[Case] = [
    ("missing", lambda P: _state(P, lambda state: state.pop("bias"))),
    ("unexpected", lambda P: _state(P, _extra(P))),
    ("shape", lambda P: _state(P, lambda state: state.update(bias=P.zeros(5)))),
    ("shape not strict", lambda P: _state(P, lambda state: state.update(bias=P.zeros(5)), strict=False)),
    ("no tensor", lambda P: _state(P, lambda state: state.update(bias="a"))),
    ("no state", lambda P: P.nn.Linear(3, 2).load_state_dict(5)),
    ("attribute", lambda P: P.nn.Linear(3, 2).nonsense),
    ("parameter type", lambda P: setattr(P.nn.Linear(3, 2), "weight", x(P))),
    ("register_parameter", lambda P: P.nn.Linear(3, 2).register_parameter("a.b", None)),
    ("register_parameter known", lambda P: P.nn.Linear(3, 2).register_parameter("forward", None)),
    ("register_buffer", lambda P: P.nn.Linear(3, 2).register_buffer("a", 5)),
    ("add_module", lambda P: P.nn.Module().add_module("a", 5)),
    ("get_submodule", lambda P: P.nn.Linear(3, 2).get_submodule("a")),
    ("get_parameter", lambda P: P.nn.Linear(3, 2).get_parameter("a")),
    ("no forward", lambda P: P.nn.Module()(x(P))),
    ("Sequential text", lambda P: P.nn.Sequential("a")),
    ("ModuleList text", lambda P: P.nn.ModuleList(["a"])),
    ("Dropout", lambda P: P.nn.Dropout(1.5)),
    ("dropout", lambda P: F(P).dropout(x(P), 1.5)),
    ("Embedding padding", lambda P: P.nn.Embedding(3, 2, padding_idx=5)),
    ("train text", lambda P: P.nn.Linear(3, 2).train("a")),
    ("optimizer empty", lambda P: P.optim.SGD([], lr=0.1)),
    ("optimizer lr", lambda P: P.optim.SGD(P.nn.Linear(3, 2).parameters(), lr=-1)),
    ("optimizer tensor", lambda P: P.optim.SGD(x(P), lr=0.1)),
    ("optimizer inner", lambda P: P.optim.SGD([leaf(P).exp()], lr=0.1)),
    ("optimizer twice", lambda P: _twice_in_groups(P)),
    ("adam betas", lambda P: P.optim.Adam(P.nn.Linear(3, 2).parameters(), betas=(1.5, 0.9))),
    ("nesterov", lambda P: P.optim.SGD(P.nn.Linear(3, 2).parameters(), lr=0.1, nesterov=True)),
    (
        "optimizer state",
        lambda P: P.optim.SGD([leaf(P)], lr=0.1).load_state_dict({"state": {}, "param_groups": []}),
    ),
    ("scheduler", lambda P: P.optim.lr_scheduler.StepLR(5, 1)),
    ("clip_grad", lambda P: P.nn.utils.clip_grad_norm_([_inf(P)], 1.0, error_if_nonfinite=True)),
    ("ctc", lambda P: F(P).ctc_loss(P.zeros(4, 1, 3), P.tensor([[1]]), P.tensor([9]), P.tensor([1]))),
    ("rnn nonlinearity", lambda P: P.nn.RNN(3, 4, nonlinearity="nonsense")),
    ("init fan", lambda P: P.nn.init.xavier_uniform_(P.zeros(3))),
    ("init orthogonal", lambda P: P.nn.init.orthogonal_(P.zeros(3))),
    ("calculate_gain", lambda P: P.nn.init.calculate_gain("nonsense")),
    ("optimizer group", lambda P: P.optim.SGD([leaf(P)], lr=0.1).add_param_group([leaf(P)])),
    ("celu alpha", lambda P: F(P).celu(x(P), 0)),
    ("softshrink nan", lambda P: F(P).softshrink(x(P), float("nan"))),
    ("kl_div ints", lambda P: F(P).kl_div(x(P).long(), x(P).long())),
    ("avg_pool kernel", lambda P: F(P).avg_pool2d(P.ones(1, 4, 4), 0, 2)),
    ("conv_transpose kernel", lambda P: F(P).conv_transpose1d(P.ones(1, 2, 3), P.ones(2, 2, 0), stride=2)),
    ("affine_grid ints", lambda P: F(P).affine_grid(P.ones(1, 2, 3).long(), (1, 1, 2, 2))),
    ("cov dims", lambda P: P.cov(P.ones(2, 2, 2))),
    ("block_diag dims", lambda P: P.block_diag(P.ones(2, 2, 2))),
]


def _inf(P: Any) -> Any:
    found = leaf(P)
    found.grad = P.full((2, 3), float("inf"))
    return found


def _twice_in_groups(P: Any) -> Any:
    a = leaf(P)
    return P.optim.SGD([{"params": [a]}, {"params": [a]}], lr=0.1)


SUBJECTS = {"shapes": SHAPES, "indices": INDICES, "dtypes": DTYPES, "linalg": LINALG, "autograd": AUTOGRAD}
SUBJECTS["modules"] = MODULES
# What pyapp does otherwise: asserts nothing, takes integers for what torch has no kernel, reads nothing beside memory.
OTHERWISE = {
    "modules: Embedding padding", "indices: take_along_dim", "dtypes: softmax int",
}  # fmt: skip
CASES: list[Case] = [(f"{subject}: {name}", call) for subject, cases in SUBJECTS.items() for name, call in cases]
