"""The names of FLUX.1's tensors in Black Forest Labs' code, which GGUF files (ComfyUI-GGUF's converter), single
safetensors files and kohya's LoRA files have. Some of its matrices are several of diffusers', one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyapp.engine import Tensor, ops, quant
from pyapp.formats.checkpoint import Checkpoint

from ..loading.config import require
from ..loading.weights import Stored
from .flux import Flux

PREFIX = "model.diffusion_model."  # before the names in files of whole models
ARCHITECTURE = "flux"  # general.architecture of GGUF files
SWAPPED = "norm_out.linear"  # whose first half is the scale here, and the shift there


def original_names(model: Flux) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name there, the names here) of each linear layer."""
    yield from (("img_in", ("x_embedder",)), ("txt_in", ("context_embedder",)), ("final_layer.linear", ("proj_out",)))
    yield "final_layer.adaLN_modulation.1", (SWAPPED,)
    embedders = [("time_in", "timestep"), ("vector_in", "text"), ("guidance_in", "guidance")]
    for there, here in embedders[: 2 + model.learnt_guidance]:
        for i, layer in enumerate(("in_layer", "out_layer")):
            yield f"{there}.{layer}", (f"time_text_embed.{here}_embedder.linear_{i + 1}",)
    for i in range(len(model.transformer_blocks)):
        there, here = f"double_blocks.{i}", f"transformer_blocks.{i}"
        for stream, end in (("img", ""), ("txt", "_context")):
            qkv = ("to_q", "to_k", "to_v") if stream == "img" else ("add_q_proj", "add_k_proj", "add_v_proj")
            yield f"{there}.{stream}_mod.lin", (f"{here}.norm1{end}.linear",)
            yield f"{there}.{stream}_attn.qkv", tuple(f"{here}.attn.{name}" for name in qkv)
            yield f"{there}.{stream}_attn.proj", (f"{here}.attn.{'to_out.0' if stream == 'img' else 'to_add_out'}",)
            yield f"{there}.{stream}_mlp.0", (f"{here}.ff{end}.net.0.proj",)
            yield f"{there}.{stream}_mlp.2", (f"{here}.ff{end}.net.2",)
    for i in range(len(model.single_transformer_blocks)):
        there, here = f"single_blocks.{i}", f"single_transformer_blocks.{i}"
        yield f"{there}.modulation.lin", (f"{here}.norm.linear",)
        yield f"{there}.linear1", (*(f"{here}.attn.to_{name}" for name in "qkv"), f"{here}.proj_mlp")
        yield f"{there}.linear2", (f"{here}.proj_out",)


def original_norms(model: Flux) -> Iterator[tuple[str, str]]:
    """(name there, name here) of the norms of queries and keys."""
    for kind, long in (("q", "query"), ("k", "key")):
        for i in range(len(model.transformer_blocks)):
            for stream, own in (("img", f"norm_{kind}"), ("txt", f"norm_added_{kind}")):
                yield f"double_blocks.{i}.{stream}_attn.norm.{long}_norm.scale", f"transformer_blocks.{i}.attn.{own}"
        for i in range(len(model.single_transformer_blocks)):
            there, here = f"single_blocks.{i}.norm.{long}_norm.scale", f"single_transformer_blocks.{i}.attn"
            yield there, f"{here}.norm_{kind}"


def stored_originally(model: Flux) -> dict[str, Stored]:
    """How a file with Black Forest Labs' names stores each parameter."""
    found = {f"{here}.weight": Stored((there,)) for there, here in original_norms(model)}
    for there, names in original_names(model):
        first = 0
        for here in names:
            layer: Any = model.get_submodule(here)
            change: Callable[[Tensor], Tensor] | None = None
            if here == SWAPPED:
                change = halves_swapped
            elif len(names) > 1:
                change = partial(quant.copied_rows, first=first, count=layer.out_features)
            first += layer.out_features
            for end in ("weight", "bias"):
                found[f"{here}.{end}"] = Stored((f"{there}.{end}",), values=change)
    return found


def halves_swapped(value: Tensor) -> Tensor:
    """The rows of the second half, then those of the first."""
    half = value.shape[0] // 2
    parts = [quant.copied_rows(value, half, half), quant.copied_rows(value, 0, half)]
    return quant.concatenate(parts) if value.ndim == 2 else ops.cat(parts)


def plain_name(name: str) -> str:
    """A name without what files of whole models put before it."""
    return name.removeprefix(PREFIX)


def stored_as(model: Flux, checkpoint: Checkpoint) -> Mapping[str, Stored]:
    """How a file stores the parameters; empty where it has diffusers' names. ModelError for a GGUF file of another
    architecture.
    """
    kind = getattr(checkpoint, "values", {}).get("general.architecture", ARCHITECTURE)
    require(kind == ARCHITECTURE, f"the file's architecture is {kind!r:.60}, not {ARCHITECTURE}")
    original = any(plain_name(name).startswith(("double_blocks.", "single_blocks.")) for name in checkpoint.tensors)
    return stored_originally(model) if original else {}


def reads_guidance(checkpoint: Checkpoint) -> bool:
    """Whether a file's network reads the guidance."""
    starts = ("guidance_in.", "time_text_embed.guidance_embedder.")
    return any(plain_name(name).startswith(starts) for name in checkpoint.tensors)
