"""LoRA files for Stable Diffusion, FLUX.1 and Z-Image (Hu et al. 2021, arXiv 2106.09685), added to the weights.

Read are the names of diffusers and peft ("unet.….to_q.lora_A.weight", "….processor.to_q_lora.down.weight") and those of
kohya's scripts ("lora_unet_….lora_down.weight" with ".alpha"), in which XL's U-Net may have the names of Stability AI's
code ("input_blocks"), and transformers those of their makers' ("double_blocks"), some of whose matrices are several
here. ComfyUI puts "diffusion_model." before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad, quant
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.checkpoint import Checkpoint
from pyapp.formats.safe_json import parse_json
from pyapp.nn import Conv2d, Linear, Module, Parameter

from .original_names import Original, is_swapped, original_layers
from .unet import UNetConfig

# The ends of names: of the matrix that shrinks (A, down), of the one that widens again (B, up), and of alpha.
END = re.compile(r"(\.lora_(?P<letter>[AB])(\.\w+)?|[._]lora(_linear_layer)?[._](?P<way>down|up))\.weight$")
ALPHA = ".alpha"
SETTINGS = "lora_adapter_metadata"  # peft's, in the file's metadata
SHOWN = 3  # names in an error


def add_lora(modules: Mapping[str, Module], checkpoint: Checkpoint, scale: float) -> int:
    """Adds what a file has learnt, `scale` times, to the weights of the parts ("unet", "text_encoder" …); returns how
    many matrices it changed. ModelError for tensors that belong to no matrix of the model, or do not fit it.
    """
    names = dict(known_names(modules))
    where, settings = checkpoint.source.name, _settings(checkpoint)
    found: dict[tuple[str, ...], dict[str, str]] = {}  # of each matrix, or several below one another, the file's names
    left = []
    for name in checkpoint.tensors:
        key, kind = _split(name)
        path = names.get(key)
        if path is None:
            left.append(name)
        else:
            found.setdefault(path, {})[kind] = name
    wrong = [paths[0] for paths, kinds in found.items() if not {"down", "up"} <= {*kinds}]
    if left or wrong or not found:
        told = ", ".join(name[:100] for name in (left or wrong)[:SHOWN]) or "it has no tensors"
        raise ModelError(
            f"no LoRA of this model: {told}", where=where,
            hint="Give a LoRA (no LoHa, LoKr or DoRA) that was made for this kind of model",
        )  # fmt: skip
    for paths, kinds in found.items():
        places = [path.partition(":")[::2] for path in paths]
        layers: list[Any] = [modules[part].get_submodule(inner) for part, inner in places]
        down, up = (quant.dequantize(checkpoint.read(kinds[kind])).to("float32") for kind in ("down", "up"))
        alpha = float(checkpoint.read(kinds["alpha"]).to("float32").item()) if "alpha" in kinds else None
        rank = down.shape[0] if down.ndim else 0
        alpha = settings(*places[0], rank) if alpha is None else alpha
        rows, fits = sum(layer.weight.shape[0] for layer in layers), rank and up.ndim >= 2 and up.shape[1] == rank
        count = up.shape[0] * (down.numel() // rank) if fits and up.numel() == up.shape[0] * rank else -1
        if count != sum(layer.weight.numel() for layer in layers) or up.shape[0] != rows:
            shape = [rows, *layers[0].weight.shape[1:]]
            raise ModelError(
                f"{kinds['down'][:100]} is {list(down.shape)} and {kinds['up'][:100]} {list(up.shape)}, "
                f"the matrix {shape}", where=where, hint="Give a LoRA that was made for this model",
            )  # fmt: skip
        first, up = 0, up.reshape(-1, rank)
        with no_grad():
            for layer in layers:
                count = layer.weight.shape[0]
                _add(layer, up.narrow(0, first, count) @ down.reshape(rank, -1) * (scale * alpha / rank))
                first += count
    return sum(map(len, found))


def _add(layer: Any, change: Tensor) -> None:
    """Adds to a layer's weight, which keeps its type."""
    weight = layer.weight
    whole = quant.dequantize(weight).to("float32")
    whole = whole + change.reshape(whole.shape).to(whole.device)
    if weight.dtype.is_quantized:
        whole = quant.quantize(whole, weight.dtype.name)
    layer.weight = Parameter(whole.to(weight.dtype), requires_grad=False)


def _split(name: str) -> tuple[str, str]:
    """The key of a matrix, and whether a tensor is its "down", "up" or "alpha"."""
    if name.endswith(ALPHA):
        key, kind = name.removesuffix(ALPHA), "alpha"
    else:
        match = END.search(name)
        if match is None:
            return "", ""
        key = name[: match.start()]
        kind = {"A": "down", "B": "up"}.get(match["letter"] or "", match["way"])
    return key.removeprefix("base_model.model.").removeprefix("diffusion_model.").replace(".processor.", "."), kind


def known_names(modules: Mapping[str, Module]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name in a file, part:path) of every matrix, under each of the names that files give it; of several that are one
    in files, one path after the other.
    """
    for part, module in modules.items():
        if isinstance(module, Original):
            for there, here in original_layers(module):
                if not is_swapped(module, here[0]):
                    paths = tuple(f"{part}:{path}" for path in here)
                    yield from ((there, paths), (f"lora_unet_{there.replace('.', '_')}", paths))
        for path, layer in module.named_modules():
            if not isinstance(layer, Linear | Conv2d):
                continue
            found = (f"{part}:{path}",)
            yield f"{part}.{path}", found
            if part == "transformer":
                yield path, found
                yield from ((f"{start}_{path.replace('.', '_')}", found) for start in ("lora_transformer", "lora_unet"))
                continue
            if part == "unet":
                short = path.replace(".to_out.0", ".to_out")
                yield from ((path, found), (short, found), (f"unet.{short}", found))
                yield f"lora_unet_{path.replace('.', '_')}", found
                if other := stability_name(path, module.config):
                    yield f"lora_unet_{other.replace('.', '_')}", found
                continue
            number = part.removeprefix("text_encoder").strip("_") or "1"
            for start in (f"lora_te{number}_", *(["lora_te_"] if number == "1" else [])):
                yield f"{start}{path.replace('.', '_')}", found
            for old in ("q", "k", "v", "out"):  # diffusers' older names
                if path.endswith(f"self_attn.{old}_proj"):
                    yield f"{part}.{path.removesuffix(f'{old}_proj')}to_{old}", found
            yield f"{part}.{path.removeprefix('text_model.')}", found


INNER = {
    "conv1": "in_layers.2", "conv2": "out_layers.3", "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}  # fmt: skip
OUTER = {
    "conv_in": "input_blocks.0.0", "conv_out": "out.2", "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2", "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
}  # fmt: skip
MIDDLE = {"resnets.0": 0, "attentions.0": 1, "resnets.1": 2}


def stability_name(path: str, config: UNetConfig) -> str | None:
    """What Stability AI's code calls a layer of the U-Net; None where it has no name for it."""
    if path in OUTER:
        return OUTER[path]
    place, _, rest = path.partition(".")
    if place == "mid_block":
        kind, number, inner = rest.split(".", 2)
        start = f"middle_block.{MIDDLE[f'{kind}.{number}']}"
        return f"{start}.{INNER.get(inner, inner)}"
    if place not in ("down_blocks", "up_blocks"):
        return None
    level, kind, number, inner = rest.split(".", 3)
    i, j, up = int(level), int(number), place == "up_blocks"
    counts = [count + up for count in config.layers_per_block]
    before = sum(counts[::-1][:i]) if up else 1 + sum(counts[:i]) + i
    block = "output_blocks" if up else "input_blocks"
    if kind == "downsamplers":
        return f"{block}.{before + counts[i]}.0.op"
    if kind == "upsamplers":
        reads = "Attn" in config.up_block_types[i]
        return f"{block}.{before + counts[::-1][i] - 1}.{1 + reads}.conv"
    return f"{block}.{before + j}.{int(kind == 'attentions')}.{INNER.get(inner, inner)}"


def _settings(checkpoint: Checkpoint) -> Any:
    """A function of a part, a path and a rank that gives alpha: that of the file's metadata, or the rank."""
    text = getattr(checkpoint, "metadata", {}).get(SETTINGS)
    try:
        values = parse_json(text) if text else {}
    except ValueError as error:
        raise FileFormatError(f"{SETTINGS}: {error}", where=checkpoint.source.name) from None
    values = values if isinstance(values, dict) else {}

    def alpha(part: str, path: str, rank: int) -> float:
        patterns = values.get(f"{part}.alpha_pattern")
        found = values.get(f"{part}.lora_alpha", rank)
        if isinstance(patterns, dict):
            found = next((value for end, value in patterns.items() if f".{path}".endswith(f".{end}")), found)
        return float(found) if type(found) in (int, float) else float(rank)

    return alpha


def as_pairs(given: Any) -> list[tuple[Any, float]]:
    """(file, scale) of each LoRA: given as one of them, or several; a path alone has the scale 1."""
    if given is None:
        return []
    several: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    return [(entry[0], float(entry[1])) if isinstance(entry, list | tuple) else (entry, 1.0) for entry in several]
