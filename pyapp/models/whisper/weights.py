"""A Whisper model's tensors by openai's names, converted from and to pyapp's fused parameters; Hugging Face's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from pyapp.engine import Device, Tensor, no_grad, ops, quant
from pyapp.engine.dtype import float16, float32, float64, q8_0
from pyapp.errors import ModelError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, Parameter

from .model import Whisper
from .transformer import Convolution, Decoder

if TYPE_CHECKING:
    from pyapp.nn.part import Part

# dtypes to which the matrices of a model can be converted; None keeps the dtypes of the file.
WEIGHT_DTYPES = {"float32": float32, "float16": float16, "q8_0": q8_0}
POSITIONS = "encoder.positional_embedding"  # constant: a file may leave them out
FUSED = {"qkv": ("query", "key", "value"), "kv": ("key", "value")}
# openai's name, and transformers' name, replaced in this order.
HUGGING_FACE = (
    ("decoder.token_embedding.weight", "decoder.embed_tokens.weight"),
    ("decoder.positional_embedding", "decoder.embed_positions.weight"),
    (POSITIONS, "encoder.embed_positions.weight"),
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    (".blocks.", ".layers."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".cross_attn.", ".encoder_attn."),
    (".attn.", ".self_attn."),
    (".mlp_ln.", ".final_layer_norm."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".out.", ".out_proj."),
)

Slot: TypeAlias = tuple[str, Module, str, tuple[int, ...]]


def hugging_face_name(name: str) -> str:
    """The transformers name of the tensor with openai's name `name`."""
    for ours, theirs in HUGGING_FACE:
        name = name.replace(ours, theirs)
    return f"model.{name}"


def slots(model: Whisper) -> Iterator[Slot]:
    """(pyapp's name, module, attribute, shape) of every parameter, empty ones included."""
    for path, module in model.named_modules():
        for attribute, shape in _shapes(module).items():
            yield f"{path}.{attribute}", module, attribute, shape


def _shapes(module: Module) -> dict[str, tuple[int, ...]]:
    if isinstance(module, Linear):
        return {"weight": (module.out_features, module.in_features), "bias": (module.out_features,)}
    if isinstance(module, Embedding):
        return {"weight": (module.num_embeddings, module.embedding_dim)}
    if isinstance(module, LayerNorm):
        return {"weight": module.normalized_shape, "bias": module.normalized_shape}
    if isinstance(module, Convolution):
        return {"weight": module.shape, "bias": module.shape[:1]}
    if isinstance(module, Decoder):
        return {"positional_embedding": (module.context, module.token_embedding.embedding_dim)}
    return {}


def parts(name: str) -> list[str]:
    """The openai tensors of which the parameter `name` consists, top to bottom; "" is the missing bias of keys."""
    name = name.replace(".mlp.up.", ".mlp.0.").replace(".mlp.down.", ".mlp.2.")
    path, attribute = name.rpartition(".")[::2]
    owner, kind = path.rpartition(".")[::2]
    if kind not in FUSED:
        return [name]
    return ["" if (part, attribute) == ("key", "bias") else f"{owner}.{part}.{attribute}" for part in FUSED[kind]]


def fill(
    model: Whisper,
    names: Iterable[str],
    read: Callable[..., Tensor],
    dtype: str | None = None,
    where: str | None = None,
    device: Device | str | None = None,
    taken: Mapping[int, Part] | None = None,
) -> None:
    """Assigns tensors to `model` (Whisper.empty); `read(name)` returns the tensor with openai's name, and
    `read(name, part)` a part of it, on `device` (None: the CPU). `taken`: what this process has of the model's
    parameters, by their ids.

    The matrices become `dtype` (WEIGHT_DTYPES); vectors, positions and convolutions are float32. ModelError for a name
    that is not among `names`, and for one of another shape.
    """
    if dtype is not None and dtype not in WEIGHT_DTYPES:
        raise ModelError(f"weights cannot be {dtype!r}", where="dtype", hint=f"Choose {', '.join(WEIGHT_DTYPES)}")
    known = set(names)
    for name, owner, attribute, shape in slots(model):
        sources = parts(name)
        missing = [source for source in sources if source and source not in known]
        if missing:
            raise ModelError(
                f"the model has no tensor {missing[0]!r}", where=where, hint="It is incomplete, or no Whisper model"
            )
        part = (taken or {}).get(id(getattr(owner, attribute)))
        height = (shape if part is None else part.shape)[0] // len(sources)
        found: list[Tensor | None] = []
        for i, source in enumerate(sources):
            own = None if part is None else part.of_rows(i * height, height)
            rows = (height, *shape[1:]) if own is None else own.own_shape
            given = None
            if source:
                given = _checked(source, read(source) if own is None else read(source, own), rows, where)
            found.append(given)
        place = next((each.device for each in found if each is not None), device or "cpu")
        values = [ops.zeros(rows, device=place) if each is None else each for each in found]  # of one height
        matrix = isinstance(owner, Linear | Embedding) and attribute == "weight"
        value = _joined([converted(part, dtype) if matrix else _dense(part) for part in values])
        setattr(owner, attribute, Parameter(value, requires_grad=False))
        if isinstance(owner, Embedding):
            owner.float32_rows = True
    if POSITIONS in known:
        encoder = model.encoder
        shape = (encoder.context, encoder.conv2.shape[0])
        encoder.positions = _dense(_checked(POSITIONS, read(POSITIONS), shape, where))


def _checked(name: str, value: Tensor, shape: tuple[int, ...], where: str | None) -> Tensor:
    if value.shape != shape and tuple(n for n in value.shape if n != 1) == tuple(n for n in shape if n != 1):
        value = value.reshape(shape)  # whisper.cpp writes the biases of convolutions as columns
    if value.shape != shape:
        raise ModelError(
            f"{name} has the shape {value.shape}, the configuration asks for {shape}", where=where,
            hint="The configuration belongs to another model",
        )  # fmt: skip
    if not (value.dtype.is_floating_point or value.dtype.is_quantized):
        raise ModelError(f"{name} holds {value.dtype}, not floating-point numbers", where=where)
    return value


def _dense(value: Tensor) -> Tensor:
    return quant.dequantize(value).to(float32).contiguous()


def converted(value: Tensor, dtype: str | None) -> Tensor:
    """A matrix in one of WEIGHT_DTYPES, or in its present dtype (except float64, which the kernels do not support)."""
    kind = float32 if dtype is None and value.dtype is float64 else WEIGHT_DTYPES.get(dtype or "", value.dtype)
    if value.dtype is kind:
        return value
    return quant.quantize(_dense(value)) if kind is q8_0 else quant.dequantize(value).to(kind).contiguous()


def _joined(values: list[Tensor]) -> Tensor:
    if len(values) == 1:
        return values[0]
    return quant.concatenate(values) if values[0].ndim == 2 else ops.cat(values)


def unfused(model: Whisper) -> Iterator[tuple[str, Tensor]]:
    """(openai's name, values) of every tensor, the encoder's positions included; matrices in their present dtype."""
    yield POSITIONS, model.encoder.positional_embedding()
    with no_grad():
        for name, owner, attribute, shape in slots(model):
            sources = parts(name)
            value = getattr(owner, attribute).detach()
            if len(sources) > 1 and value.dtype.is_quantized:
                value = quant.dequantize(value)
            rows = shape[0] // len(sources)
            for index, source in enumerate(sources):
                if source:
                    yield source, value.narrow(0, index * rows, rows)


__all__ = ["WEIGHT_DTYPES", "converted", "fill", "hugging_face_name", "parts", "slots", "unfused"]
