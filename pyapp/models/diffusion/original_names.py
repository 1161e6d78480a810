"""The names of tensors in the code of FLUX's, Stable Diffusion 3's and Z-Image's makers, which GGUF files (of
ComfyUI-GGUF's converter), single safetensors files and kohya's LoRA files have. Some matrices there are several of
diffusers', one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from pyapp.engine import Tensor, ops, quant
from pyapp.formats.checkpoint import Checkpoint

from ..loading.config import require
from ..loading.stored import Stored
from .flux import Flux
from .flux2 import Flux2
from .joint import LastNorm
from .mmdit import MMDiT
from .qwen_image import QwenImage
from .zimage import SIZES, ZImage

Original: TypeAlias = Flux | Flux2 | MMDiT | QwenImage | ZImage
Names: TypeAlias = Iterator[tuple[str, tuple[str, ...]]]
ARCHITECTURES: Mapping[type, str] = {
    Flux: "flux", Flux2: "flux", MMDiT: "sd3", QwenImage: "qwen_image", ZImage: "lumina2",
}  # in GGUF files  # fmt: skip
PREFIX = "model.diffusion_model."  # before the names in files of whole models
TO_QKV, ADD_QKV = ("to_q", "to_k", "to_v"), ("add_q_proj", "add_k_proj", "add_v_proj")


def original_layers(model: Original) -> Names:
    """(name there, the names here) of each linear layer."""
    if isinstance(model, ZImage):
        return _of_zimage(model)
    if isinstance(model, Flux2):
        return _of_flux2(model)
    if isinstance(model, QwenImage):  # whose makers' names are diffusers'
        return iter(())
    return _of_flux(model) if isinstance(model, Flux) else _of_mmdit(model)


def _of_flux(model: Flux) -> Names:
    yield from (("img_in", ("x_embedder",)), ("txt_in", ("context_embedder",)), ("final_layer.linear", ("proj_out",)))
    yield "final_layer.adaLN_modulation.1", ("norm_out.linear",)
    embedders = [("time_in", "timestep"), ("vector_in", "text"), ("guidance_in", "guidance")]
    for there, here in embedders[: 2 + model.learnt_guidance]:
        for i, layer in enumerate(("in_layer", "out_layer")):
            yield f"{there}.{layer}", (f"time_text_embed.{here}_embedder.linear_{i + 1}",)
    for i in range(len(model.transformer_blocks)):
        there, here = f"double_blocks.{i}", f"transformer_blocks.{i}"
        for stream, end, qkv, out in (("img", "", TO_QKV, "to_out.0"), ("txt", "_context", ADD_QKV, "to_add_out")):
            yield f"{there}.{stream}_mod.lin", (f"{here}.norm1{end}.linear",)
            yield f"{there}.{stream}_attn.qkv", tuple(f"{here}.attn.{name}" for name in qkv)
            yield f"{there}.{stream}_attn.proj", (f"{here}.attn.{out}",)
            yield f"{there}.{stream}_mlp.0", (f"{here}.ff{end}.net.0.proj",)
            yield f"{there}.{stream}_mlp.2", (f"{here}.ff{end}.net.2",)
    for i in range(len(model.single_transformer_blocks)):
        there, here = f"single_blocks.{i}", f"single_transformer_blocks.{i}"
        yield f"{there}.modulation.lin", (f"{here}.norm.linear",)
        yield f"{there}.linear1", (*(f"{here}.attn.{name}" for name in TO_QKV), f"{here}.proj_mlp")
        yield f"{there}.linear2", (f"{here}.proj_out",)


def _of_flux2(model: Flux2) -> Names:
    yield from (("img_in", ("x_embedder",)), ("txt_in", ("context_embedder",)), ("final_layer.linear", ("proj_out",)))
    yield "final_layer.adaLN_modulation.1", ("norm_out.linear",)
    for kind in ("double_stream_modulation_img", "double_stream_modulation_txt", "single_stream_modulation"):
        yield f"{kind}.lin", (f"{kind}.linear",)
    for there, here in (("time_in", "timestep"), ("guidance_in", "guidance"))[: 1 + model.learnt_guidance]:
        for i, layer in enumerate(("in_layer", "out_layer")):
            yield f"{there}.{layer}", (f"time_guidance_embed.{here}_embedder.linear_{i + 1}",)
    for i in range(len(model.transformer_blocks)):
        there, here = f"double_blocks.{i}", f"transformer_blocks.{i}"
        for stream, end, qkv, out in (("img", "", TO_QKV, "to_out.0"), ("txt", "_context", ADD_QKV, "to_add_out")):
            yield f"{there}.{stream}_attn.qkv", tuple(f"{here}.attn.{name}" for name in qkv)
            yield f"{there}.{stream}_attn.proj", (f"{here}.attn.{out}",)
            yield f"{there}.{stream}_mlp.0", (f"{here}.ff{end}.linear_in",)
            yield f"{there}.{stream}_mlp.2", (f"{here}.ff{end}.linear_out",)
    for i in range(len(model.single_transformer_blocks)):
        there, here = f"single_blocks.{i}", f"single_transformer_blocks.{i}.attn"
        yield from ((f"{there}.linear1", (f"{here}.to_qkv_mlp_proj",)), (f"{there}.linear2", (f"{here}.to_out",)))


def _of_mmdit(model: MMDiT) -> Names:
    yield from (("context_embedder", ("context_embedder",)), ("final_layer.linear", ("proj_out",)))
    yield "final_layer.adaLN_modulation.1", ("norm_out.linear",)
    for there, here in (("t_embedder", "timestep"), ("y_embedder", "text")):
        for i in range(2):
            yield f"{there}.mlp.{2 * i}", (f"time_text_embed.{here}_embedder.linear_{i + 1}",)
    for i, block in enumerate(model.transformer_blocks):
        there, here = f"joint_blocks.{i}", f"transformer_blocks.{i}"
        for stream, end, qkv, out in (("x", "", TO_QKV, "to_out.0"), ("context", "_context", ADD_QKV, "to_add_out")):
            yield f"{there}.{stream}_block.adaLN_modulation.1", (f"{here}.norm1{end}.linear",)
            yield f"{there}.{stream}_block.attn.qkv", tuple(f"{here}.attn.{name}" for name in qkv)
            if stream == "x" or not block.last:
                yield f"{there}.{stream}_block.attn.proj", (f"{here}.attn.{out}",)
                yield f"{there}.{stream}_block.mlp.fc1", (f"{here}.ff{end}.net.0.proj",)
                yield f"{there}.{stream}_block.mlp.fc2", (f"{here}.ff{end}.net.2",)
        if block.attn2 is not None:
            yield f"{there}.x_block.attn2.qkv", tuple(f"{here}.attn2.{name}" for name in TO_QKV)
            yield f"{there}.x_block.attn2.proj", (f"{here}.attn2.to_out.0",)


def _of_zimage(model: ZImage) -> Names:
    yield "x_embedder", (f"all_x_embedder.{SIZES}",)
    for name in ("linear", "adaLN_modulation.1"):
        yield f"final_layer.{name}", (f"all_final_layer.{SIZES}.{name}",)
    yield from ((name, (name,)) for name in ("t_embedder.mlp.0", "t_embedder.mlp.2", "cap_embedder.1"))
    for block in _blocks(model):
        yield f"{block}.attention.qkv", tuple(f"{block}.attention.{name}" for name in TO_QKV)
        yield f"{block}.attention.out", (f"{block}.attention.to_out.0",)
        yield from ((name, (name,)) for name in (f"{block}.feed_forward.w{i}" for i in (1, 2, 3)))
        if not block.startswith("context"):
            yield f"{block}.adaLN_modulation.0", (f"{block}.adaLN_modulation.0",)


def _blocks(model: ZImage) -> Iterator[str]:
    """The paths of all blocks."""
    for name in ("noise_refiner", "context_refiner", "layers"):
        yield from (f"{name}.{i}" for i in range(len(model.get_submodule(name))))


def original_others(model: Original) -> Iterator[tuple[str, str]]:
    """(name there, name here) of the parameters that are not those of linear layers and have other names there."""
    if isinstance(model, ZImage):
        for block in _blocks(model) if model.config.qk_norm else ():
            for kind in "qk":
                yield f"{block}.attention.{kind}_norm.weight", f"{block}.attention.norm_{kind}.weight"
        return
    if isinstance(model, QwenImage):
        return
    if isinstance(model, Flux | Flux2):
        for kind, long in (("q", "query"), ("k", "key")):
            for i in range(len(model.transformer_blocks)):
                there, here = f"double_blocks.{i}", f"transformer_blocks.{i}.attn"
                for stream, own in (("img", f"norm_{kind}"), ("txt", f"norm_added_{kind}")):
                    yield f"{there}.{stream}_attn.norm.{long}_norm.scale", f"{here}.{own}.weight"
            for i in range(len(model.single_transformer_blocks)):
                there, here = f"single_blocks.{i}", f"single_transformer_blocks.{i}.attn"
                yield f"{there}.norm.{long}_norm.scale", f"{here}.norm_{kind}.weight"
        return
    yield "pos_embed", "pos_embed.pos_embed"
    for end in ("weight", "bias"):
        yield f"x_embedder.proj.{end}", f"pos_embed.proj.{end}"
    for i, joint in enumerate(model.transformer_blocks if model.config.qk_norm else ()):
        there, here = f"joint_blocks.{i}", f"transformer_blocks.{i}"
        for kind in "qk":
            yield f"{there}.x_block.attn.ln_{kind}.weight", f"{here}.attn.norm_{kind}.weight"
            yield f"{there}.context_block.attn.ln_{kind}.weight", f"{here}.attn.norm_added_{kind}.weight"
            if joint.attn2 is not None:
                yield f"{there}.x_block.attn2.ln_{kind}.weight", f"{here}.attn2.norm_{kind}.weight"


def is_swapped(model: Original, here: str) -> bool:
    """Whether a layer makes a scale and a shift here, and a shift and a scale there."""
    return isinstance(model.get_submodule(here.rpartition(".")[0]), LastNorm)


def _stored(model: Original) -> dict[str, Stored]:
    """How a file with these names stores each parameter."""
    found = {here: Stored((there,)) for there, here in original_others(model)}
    for there, names in original_layers(model):
        first = 0
        for here in names:
            layer: Any = model.get_submodule(here)
            change: Callable[[Tensor], Tensor] | None = None
            if len(names) > 1:
                change = partial(quant.copied_rows, first=first, count=layer.out_features)
            elif is_swapped(model, here):
                change = halves_swapped
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


def stored_as(model: Original, checkpoint: Checkpoint) -> Mapping[str, Stored]:
    """How a file stores the parameters; empty where it has diffusers' names. ModelError for a GGUF file of another
    architecture.
    """
    wanted = next(name for kind, name in ARCHITECTURES.items() if isinstance(model, kind))
    kind = getattr(checkpoint, "values", {}).get("general.architecture", wanted)
    require(kind == wanted, f"the file's architecture is {kind!r:.60}, not {wanted}")
    original = any(plain_name(name).startswith("final_layer.") for name in checkpoint.tensors)
    return _stored(model) if original else {}


def said_by(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the names of a file say of its network: whether it reads the guidance."""
    starts = ("guidance_in.", "time_text_embed.guidance_embedder.")
    return {"guidance_embeds": any(plain_name(name).startswith(starts) for name in checkpoint.tensors)}
