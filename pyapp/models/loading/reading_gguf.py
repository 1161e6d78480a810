"""A GGUF file of llama.cpp's as the configuration and the parameters of a model, by the form of its architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from pyapp.engine import Tensor, ops, quant
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import Checkpoint, TensorInfo
from pyapp.nn import Linear

from .gguf import (
    BETAS,
    CAUSAL,
    LENGTHS,
    WINDOW,
    WITH_EXPERTS,
    WITH_WINDOW,
    WITHOUT_TYPES,
    Gguf,
    GgufForm,
    Shape,
    inverse,
    ordering,
    path_and_layer,
    yarn_growth,
)
from .slots import Slot
from .stored import Stored

ANY_TENSOR = "output_norm.weight"  # that all files have


def index_names(architecture: str, values: Mapping[str, Any], tensors: Mapping[str, Any]) -> list[str]:
    """The names in the index that a file of an architecture may have, the best first. ModelError for the part of a
    model that sees pictures.
    """
    if architecture == "clip":
        raise ModelError(
            "this file has the vision projector (mmproj) of a model, not its language model",
            hint="Give the language model's file, and this one as --projector (in Python projector=)",
        )  # fmt: skip
    found = []
    if values.get(f"{architecture}.expert_count"):
        found.append(WITH_EXPERTS)
    if values.get(f"{architecture}.{WINDOW['sliding_window']}"):
        found.append(WITH_WINDOW)
    if "token_types.weight" not in tensors:
        found.append(WITHOUT_TYPES)
    return [*(name.format(architecture) for name in found), architecture]


def settings_of(form: Gguf, model_type: str, values: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    """The configuration of a GGUF file in the form of config.json. ModelError for a vocabulary alone."""
    if not checkpoint.tensors:
        raise ModelError(
            "this file has a vocabulary and no weights", where=checkpoint.source.name,
            hint="Give the model's own file; those whose names have vocab are for tests of tokenizers",
        )  # fmt: skip
    prefix, form = f"{values['general.architecture']}.", form.named(values["general.architecture"])
    own = {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
    found: dict[str, Any] = {"model_type": model_type}
    for name, key in form.keys.items():
        value = own.get(key)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if value is not None:
            found[name] = value
    embedding = checkpoint.tensors.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        found["vocab_size"] = embedding.shape[0]
    found["tie_word_embeddings"] = "output.weight" not in checkpoint.tensors
    if own.get(CAUSAL) is False:
        found["is_causal"] = False
    if "n_embd" not in form.keys:
        found |= _rotary(own, found, checkpoint)
    if form.read is None:
        return found
    special = {name: values.get(f"tokenizer.ggml.{name}_token_id") for name in ("padding", "eos", "mask")}
    return form.read(found, own | {"tensors": checkpoint.tensors, "special": special})


def _rotary(own: Mapping[str, Any], found: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    """head_dim and rope_parameters."""
    heads, hidden = found.get("num_attention_heads"), found.get("hidden_size")
    given: dict[str, Any] = {}
    size = own.get(LENGTHS[0])
    if size is None and type(heads) is int and type(hidden) is int and heads > 0:
        size = hidden // heads
    if type(size) is int and size > 0:
        given["head_dim"] = size
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": own.get("rope.freq_base", 10000.0)}
    rotated = own.get("rope.dimension_count", size)
    if type(rotated) is int and type(size) is int and 0 < rotated <= size:
        parameters["partial_rotary_factor"] = rotated / size
    kind, factor = own.get("rope.scaling.type"), own.get("rope.scaling.factor", own.get("rope.scale_linear"))
    original = own.get("rope.scaling.original_context_length")
    if kind == "yarn" or (kind in (None, "linear") and factor not in (None, 1, 1.0)):
        parameters |= {"rope_type": kind or "linear", "factor": factor}
    if kind == "yarn":
        parameters["attention_factor"] = yarn_growth(factor) * own.get("rope.scaling.attn_factor", 1.0)
        parameters |= {name: own[key] for name, key in BETAS.items() if key in own}
    if original is not None:
        parameters["original_max_position_embeddings"] = original
    for name, kinds in (
        ("rope_freqs.weight", ("short_factor", "long_factor")), ("rope_factors_short.weight", ("short_factor",)),
        ("rope_factors_long.weight", ("long_factor",)),
    ):  # fmt: skip
        if name in checkpoint.tensors and checkpoint.tensors[name].numel <= 1 << 16:
            numbers = quant.dequantize(checkpoint.read(name, finite=True)).to("float32").reshape(-1).tolist()
            parameters |= {"rope_type": "longrope"} | dict.fromkeys(kinds, numbers)
            attention = own.get("rope.scaling.attn_factor", 1.0)
            parameters |= {"attention_factor": attention, "factor": 1.0}
            parameters.setdefault("original_max_position_embeddings", found.get("max_position_embeddings"))
    return given | {"rope_parameters": parameters}


def stored_in(
    form: Gguf, config: Any, slots: Mapping[str, Slot], there: Mapping[str, TensorInfo],
    values: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Stored]:  # fmt: skip
    """How a GGUF file, which has the tensors `there` and the metadata `values`, stores the parameters."""
    found, form = {}, form.of(config)
    for name, slot in slots.items():
        tensors, own = form.tensors(name), form.form_of(name)
        pattern, layer = path_and_layer(name)
        older = form.older.get(pattern, "").replace("{}", layer) + ".weight"
        if (key := form.key(name)) is not None:
            numbers = values.get(key)
            found[name] = Stored((ANY_TENSOR,), join=partial(_number, numbers, int(layer), slot.shape, key))
            continue
        if older in there:
            apart = own is not None and form.share(name) is not None  # newer files join it with others
            found[name] = Stored((older,), join=_joining(GgufForm(), config, slot.shape) if apart else None)
        elif own is not None and own.rows is not None and tensors:
            found[name] = Stored(tensors, values=partial(_ordered, own.rows(config)))
        elif own is not None and tensors and form.share(name) is None:
            found[name] = Stored(tensors, join=_joining(own, config, slot.shape))
        elif tensors:
            order = None if form.order is None else form.order(name, config)
            rows = None if order is None else ordering(inverse(order))
            found[name] = Stored(tensors, rows, _from_gguf(form, name, slot))
    return found


def _number(numbers: Any, layer: int, shape: Shape, key: str, tensors: Sequence[Tensor]) -> Tensor:
    """A parameter of one number, which the file has under a key, for all layers or for each; `tensors` tell nothing."""
    number = numbers[layer] if isinstance(numbers, list) and layer < len(numbers) else numbers
    if type(number) not in (int, float):
        raise ModelError(f"{key} is {numbers!r:.60}, expected a number for each layer")
    return ops.tensor(float(number), dtype="float32").reshape(shape)


def _ordered(order: list[int], value: Tensor) -> Tensor:
    """A matrix, in blocks or not, with its rows in another order."""
    if not value.dtype.is_quantized:
        return ordering(order)(value)
    data, kind = quant.to_blocks(value).data, value.dtype.name
    matrix = Tensor.from_buffer(data, (len(order), memoryview(data).nbytes // len(order)), "uint8")
    return quant.from_blocks(ordering(order)(matrix).contiguous()._storage.bytes_view(), tuple(value.shape), kind)


def _joining(own: GgufForm, config: Any, shape: Shape) -> Callable[[Sequence[Tensor]], Tensor]:
    def joined(values: Sequence[Tensor]) -> Tensor:
        return own.read(config, *(quant.dequantize(value).to("float32") for value in values)).reshape(shape)

    return joined


def _from_gguf(form: Gguf, name: str, slot: Slot) -> Callable[[Tensor], Tensor] | None:
    """The change of a tensor's values, if it has another form than the parameter."""
    shape = slot.shape
    share = form.share(name)
    if share is not None:
        return partial(_share, name=name, share=share, parts=len(form.group(name)), shape=shape)
    if form.offset is not None and name.endswith(form.offset):
        return lambda value: quant.dequantize(value).to("float32") - 1.0
    if name.endswith(form.transposed) and len(shape) == 2:
        return lambda value: value.T
    if len(shape) == 3 and len(form.tensors(name)) == 2:  # gate and up of all experts
        parts = (2, shape[0], shape[1] // 2, shape[2])
        return lambda value: quant.dequantize(value).reshape(parts).transpose(0, 1).reshape(shape)
    if is_vector(slot):
        return lambda value: value.reshape(shape)
    return None


def _share(value: Tensor, name: str, share: int, parts: int, shape: Shape) -> Tensor:
    """The rows of one of the parameters that a tensor joins."""
    rows = shape[0]
    if value.ndim == 3:  # a stack
        value = value.reshape(-1, value.shape[-1])
    if value.shape[0] != parts * rows:
        raise ModelError(f"{name!r} is a part of {value.shape[0]:,} rows in the file, expected {parts} x {rows:,}")
    found = quant.copied_rows(value, share * rows, rows)
    return found.reshape(shape) if found.ndim != len(shape) else found


def is_vector(slot: Slot) -> bool:
    """Whether files store this matrix as a vector: that of a projection to one number."""
    return len(slot.shape) == 2 and slot.shape[0] == 1 and isinstance(slot.places[0][0], Linear)
