"""Modules written as ONNX files compute the same when they are read again; tests/oracle runs them by onnxruntime."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, no_grad, randn, tensor
from pyapp.engine.ops.full_attention import attention
from pyapp.engine.ops.recurrences import linear_scan
from pyapp.errors import ModelError, StorageFullError
from pyapp.jit import TracerWarning
from pyapp.nn import functional as F
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.onnx import export, is_in_onnx_export, load
from pyapp.onnx.exporting import model_file
from pyapp.tasks.onnx_forms import of_writer
from tests.models.test_decoders import make
from tests.together import check_each


class Pictures(nn.Module):
    """Convolutions, pools, normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.up = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1)
        self.group, self.out = nn.GroupNorm(2, 4), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.avg_pool2d(F.silu(self.depthwise(x)), 2, 1, 1)
        x = self.group(F.leaky_relu(self.up(x), 0.1))
        return self.out(F.adaptive_avg_pool2d(x, 1).flatten(1)).log_softmax(-1)


class Texts(nn.Module):
    """Embeddings, attention, a recurrent layer, whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.block = nn.Embedding(50, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.norm, self.lstm = nn.LayerNorm(32), nn.LSTM(32, 16, batch_first=True)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.block(self.table(ids)))
        y, _ = self.lstm(x)
        return {"part": x[:, -1, ::2], "best": y.amax(1), "count": (ids > 3).sum(-1), "running": x.cumsum(1)[:, 1:3]}


def _indexed(x: Tensor, at: Tensor) -> list[Tensor]:
    """Indexing by numbers that depend on the input, from -4 to -1: x (4, 5, 4), at (4,)."""
    return [
        x[at], x[:, at.reshape(2, 2)], x[:, at, at], x[at, :, at.unsqueeze(1)], x.index_fill(1, at, 2.0),
        x.index_copy(2, at + 4, x * 2), x.index_put((at, at), x[0, 0, :].unsqueeze(1).expand(4, 4)),
        x.index_add(0, at + 4, x), x.scatter_reduce(1, (at + 4).reshape(1, 4, 1).expand(4, 4, 4), x, "amax"),
        x.isfinite(),
    ]  # fmt: skip


def _written(x: Tensor) -> Tensor:
    """Writes in place: into a tensor, rows, columns, through a view, where a mask says, into a constant; x (4, 4)."""
    y = x * 1
    y += x.flip(0)
    y[:, 1] = 0.5
    y[2] *= 3
    y[y > 1] = 7.0
    y.relu_().mul_(2).masked_fill_(x > 0, 1.5)
    y[x[0].argsort()] = x
    y.t()[0] += y[3]
    z = pyapp.zeros(4, 4)
    z[1:3, ::2] = y[:2, :2]
    z[0].copy_(x[1])
    return y + z


def _stale(x: Tensor) -> Tensor:
    """Reads a view after a write into its base."""
    y = x * 1
    part = y[1:]
    y.add_(1.0)
    return part * 2


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "activations": (
        lambda x: F.gelu(x) + F.elu(x) + F.hardswish(x) + F.mish(x) + F.softplus(x) + x.sigmoid().tanh(),
        (3, 4),
    ),
    "elementary": (lambda x: (x.abs() + 1).log() + x.exp().rsqrt() + x.erf() * x.sin() - x.floor() % 3, (3, 4)),
    "reductions": (
        lambda x: x.std(-1, keepdim=True) + x.mean(0) + x.amax((0, 1)) + x.logsumexp(-1, keepdim=True),
        (3, 4),
    ),
    "moves": (lambda x: pyapp.cat([x.flip(0), x.t().roll(1, 0).t(), x.unfold(1, 2, 1).sum(-1)], 1), (3, 4)),
    "choices": (lambda x: pyapp.where(x > 0, x, x * 2).clamp(-1, 1.5) + (x == x.amax()).float(), (3, 4)),
    "places": (
        lambda x: (
            x.gather(1, x.argsort(1)[:, :2] if False else tensor([[0, 1], [2, 3], [1, 0]])) + x.argmax(1, keepdim=True)
        ),
        (3, 4),
    ),
    "writes": (_written, (4, 4)),
    "sorted": (lambda x: {"a": x.sort(-1, True)[0], "b": x.topk(2, 0, False)[1], "c": x.argsort(0)}, (3, 4)),
    "indexed": (lambda x: dict(enumerate(_indexed(x, x[0, 0].argsort() - 4))), (4, 5, 4)),
    "angles": (lambda x: pyapp.atan2(x.round(), x.flip(0)) + pyapp.hypot(x, x + 1) + x.frac() + x.fmod(0.7), (3, 4)),
    "numbers": (lambda x: F.one_hot(x.argmax(1), 5) + (x[:, :1] > 0).long().bitwise_left_shift(2), (3, 4)),
    "triangles": (lambda x: x.tril() @ x.triu(1).t() + x.diagonal().sum(), (4, 4)),
    "padding": (lambda x: F.pad(x, (1, 2), value=3.0).softmax(0), (3, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 2, 5, 4)),
    "largest": (lambda x: dict(enumerate([*x.max(1), *x.min(0), pyapp.diag(x[0])])), (3, 4)),
    "without gradients": (pyapp.no_grad()(lambda x: (x * 1)[:, ::2].t().unbind(1)[1]), (3, 4)),
    "views": (lambda x: x.expand(2, 3, 4)[:, None, 1:, ::2].permute(3, 0, 1, 2).reshape(2, -1), (3, 4)),
}


def written(module: Any, inputs: Any, **settings: Any) -> bytes:
    file = io.BytesIO()
    export(module, inputs, file, **settings)
    return file.getvalue()


def check(name: str, module: Any, *inputs: Tensor) -> None:
    with no_grad():
        wanted = module(*inputs)
        found = load(written(module, inputs))(*inputs)
    wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
    for own, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert own.dtype is other.dtype
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def modules() -> list[tuple[Any, ...]]:
    pyapp.manual_seed(0)
    made: list[tuple[Any, ...]] = [
        ("pictures", Pictures().eval(), randn(2, 3, 16, 16)),
        ("texts", Texts().eval(), tensor(np.random.RandomState(0).randint(0, 50, (2, 6)))),
    ]
    return made + [(name, function, randn(*shape)) for name, (function, shape) in FUNCTIONS.items()]


def test_what_is_read_again_computes_the_same() -> None:
    check_each(check, modules())


def test_names_and_parameters() -> None:
    layer = nn.Linear(4, 3)
    module = load(written(layer, randn(2, 4), input_names=["in"], output_names=["out"]))
    assert [i.name for i in module.inputs] == ["in"] and [o.name for o in module.outputs] == ["out"]
    assert sorted(module.state_dict()) == ["bias", "weight"] and layer.weight.requires_grad
    assert module.inputs[0].type.shape == (2, 4)
    owner, x = nn.Module(), randn(3)
    owner.constant_1, owner.mul_2 = nn.Parameter(randn(3)), nn.Parameter(randn(3))  # as constants and results are named
    owner.forward = lambda x: x * tensor([1.0, 2.0, 3.0]) + owner.constant_1 * owner.mul_2
    np.testing.assert_allclose(load(written(owner, x))(x).numpy(), owner.forward(x).detach().numpy(), rtol=1e-6)
    with pytest.raises(ModelError, match="name 'add_2' is that of another result"):
        export(lambda x: (x + 1) * 2 + 3, x, io.BytesIO(), output_names=["add_2"])


def test_torchs_names_of_the_arguments() -> None:
    """`model`, `args` and `f`; the module learns that it is exported."""
    seen = []

    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(is_in_onnx_export())
            return x * 2

    file = io.BytesIO()
    export(model=Twice(), args=(pyapp.ones(2),), f=file)
    assert seen and all(seen) and not is_in_onnx_export()
    assert load(file.getvalue())(pyapp.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="a file"):
        export(Twice(), (pyapp.ones(2),))


def test_layers_become_their_operators() -> None:
    for affine in (False, True):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=affine), nn.ReLU6())
        module(randn(2, 3, 6, 6))  # statistics
        x = randn(1, 3, 6, 6) * 9
        file = written(module.eval(), x)
        for name, count in ((b"BatchNormalization", 1), (b"Clip", 1), (b"Where", 0), (b"Mul", 0)):
            assert (file.count(name) > 0) == count, name
        check("conv, norm, limits", module, x)


def test_quantised_weights_become_float32() -> None:
    model = nn.Sequential(nn.Linear(32, 16))
    nn.quantize(model, "q8_0")
    x = randn(2, 32)
    with no_grad():
        np.testing.assert_allclose(load(written(model, x))(x).numpy(), model(x).numpy(), atol=0.05)


def test_files_of_weights_in_blocks_are_run_beside_the_module(tmp_path: Path) -> None:
    """Whatever blocks they are, and whether the file has them in blocks or in float32."""

    class OneOfManyNames(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.layer = nn.Linear(256, 16)
            nn.quantize(self, kind)
            self.layer.weight_blocks = nn.Parameter(randn(16))

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) + self.layer.weight_blocks

    def check(kind: str, blocks: bool) -> None:
        model, x, path = OneOfManyNames(kind).eval(), randn(4, 256), tmp_path / "model.onnx"
        export(model, x, path, verify=True, blocks=blocks)
        assert (b"MatMulNBits" in path.read_bytes()) == (blocks and kind != "q4_K")
        with no_grad():
            wanted = model(x)
            np.testing.assert_allclose(load(path)(x).numpy(), wanted.numpy(), atol=0.02 * wanted.abs().max().item())

    check_each(check, [(kind, blocks) for kind in ("q8_0", "q4_0", "q4_K") for blocks in (False, True)])


def test_what_cannot_be_written() -> None:
    for function, message in (
        (lambda x: x.lgamma(), "'lgamma' cannot be written"),
        (_stale, "through another one"),
        (lambda x: 3, "gives int"),
        (lambda x: pyapp.view_as_real(pyapp.complex(x, x)), "complex numbers"),
        (lambda x: x[x > 0], "by bools"),
        (lambda x: pyapp.bucketize(x, tensor([0.0, 1.0])), "outside ops"),
    ):
        with pytest.raises((ModelError, TypeError), match=message):
            written(function, randn(3))
    with pytest.warns(TracerWarning, match="random numbers"):
        written(nn.Dropout(), randn(3))
    assert float(tensor(2.0) + 1) == 3.0  # ops are as they were


# -- sizes that may differ


class Tokens(nn.Module):
    """Positions that are counted, a causal mask, and a mask of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        count = ids.shape[1]
        x = self.words(ids) + self.places(pyapp.arange(count))
        causal = nn.Transformer.generate_square_subsequent_mask(count)
        x = self.block(x, src_mask=causal, src_key_padding_mask=mask == 0, is_causal=True)
        return (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


class Recurrent(nn.Module):
    """All states of recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, bidirectional=True, batch_first=True)
        self.gru, self.rnn = nn.GRU(12, 5, 2), nn.RNN(5, 3, nonlinearity="relu", bias=False)

    def forward(self, x: Tensor) -> list[Tensor]:
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y)
        return [h, c, last, *self.rnn(z)]


class Scaled(nn.Module):
    """A network with a way down and up again, of pictures of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, 2, 1)
        self.last = nn.Conv2d(10, 2, 3, padding=1, padding_mode="reflect")

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = F.relu(self.first(x))
        up = F.interpolate(self.down(x), size=x.shape[2:], mode="bilinear")
        y = self.last(pyapp.cat([x, up], 1))
        return {"y": y, "twice": F.interpolate(y, scale_factor=2), "mean": F.adaptive_avg_pool2d(y, 1).flatten(1)}


def _limits(x: Tensor) -> list[Tensor]:
    """Places beyond the size, and a window wider than the example of x (B, T, 8)."""
    y, heads = x * 1, x.reshape(*x.shape[:2], 2, 4)
    y[:, -3:] = 0.5
    y[:, -3:, 0] *= 2
    return [
        y, x[:, -4:], x[:, :5], x[:, : x.shape[1] // 2], x.roll(x.shape[1] // 2, 1), x * min(9, x.shape[1]),
        attention(heads, heads, heads, window=12),
    ]  # fmt: skip


def _parts(x: Tensor) -> list[Tensor]:
    """Parts and moves of x (B, T, 4)."""
    y = x * 1
    y[:, 1:-1, 0] = 0.5
    y[..., -1] *= 3
    rows = pyapp.arange(x.shape[0])
    return [
        y, x.flip(1).roll(2, 1), x[:, ::2], x[rows, x.shape[1] - 1], x.unfold(1, 3, 2).sum(-1), x.repeat(2, 1, 3),
        x.reshape(x.shape[0], -1), x.mean((0, 1)) / x.numel(), x.transpose(1, 2).diagonal(1, 1, 2),
        x[:, :, 0] @ pyapp.ones(x.shape[1], x.shape[1]).tril(-1) + pyapp.eye(x.shape[1])[0],
        pyapp.cat([(pyapp.arange(x.shape[1]) * 0.5).sin(), pyapp.zeros(2)]), F.pad(x, (0, 0, 1, 2), mode="replicate"),
        pyapp.stack([x[:, 0], x[:, -1]]).amax(0), x.topk(2, 1)[0], F.layer_norm(x, (4,)) @ x[0, 0],
    ]  # fmt: skip


Sizes = dict[int, str]


def sized() -> list[tuple[str, Any, list[tuple[tuple[int, ...], Sizes]], list[dict[str, int]]]]:
    """(name, module, (shape, sizes that may differ) of each input, sizes to try): a shape of two dims is of ids."""
    pyapp.manual_seed(1)
    batch, tokens = {0: "batch"}, {0: "batch", 1: "tokens"}
    several = [{"batch": 1, "tokens": 3}, {"batch": 5, "tokens": 9}]
    return [
        ("one row", nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.LayerNorm(3)), [((1, 3, 2, 2), batch)], several),
        ("pictures", Pictures().eval(), [((2, 3, 16, 16), batch)], several),
        ("texts", Tokens().eval(), [((2, 6), tokens), ((2, 6), tokens)], [*several, {"batch": 2, "tokens": 1}]),
        ("recurrent", Recurrent().eval(), [((2, 5, 4), tokens)], several),
        ("scans", lambda x: linear_scan(x.sigmoid(), x) + linear_scan(x, x, x[:, 0], True), [((2, 5, 4), tokens)],
         several),
        (
            "scaled", Scaled().eval(), [((1, 3, 8, 8), {0: "batch", 2: "high", 3: "wide"})],
            [{"batch": 2, "high": 12, "wide": 7}, {"batch": 1, "high": 5, "wide": 16}],
        ),
        ("parts", _parts, [((3, 7, 4), tokens)], [{"batch": 4, "tokens": 6}, {"batch": 5, "tokens": 12}]),
        ("limits", _limits, [((3, 7, 8), tokens)], [{"batch": 2, "tokens": 2}, {"batch": 5, "tokens": 30}]),
        ("products", lambda x, y: x @ y, [((3, 4, 2), {1: "a"}), ((3, 2, 5), {2: "b"})], [{"a": 1, "b": 9}]),
    ]  # fmt: skip


def sized_inputs(shapes: list[tuple[tuple[int, ...], Sizes]], sizes: dict[str, int]) -> list[Tensor]:
    found = []
    for at, (shape, dims) in enumerate(shapes):
        shape = tuple(sizes.get(dims.get(dim, ""), size) for dim, size in enumerate(shape))
        numbers = np.random.RandomState(at).randint(0, 2 if at else 50, shape)
        if at and len(shape) == 2:
            numbers[:, 0] = 1
        found.append(tensor(numbers) if len(shape) == 2 else randn(*shape))
    return found


def sized_file(module: Any, shapes: list[tuple[tuple[int, ...], Sizes]], **settings: Any) -> bytes:
    axes = {f"input_{at}": dims for at, (_, dims) in enumerate(shapes)}
    return written(module, sized_inputs(shapes, {}), dynamic_axes=axes, **settings)


def flat(found: Any) -> list[Tensor]:
    return (
        list(found.values()) if isinstance(found, dict) else list(found) if not isinstance(found, Tensor) else [found]
    )


def test_sizes_that_differ() -> None:
    def check_sizes(name: str, module: Any, shapes: Any, tries: Any) -> None:
        read = load(sized_file(module, shapes))
        for sizes in tries:
            inputs = sized_inputs(shapes, sizes)
            with no_grad():
                wanted, found = flat(module(*inputs)), flat(read(*inputs))
            for own, other in zip(found, wanted, strict=True):
                assert own.dtype is other.dtype and own.shape == other.shape
                np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)

    check_each(check_sizes, sized())


def test_names_of_sizes() -> None:
    batch = pyapp.export.Dim("batch", min=2, max=9)
    module = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.Upsample(scale_factor=2))
    x = randn(2, 2, 5)
    read = load(written(module, (x,), dynamic_shapes=({0: batch, 2: pyapp.export.Dim.DYNAMIC},)))
    assert read.inputs[0].type.shape == ("batch", 2, "input_0_dim_2")
    assert read.outputs[0].type.shape == ("batch", 3, "input_0_dim_2*2")
    program = pyapp.export.export(module.eval(), (x,), dynamic_shapes=({0: batch},))
    assert load(written(program, program.example_inputs[0])).outputs[0].type.shape == ("batch", 3, 10)
    both = load(written(lambda a, b: pyapp.cat([a, b]), [randn(2, 3), randn(4, 3)], dynamic_axes={
        "input_0": [0], "input_1": {0: "rows"}, "output_0": {0: "sum"}}))  # fmt: skip
    assert both.outputs[0].type.shape == ("input_0_dim_0 + rows", 3)
    together = {name: {0: pyapp.export.Dim.AUTO} for name in ("input_0", "input_1")}
    assert load(written(lambda a, b: a * b, [randn(3, 2)] * 2, dynamic_axes=together))(
        tensor([[1.0, 2.0]] * 7), tensor([[3.0, 4.0]] * 7)
    ).shape == (7, 2)  # fmt: skip


def test_a_size_that_is_a_sum_of_others() -> None:
    axes = {"input_0": {0: "past"}, "input_1": {0: "new"}, "input_2": {0: "past + new"}}
    inputs = [randn(3, 2), randn(4, 2), randn(7, 2)]
    read = load(written(lambda a, b, mask: pyapp.cat([a, b]) * mask, inputs, dynamic_axes=axes))
    assert [info.type.shape[0] for info in (*read.inputs, *read.outputs)] == ["past", "new", *["past + new"] * 2]
    assert read(randn(0, 2), randn(2, 2), randn(2, 2)).shape == (2, 2)
    with pytest.raises(ValueError, match=r"'past \+ new' is 7 and 6 in the example"):
        written(lambda a, b, mask: mask, [*inputs[:2], randn(6, 2)], dynamic_axes=axes)


def test_a_file_is_run_beside_its_module(tmp_path: Path) -> None:
    """What four calls near the example do not tell, further ones do."""
    path, axes = tmp_path / "model.onnx", {"input_0": {0: "rows"}}
    export(nn.Linear(2, 3).eval(), randn(3, 2), path, dynamic_axes=axes, verify=True)
    assert load(path)(randn(5, 2)).shape == (5, 3)
    for limit, shape in ((2, "1, 2"), (200, "259, 2")):
        with pytest.raises(ModelError, match=rf"output_0 of the written file is .* apart.*input_0 \({shape}\)"):
            export(lambda x, n=limit: x * (2 if len(x) < n else 3), randn(3, 2), path, dynamic_axes=axes, verify=True)
        assert not path.exists()


def test_rotary_positions_have_no_last_row() -> None:
    table = RotaryTable({"head_dim": 4, "max_position_embeddings": 9, "rope_parameters": {}})
    read = load(written(lambda x: pyapp.rope(x, table.upto(x.shape[1])), randn(2, 5, 1, 4), dynamic_axes={
        "input_0": {1: "tokens"}}))  # fmt: skip
    x = randn(2, 300, 1, 4)
    np.testing.assert_allclose(read(x).numpy(), pyapp.rope(x, table.upto(300)).numpy(), rtol=1e-4, atol=1e-4)


def test_rotary_positions_of_long_texts_follow_the_last_place() -> None:
    scaling = {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [1.0, 4.0]}
    table = RotaryTable({"head_dim": 4, "max_position_embeddings": 64, "original_max_position_embeddings": 8,
                         "rope_parameters": scaling})  # fmt: skip
    read = load(written(lambda places: table.at(places, len(places)), pyapp.arange(3), dynamic_axes={
        "input_0": {0: "tokens"}}))  # fmt: skip
    for places in (pyapp.arange(8), pyapp.arange(9), tensor([8])):
        wanted = table.upto(places[-1].item() + 1)[places]
        np.testing.assert_allclose(read(places).numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_norms_after_the_rotation_read_positions(tmp_path: Path) -> None:
    (file,) = of_writer(make("nanochat", 0)).write(tmp_path, None)  # it is run beside the module
    assert "position_ids" in {info.name for info in load(file).inputs}


def test_a_mask_of_the_input_hides_rows() -> None:
    """Whether a row sees any key depends on the mask, not on the example's."""

    def attention(x: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    x, mask = randn(1, 2, 3, 4), tensor([[True, False, True]] * 3)
    read = load(written(attention, [x, mask]))
    other = tensor([[True, True, True], [False, False, False], [False, True, False]])
    np.testing.assert_allclose(read(x, other).numpy(), attention(x, other).numpy(), rtol=1e-5, atol=1e-6)


def test_older_opsets_and_tensors_beside_the_model(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval()
    x = randn(3, 16)
    with no_grad():
        wanted = module(x).amax(-1).numpy()
    path = tmp_path / "model.onnx"
    export(lambda x: module(x).amax(-1), x, path, opset_version=17, external_data=True)
    assert path.stat().st_size < 1500 < (tmp_path / "model.onnx.data").stat().st_size
    assert b"Gelu" not in path.read_bytes()
    np.testing.assert_allclose(load(path)(x).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_a_model_that_cannot_be_written_leaves_both_older_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    export(nn.Linear(40, 40), randn(1, 40), path, external_data=True)
    older = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(model_file, "_put", full)
    with pytest.raises(StorageFullError, match=r"model\.onnx"):
        export(nn.Linear(40, 40), randn(1, 40), path, external_data=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == older and len(older) == 2


def test_wrong_arguments() -> None:
    x = randn(2, 3)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("a name", {"dynamic_axes": {"y": {0: "b"}}}, "names 'y'; there are input_0"),
        ("a dim", {"dynamic_axes": {"input_0": {2: "b"}}}, "has 2 dims, no dim 2"),
        ("two numbers", {"dynamic_axes": {"input_0": {0: "b", 1: "b"}}}, "'b' is 2 and 3"),
        ("a fixed size", {"dynamic_axes": {"input_0": [1]}}, "does not run with input_0"),
        ("an opset", {"opset_version": 9}, "17 to 23, not 9"),
        ("a setting", {"export_params": False}, "export_params=False does nothing here"),
        ("a word", {"strange": 1}, "unexpected keyword argument 'strange'"),
        ("no path", {"external_data": True}, "needs the path of a file"),
        ("no path to read", {"verify": True}, "needs the path of a file"),
    ]

    def refused(_: str, settings: dict[str, Any], message: str) -> None:
        with pytest.raises((ValueError, TypeError, NotImplementedError), match=message):
            written(nn.Linear(3, 2), x, **settings)

    check_each(refused, wrong)
    with pytest.raises(ModelError, match="which op follows|number of ops"):
        written(lambda x: sum(x.unbind(0)), x, dynamic_axes={"input_0": [0]})
    for function in (  # what a few sizes do not tell apart
        lambda x: x * (2 if x.shape[1] < 5 else 3), lambda x: F.pad(x, (0, max(0, 5 - x.shape[1]))),
        lambda x: F.max_pool1d(x.unsqueeze(0), 3, 2, 1, ceil_mode=True), lambda x: x.chunk(3, 1),
    ):  # fmt: skip
        with pytest.raises(ModelError, match="depends on sizes"):
            written(function, randn(2, 6), dynamic_axes={"input_0": [0, 1]})
    with pytest.raises(ModelError, match="a constant of the op"):
        primes = np.asarray([2.0, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73])
        written(lambda x: x * tensor(primes[: x.shape[1]]), x, dynamic_axes={"input_0": [1]})
