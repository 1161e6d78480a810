"""A model's checkpoint as the GGUF file that llama.cpp reads, by the form of its architecture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from math import prod
from pathlib import PurePath
from typing import Any

from pyapp.engine import Device, Tensor, no_grad, ops, quant
from pyapp.engine.blocks.layout import block_bytes
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import Checkpoint, TensorInfo
from pyapp.nn import Module
from pyapp.nn.positions.rotary import rotary_frequencies

from .gguf import BETAS, LENGTHS, NEVER, TENSOR_SCALINGS, Gguf, ordering, yarn_growth
from .matching import plans_of
from .reading import read_plan
from .reading_gguf import is_vector
from .slots import Slot
from .stored import Stored


class AsGguf(Checkpoint):
    """A model's checkpoint as llama.cpp names and orders it. `values` are the metadata."""

    def __init__(
        self, form: Gguf, config: Any, model: Module, checkpoint: Checkpoint, stored: Mapping[str, Stored], base: str,
        renames: Callable[[str], str] | None, ignored: re.Pattern[str], strict: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(checkpoint.source)
        self.format = f"{checkpoint.format} as GGUF"
        form = form.of(config)
        self.form, self.checkpoint = form, checkpoint
        self.config = config.to_dict()
        self._config = config
        self.types: dict[str, str] = {}
        self.values = keys_of(form, config) | {"general.name": _title(checkpoint.source.name)}
        self._read_by: dict[str, Callable[[], Tensor]] = {}
        plans = plans_of(
            model, checkpoint, stored=stored, base=base, renames=renames, ignored=ignored, strict=strict
        )[0]  # fmt: skip
        joined: dict[str, list[tuple[str, Stored]]] = {}
        numbers: dict[str, list[float]] = {}
        for name, (slot, plan) in plans.items():
            if (key := form.key(name)) is not None:
                with no_grad():
                    value = quant.dequantize(read_plan(checkpoint, plan)).to("float32").reshape(-1)
                numbers.setdefault(key, []).append(float(value.tolist()[0]))
                continue
            names = form.tensors(name) or form.tensors(slot.name)
            if not names:
                raise ModelError(
                    f"GGUF has no name for the tensor {name!r}: it does not know this form of the architecture",
                    where=checkpoint.source.name, hint="Write safetensors",
                )  # fmt: skip
            matrix = slot.is_matrix or (len(slot.shape) == 3 and form.form_of(name) is None)
            kind = checkpoint.tensors[plan.names[0]].dtype if matrix and plan.join is None else "float32"
            if form.share(name) is not None:
                joined.setdefault(names[0], []).append((name, plan))
                if len(joined[names[0]]) == len(form.group(name)):
                    self._add_joined(names[0], kind, self._shape(name, slot, 0, 1), joined[names[0]])
                continue
            for part, known in enumerate(names):
                self._add(known, kind, self._shape(name, slot, part, len(names)), name, plan, part, len(names))
        self.values |= numbers
        self._add_rotary_factors()
        for name, size in () if form.unused is None else form.unused(config).items():
            self.add({name: ops.zeros(*size)})

    def _skipped(self, name: str) -> int:
        return 0 if self.form.skipped is None else self.form.skipped(name, self._config)

    def _scale(self, name: str) -> float | Tensor | None:
        return None if self.form.scale is None else self.form.scale(name, self._config)

    def _shape(self, name: str, slot: Slot, part: int, parts: int) -> tuple[int, ...]:
        shape, own = slot.shape, self.form.form_of(name)
        if own is not None:
            return own.of(part).shape(self._config, shape)
        if skipped := self._skipped(name):
            return shape[0] - skipped, *shape[1:]
        if parts == 2:
            return (shape[0] // 2, *shape[1:]) if len(shape) == 2 else (shape[0], shape[1] // 2, shape[2])
        if len(shape) == 2 and name.endswith(self.form.transposed):
            return shape[::-1]
        return shape[1:] if is_vector(slot) else shape

    def _add(
        self, known: str, kind: str, shape: tuple[int, ...], name: str, plan: Stored, part: int, parts: int
    ) -> None:
        whole = self.checkpoint.tensors[plan.names[0]]
        blocks = kind not in ("float32", "float16", "bfloat16", "float64")
        plain = len(shape) == 2 and len(plan.names) == 1 and plan.values is None and tuple(whole.shape) == shape
        plain = plain and self._scale(name) is None
        if blocks and not plain:
            kind, blocks = "float32", False
        kind = "float32" if kind == "float64" else kind
        count = 1
        for size in shape:
            count *= size
        nbytes = block_bytes(kind, shape) if blocks else count * (4 if kind == "float32" else 2)
        self.tensors[known] = TensorInfo(known, kind, shape, nbytes)
        self._read_by[known] = lambda: self._tensor(name, plan, kind, shape, part, parts)

    def _add_joined(self, known: str, kind: str, shape: tuple[int, ...], parts: list[tuple[str, Stored]]) -> None:
        """A tensor of the rows of several parameters of this shape, in the order of the form."""
        kind = kind if kind in ("float32", "float16", "bfloat16") else "float32"
        stacked = self.form.group(parts[0][0]) in self.form.stacked
        whole = (len(parts), *shape) if stacked else (len(parts) * shape[0], *shape[1:])
        self.tensors[known] = TensorInfo(known, kind, whole, prod(whole) * (4 if kind == "float32" else 2))
        ordered = sorted(parts, key=lambda part: self.form.share(part[0]) or 0)
        self._read_by[known] = lambda: ops.cat(
            [self._tensor(name, plan, kind, shape, 0, 1) for name, plan in ordered]
        ).reshape(whole)

    def _tensor(self, name: str, plan: Stored, kind: str, shape: tuple[int, ...], part: int, parts: int) -> Tensor:
        order = None if self.form.order is None else self.form.order(name, self._config)
        rows = None if order is None else ordering(order)
        with no_grad():
            value = read_plan(self.checkpoint, plan)
            if kind in ("float32", "float16", "bfloat16"):
                value = quant.dequantize(value).to(kind)
                own, scale = self.form.form_of(name), self._scale(name)
                if isinstance(scale, Tensor) and value.ndim == 2:
                    scale = scale.unsqueeze(1)
                if scale is not None:
                    value = (value.to("float32") * scale).to(kind)
                if own is not None:
                    value = own.of(part).write(self._config, value)
                elif parts == 2:  # the gates, or the ups
                    value = value.narrow(len(shape) - 2, part * shape[-2], shape[-2])
                if name.endswith(self.form.transposed) and value.ndim == 2:
                    value = value.T
                if self.form.offset is not None and name.endswith(self.form.offset):
                    value = value + 1.0
                if rows is not None:
                    value = rows(value)
                if skipped := self._skipped(name):
                    value = value.narrow(0, skipped, shape[0])
            elif rows is not None:
                data = quant.to_blocks(value).data
                matrix = Tensor.from_buffer(data, (shape[0], memoryview(data).nbytes // shape[0]), "uint8")
                value = quant.from_blocks(rows(matrix).contiguous()._storage.bytes_view(), shape, kind)
            return value.reshape(shape) if not value.dtype.is_quantized else value

    def _add_rotary_factors(self) -> None:
        """The tensors that say how frequencies are divided (Llama 3, Phi-3)."""
        for name, numbers in rotary_factors(self._config).items():
            self.tensors[name] = TensorInfo(name, "float32", (len(numbers),), 4 * len(numbers))
            self._read_by[name] = partial(ops.tensor, numbers, dtype="float32")

    def add(self, tensors: Mapping[str, Tensor]) -> None:
        """Further tensors, in float32."""
        for name, value in tensors.items():
            self.tensors[name] = TensorInfo(name, "float32", tuple(value.shape), 4 * value.numel())
            self._read_by[name] = partial(Tensor.to, quant.dequantize(value), "float32")

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        value = self._read_by[info.name]()
        return value if device is None else value.to(device)

    def read_bytes(self, name: str) -> bytes | memoryview:
        return b"".join(self.read_pieces(name, max(self.tensors[name].nbytes, 1)))

    def read_pieces(self, name: str, size: int) -> Iterator[bytes | memoryview]:
        value = self._read_by[name]()
        if value.dtype.is_quantized:
            data = memoryview(quant.to_blocks(value).data).cast("B")
        else:
            value = value.cpu().contiguous()  # it keeps the memory that the pieces show
            begin = value.offset * value.dtype.itemsize
            data = value._storage.bytes_view()[begin : begin + value.nbytes]
        yield from (data[first : first + size] for first in range(0, len(data), size))


def _title(file: str) -> str:
    """A model's name: that of its file, or of its folder if the file has the name that every model's file has."""
    path = PurePath(file)
    usual = path.name.split(".")[0] in ("model", "pytorch_model")
    return path.parent.name if usual and path.parent.name else path.stem


def keys_of(form: Gguf, config: Any) -> dict[str, Any]:
    """The metadata of a GGUF file that say the architecture and its hyper-parameters."""
    settings = config.to_dict()
    prefix = form.architecture
    values: dict[str, Any] = {"general.architecture": prefix}
    floats = {known.name for known in fields(config) if "float" in str(known.type)}  # JSON may have whole numbers
    for name, key in form.keys.items():
        value = settings.get(name)
        if value is not None:
            values[f"{prefix}.{key}"] = float(value) if name in floats else value
    values[f"{prefix}.vocab_size"] = config.vocab_size
    if "rope_parameters" in settings:
        values |= {f"{prefix}.{key}": value for key, value in _rotary_keys(form, config).items()}
    own = {} if form.write is None else form.write(config)
    values |= {f"{prefix}.{key}": value for key, value in own.items()}
    values |= {} if form.whole_keys is None else form.whole_keys(config)
    return {key: value for key, value in values.items() if value is not None}  # None takes a key away


def _global_rotary(config: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = config.rope_parameters
    return parameters if "rope_type" in parameters else parameters.get("full_attention", {})


def turned(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the features of a head that are rotated, where those of the cache are others."""
    own = settings.get("qk_rope_head_dim")
    return {**settings} if own is None else {**settings, "head_dim": own}


def _rotary_keys(form: Gguf, config: Any) -> dict[str, Any]:
    parameters = _global_rotary(config)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    values: dict[str, Any] = {
        "rope.freq_base": float(parameters.get("rope_theta", 10000.0)),
        "rope.dimension_count": int(size * parameters.get("partial_rotary_factor", 1.0)),
    }
    if size * config.num_attention_heads != config.hidden_size:
        values |= dict.fromkeys(LENGTHS, size)
    kind, alpha = parameters.get("rope_type", "default"), parameters.get("alpha")
    if kind == "dynamic" and type(alpha) in (int, float) and size > 2:  # Hunyuan's: another base for every length
        kind, values["rope.freq_base"] = "default", values["rope.freq_base"] * alpha ** (size / (size - 2))
    if kind == "dynamic" or (kind in TENSOR_SCALINGS and kind not in form.scalings):
        raise ModelError(
            f"GGUF has no rotary positions of the type {kind!r}{'' if kind == 'dynamic' else ' for this architecture'}",
            hint="Write safetensors",
        )
    original = parameters.get("original_max_position_embeddings", config.max_position_embeddings)
    factor = float(parameters.get("factor", config.max_position_embeddings / original))
    if kind in ("linear", "yarn"):
        values |= {"rope.scaling.type": kind, "rope.scaling.factor": factor}
    if kind in ("yarn", "longrope"):
        values["rope.scaling.original_context_length"] = original
    if kind in ("yarn", "longrope", "su"):
        attention = rotary_frequencies(turned(config.to_dict()) | {"rope_parameters": parameters}).attention_factor
        share = attention / yarn_growth(factor) if kind == "yarn" else attention
        if kind != "yarn" or abs(share - 1) > 1e-6:
            values["rope.scaling.attn_factor"] = share
    if kind == "yarn":
        values |= {key: float(parameters[name]) for name, key in BETAS.items() if name in parameters}
    return values


def rotary_factors(config: Any) -> dict[str, list[float]]:
    """The tensors of a GGUF file by which rotary frequencies are divided."""
    if "rope_parameters" not in config.to_dict():
        return {}
    parameters = _global_rotary(config)
    kind = parameters.get("rope_type")
    if kind in ("longrope", "su"):
        return {
            "rope_factors_short.weight": list(parameters["short_factor"]),
            "rope_factors_long.weight": list(parameters["long_factor"]),
        }
    if kind == "proportional":  # the pairs that do not turn are divided by a large number
        own = rotary_frequencies(config.to_dict() | {"head_dim": config.global_head_dim, "rope_parameters": parameters})
        return {"rope_freqs.weight": [1.0 if step else NEVER for step in own.per_position]}
    if kind != "llama3":
        return {}
    settings = config.to_dict()
    plain = rotary_frequencies(settings | {"rope_parameters": parameters | {"rope_type": "default"}})
    scaled = rotary_frequencies(settings)
    return {
        "rope_freqs.weight": [a / b for a, b in zip(plain.per_position, scaled.per_position, strict=True)],
    }
