"""Language models that see pictures in llama.cpp's two GGUF files: one has the language model, the other ("mmproj", the
architecture "clip") the tower that sees, and the projector to the vectors of the text.

Sources: Keys.ClipVision, VisionProjectorType and MODEL_ARCH.MMPROJ in gguf-py/gguf/constants.py and tensor_mapping.py
of https://github.com/ggml-org/llama.cpp, and tools/mtmd/clip.cpp for what files do not say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.errors import ModelError, OptionError
from pyapp.events import Notice
from pyapp.formats import Checkpoint, open_checkpoint
from pyapp.formats.mixtures import MIXTURES
from pyapp.nn import LayerNorm, Module
from pyapp.nn.parameter import skip_initialization
from pyapp.vision.processors import ImageProcessor

from .architectures import architecture, seeing_architecture
from .config import DEEPEST
from .gguf import Gguf, GgufForm, neighbouring_pairs
from .image_processors import usual_processor
from .picture_text import TASK
from .reading_gguf import stored_in
from .slots import slots
from .stored import IGNORED, Stored
from .weights import load_weights

ARCHITECTURE = "clip"
LAYER, BLOCK = "vision_tower.encoder.layers.{}.", "v.blk.{}."
# The Vision Transformers of CLIP and SigLIP.
TOWER = {
    "vision_tower.embeddings.class_embedding": "v.class_embd",
    "vision_tower.embeddings.patch_embedding": "v.patch_embd",
    "vision_tower.embeddings.position_embedding": "v.position_embd",
    "vision_tower.pre_layrnorm": "v.pre_ln", "vision_tower.post_layernorm": "v.post_ln",
    **{f"{LAYER}self_attn.{name}_proj": f"{BLOCK}attn_{name}" for name in ("q", "k", "v", "out")},
    **{f"{LAYER}layer_norm{number}": f"{BLOCK}ln{number}" for number in (1, 2)},
    f"{LAYER}mlp.fc1": f"{BLOCK}ffn_up", f"{LAYER}mlp.fc2": f"{BLOCK}ffn_down",
}  # fmt: skip
CLASS_TOKEN = {".class_embedding": GgufForm(bare=True)}
# The one of Qwen2-VL, and of Qwen2.5-VL, whose feed-forward parts are gated.
QWEN_TOWER = {
    "vision_tower.blocks.{}.norm1": f"{BLOCK}ln1", "vision_tower.blocks.{}.norm2": f"{BLOCK}ln2",
    "vision_tower.blocks.{}.attn.qkv": f"{BLOCK}attn_q {BLOCK}attn_k {BLOCK}attn_v",
    "vision_tower.blocks.{}.attn.proj": f"{BLOCK}attn_out",
    "vision_tower.blocks.{}.mlp.fc1": f"{BLOCK}ffn_up", "vision_tower.blocks.{}.mlp.fc2": f"{BLOCK}ffn_down",
    "vision_tower.blocks.{}.mlp.gate_proj": f"{BLOCK}ffn_gate", "vision_tower.blocks.{}.mlp.up_proj": f"{BLOCK}ffn_up",
    "vision_tower.blocks.{}.mlp.down_proj": f"{BLOCK}ffn_down",
    "vision_tower.merger.ln_q": "v.post_ln", "vision_tower.merger.mlp.{}": "mm.{}",
}  # fmt: skip
FRAMES = 2  # of a patch of Qwen2-VL; files have a tensor for each
EPSILON = 1e-6  # of the norms of Qwen2-VL's tower
WINDOW = 112  # pixels of a window of Qwen2.5-VL's tower, where the file does not say it
UNUSED_TOKEN = re.compile(r"<unused\d+>|\[PAD\d+\]|<\|reserved_special_token_\d+\|>")
CONTROL, UNUSED = 3, 5  # types of tokens in GGUF files
PREFIX = "tokenizer.ggml."
TOWER_TYPE = "q8_0"  # of the tower's matrices, where those of the language model are a mixture
AGAIN = "Take the file again"


@dataclass(frozen=True)
class Kind:
    """A type of projector: the model_type of the whole, the names of its tensors and the fields of its config.json.

    fields(file): (vision_config, the fields of the whole); processor(file): the preprocessor_config.json. offset, order
    and forms are those of Gguf.
    """

    model_type: str
    names: Mapping[str, str]
    fields: Callable[[ProjectorFile], tuple[dict[str, Any], dict[str, Any]]]
    processor: Callable[[ProjectorFile], dict[str, Any]]
    offset: str | None = None
    last: str = "mm.2.weight"  # the matrix that makes vectors of the text's width, and which of its sides is that
    axis: int = 0
    order: Callable[[str, Any], list[int] | None] | None = None
    more: Callable[[Any], dict[str, str]] = lambda config: {}  # further names, whole, by the configuration
    ignored: re.Pattern[str] = IGNORED  # what files have beside the parameters
    forms: Mapping[str, GgufForm] = field(default_factory=lambda: CLASS_TOKEN)


# What sees with the tower of Qwen3-VL before other language models than Qwen3.
QWEN3 = {"qwen3_moe": "qwen3_vl_moe", "qwen3_5_text": "qwen3_5", "qwen3_5_moe_text": "qwen3_5_moe"}


class ProjectorFile:
    """An "mmproj" file, with the language model's file that belongs to it. ModelError for a file of another kind, and
    for one whose vectors have another width than the text's.
    """

    def __init__(self, source: Any, text: Checkpoint, settings: Mapping[str, Any]) -> None:
        self.checkpoint = open_checkpoint(source)
        try:
            self._text = text
            self.values: Mapping[str, Any] = getattr(self.checkpoint, "values", {})
            self.where = self.checkpoint.source.name
            self.kind = self._kind(settings)
            vision, fields = self.kind.fields(self)
            module = seeing_architecture(self.kind.model_type)
            seeing = module.TASKS[TASK]
            token = self._place_tokens(seeing.part, seeing.placeholder)
            self.settings = {
                "model_type": self.kind.model_type, "text_config": dict(settings), "vision_config": vision,
                "image_token_id": token, "image_token_index": token, **fields,
            }  # fmt: skip
            self._check_width()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file."""
        self.checkpoint.close()

    def _kind(self, settings: Mapping[str, Any]) -> Kind:
        architecture = self.values.get("general.architecture")
        if architecture != ARCHITECTURE:
            found = "no GGUF file" if architecture is None else f"a GGUF file of the architecture {architecture!r:.50}"
            raise ModelError(
                f"this is {found}, not a vision projector ({ARCHITECTURE!r})", where=self.where,
                hint="Give the mmproj-….gguf that belongs to the model",
            )  # fmt: skip
        found = self.values.get("clip.projector_type", self.values.get("clip.vision.projector_type", "mlp"))
        if self.values.get("clip.has_vision_encoder") is False or found not in KINDS:
            raise ModelError(
                f"its projector {found!r:.50} is not known", where=self.where, hint=f"Known: {', '.join(KINDS)}"
            )
        if found == "gemma3" and settings.get("model_type") != "gemma3_text":
            raise ModelError(
                f"it belongs to Gemma 3, not to {settings.get('model_type')!r:.50}", where=self.where,
                hint="Give the mmproj-….gguf that belongs to the model",
            )  # fmt: skip
        kind = KINDS[found]
        own = QWEN3.get(str(settings.get("model_type"))) if found == "qwen3vl_merger" else None
        return kind if own is None else replace(kind, model_type=own)

    def _check_width(self) -> None:
        """ModelError unless the projector makes vectors of the text's width."""
        made, width = self.shape(self.kind.last)[self.kind.axis], self.settings["text_config"].get("hidden_size")
        if made != width:
            raise ModelError(
                f"it makes vectors of {made:,} numbers, the language model has {width}", where=self.where,
                hint="Give the mmproj-….gguf that belongs to the model",
            )  # fmt: skip

    def number(self, key: str, usual: Any = None) -> Any:
        """A number of the file. ModelError where it is neither there nor usual, and for anything else."""
        found = self.values.get(f"clip.{key}", usual)
        if type(found) not in (int, float):
            raise ModelError(f"clip.{key} is {found!r:.40}, expected a number", where=self.where, hint=AGAIN)
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. ModelError where it is missing, or no matrix."""
        info = self.checkpoint.tensors.get(name)
        if info is None or len(info.shape) < 2:
            raise ModelError(f"the tensor {name!r} is missing, or no matrix", where=self.where, hint=AGAIN)
        return tuple(info.shape)

    @property
    def swapped(self) -> bool:
        """Whether the two layers of feed-forward parts have each other's names, as older converters wrote them."""
        width = self.number("vision.embedding_length")
        first, second = (self.shape(f"v.blk.0.ffn_{name}.weight") for name in ("up", "down"))
        gated = "v.blk.0.ffn_gate.weight" in self.checkpoint.tensors
        return not gated and first[0] == second[1] == width != first[1]

    @property
    def inner(self) -> int:
        """The columns within a feed-forward part; what some files say of them is wrong."""
        return self.shape(f"v.blk.0.ffn_{'down' if self.swapped else 'up'}.weight")[0]

    def activation(self, usual: str, gelu: str = "gelu_pytorch_tanh") -> str:
        """The activation of the tower, of which files say whether it is gelu or silu."""
        flags = {"clip.use_gelu": gelu, "clip.use_silu": "silu"}
        return next((name for key, name in flags.items() if self.values.get(key) is True), usual)

    def _place_tokens(self, part: str, placeholder: str) -> int:
        """The number of the token of a picture's vectors. Models never write it: where the vocabulary lacks it, it
        takes the place of an unused one.
        """
        values: dict[str, Any] = getattr(self._text, "values", {})
        tokens = values.get(f"{PREFIX}tokens")
        if not isinstance(tokens, list):
            raise ModelError(
                "pictures need a language model in a GGUF file with its tokenizer", where=self._text.source.name
            )
        for name in {part, placeholder} - set(tokens):
            place = self._unused(values, tokens)
            tokens[place] = name
            types = values.get(f"{PREFIX}token_type")
            if isinstance(types, list) and place < len(types) and place != values.get(f"{PREFIX}unknown_token_id"):
                types[place] = CONTROL
        return tokens.index(part)

    def _unused(self, values: Mapping[str, Any], tokens: list[Any]) -> int:
        types = values.get(f"{PREFIX}token_type")
        types = types if isinstance(types, list) and len(types) == len(tokens) else [0] * len(tokens)
        for place in range(len(tokens) - 1, -1, -1):
            if types[place] == UNUSED or UNUSED_TOKEN.fullmatch(str(tokens[place])):
                return place
        unknown = values.get(f"{PREFIX}unknown_token_id", 0 if values.get(f"{PREFIX}model") == "llama" else None)
        if type(unknown) is int and 0 <= unknown < len(tokens):
            return unknown  # vocabularies with a token for each byte write none
        raise ModelError(
            "the vocabulary has neither the token of pictures nor an unused one", where=self._text.source.name,
            hint="Give the file of a model that was trained with pictures",
        )  # fmt: skip

    def processor(self) -> ImageProcessor:
        """What prepares pictures, by what the file says of it."""
        more = {name: self.values.get(f"clip.vision.{name}") for name in ("image_mean", "image_std")}
        if None in more.values():
            raise ModelError("it does not say image_mean and image_std", where=self.where, hint=AGAIN)
        return ImageProcessor.from_settings(more | self.kind.processor(self), usual_processor(self.kind.model_type))

    def read_model(
        self, module: Any, kind: Any, checkpoint: Checkpoint, settings: Mapping[str, Any], dtype: str | None,
        device: Device | str | None, progress: Callable[[int, int], None], group: None = None,
    ) -> Any:  # fmt: skip
        """As models.load.read_model, with the weights of both files."""
        config = module.Config.from_dict(settings)
        with skip_initialization():
            model = kind(config)
        sizes = [sum(info.nbytes for info in own.tensors.values()) for own in (checkpoint, self.checkpoint)]
        language, seeing = model.language_model, _seeing(model)
        text = architecture(config.text_config.to_dict()["model_type"]).GGUF
        load_weights(
            language, checkpoint, base=language.base_model_prefix, dtype=dtype, device=device,
            stored=stored_in(text, config.text_config, dict(slots(language)), checkpoint.tensors),
            config=config.text_config.to_dict(), progress=lambda done, _: progress(done, sum(sizes)),
        )  # fmt: skip
        names = dict(self.kind.names)
        if self.swapped:
            up, down = f"{BLOCK}ffn_up", f"{BLOCK}ffn_down"
            names = {own: {up: down, down: up}.get(theirs, theirs) for own, theirs in names.items()}
        kind_of = self.kind
        form = Gguf(ARCHITECTURE, names=names, offset=kind_of.offset, order=kind_of.order, forms=kind_of.forms)
        stored = stored_in(form, config, dict(slots(seeing)), self.checkpoint.tensors)
        stored |= {name: Stored((tensor,)) for name, tensor in kind_of.more(config).items()}
        load_weights(
            seeing, self.checkpoint, stored=stored, ignored=kind_of.ignored,
            dtype=TOWER_TYPE if dtype in MIXTURES else dtype, device=device,
            progress=lambda done, _: progress(sizes[0] + done, sum(sizes)),
        )  # fmt: skip
        return model.eval()


def _seeing(model: Any) -> Module:
    """The tower and the projector of a model, by their names; of LLaVA's tower without the last norm, which it does not
    use and files do not have.
    """
    found = Module()
    if model.config.model_type == "llava":
        own, tower = model.vision_tower, Module()
        for name, part in own._modules.items():
            if part is not None and name != "post_layernorm":
                tower.add_module(name, part)
        own.post_layernorm = LayerNorm(own.config.hidden_size, own.config.layer_norm_eps).requires_grad_(False)
        found.vision_tower = tower
    else:
        found.vision_tower = model.vision_tower
    found.multi_modal_projector = getattr(model, "multi_modal_projector", None)
    return found


def find_projector(
    projector: Any, beside: Any, text: Checkpoint, settings: Mapping[str, Any], report: Callable[[Any], None]
) -> ProjectorFile | None:
    """The vision projector of a language model: `projector`, which was given, or `beside`, which lies beside it.
    Where the latter does not fit it is another model's: None, and a Notice says so. ModelError and OptionError for one
    that was given.
    """
    if projector is not None:
        if getattr(text, "values", {}).get("general.architecture", "pyapp") == "pyapp":
            raise OptionError(
                "belongs to a language model in a GGUF file of llama.cpp's", where="projector", hint="Leave it out"
            )
        return ProjectorFile(projector, text, settings)
    try:
        return ProjectorFile(beside, text, settings) if "general.architecture" in getattr(text, "values", {}) else None
    except ModelError as error:
        what = f"it is not used, and the model sees no pictures: {error.what}"
        report(Notice(what, where=str(beside), hint=error.hint))
        return None


# -- the types of projectors


def _transformer(file: ProjectorFile, model_type: str, gelu: str = "gelu_pytorch_tanh") -> dict[str, Any]:
    """The vision_config of CLIP and SigLIP."""
    keys = {
        "hidden_size": "embedding_length", "num_hidden_layers": "block_count", "image_size": "image_size",
        "num_attention_heads": "attention.head_count", "patch_size": "patch_size",
        "layer_norm_eps": "attention.layer_norm_epsilon",
    }  # fmt: skip
    found = {name: file.number(f"vision.{key}") for name, key in keys.items()}
    return found | {
        "model_type": model_type, "intermediate_size": file.inner, "hidden_act": file.activation("quick_gelu", gelu),
        "vision_use_head": False,
    }  # fmt: skip


def _llava(file: ProjectorFile) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors = file.checkpoint.tensors
    if "v.post_ln.weight" in tensors:
        raise ModelError(
            "this form of LLaVA is not known: its tower has a norm after its layers", where=file.where
        )  # fmt: skip
    clip = "v.class_embd" in tensors
    vision = _transformer(file, *(("clip_vision_model", "gelu") if clip else ("siglip_vision_model",)))
    layers = file.values.get("clip.vision.feature_layer")
    # Files without the key leave out the layers after those that are read.
    chosen = list(layers) if isinstance(layers, list) and layers else [vision["num_hidden_layers"]]
    return vision, {
        "vision_feature_layer": chosen, "vision_feature_select_strategy": "default" if clip else "full",
    }  # fmt: skip


def _square(file: ProjectorFile) -> dict[str, int]:
    return dict.fromkeys(("height", "width"), file.number("vision.image_size"))


def _llava_processor(file: ProjectorFile) -> dict[str, Any]:
    """As LLaVA 1.5 was trained: the whole picture in a square of its mean colour."""
    side = file.number("vision.image_size")
    return {
        "image_processor_type": "LlavaImageProcessor", "size": {"shortest_edge": side}, "crop_size": _square(file),
        "do_pad": True,
    }  # fmt: skip


def _idefics3(file: ProjectorFile) -> tuple[dict[str, Any], dict[str, Any]]:
    return _transformer(file, "idefics3_vision"), {"scale_factor": file.number("vision.projector.scale_factor", 2)}


def _idefics3_processor(file: ProjectorFile) -> dict[str, Any]:
    side = file.number("vision.image_size")
    return {
        "image_processor_type": "Idefics3ImageProcessor", "max_image_size": {"longest_edge": side},
        "size": {"longest_edge": file.number("vision.preproc_image_size", 4 * side)},
    }  # fmt: skip


def _gemma3(file: ProjectorFile) -> tuple[dict[str, Any], dict[str, Any]]:
    vision = _transformer(file, "siglip_vision_model")
    patch, scale = vision["patch_size"], file.number("vision.projector.scale_factor", 4)
    side = vision["image_size"] // patch if type(patch) is int and patch > 0 else 0
    side = side // scale if type(scale) is int and scale > 0 else 0
    return vision, {"mm_tokens_per_image": side**2}


def _gemma3_processor(file: ProjectorFile) -> dict[str, Any]:
    return {"image_processor_type": "Gemma3ImageProcessor", "size": _square(file)}


def _qwen(file: ProjectorFile, gated: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    depth, width = file.number("vision.block_count"), file.number("vision.embedding_length")
    epsilon = file.number("vision.attention.layer_norm_epsilon", EPSILON)
    if abs(epsilon - EPSILON) > 1e-9:
        raise ModelError(f"the norms' epsilon is {epsilon!r:.30}, expected {EPSILON}", where=file.where)
    if type(depth) is not int or not 1 <= depth <= DEEPEST:
        raise ModelError(f"it has {depth!r:.30} layers, expected 1 to {DEEPEST:,}", where=file.where, hint=AGAIN)
    out = file.shape("mm.2.weight")[0]
    found = {
        "model_type": "qwen2_5_vl" if gated else "qwen2_vl", "depth": depth,
        "patch_size": file.number("vision.patch_size"), "num_heads": file.number("vision.attention.head_count"),
        "temporal_patch_size": FRAMES,
        "spatial_merge_size": file.number("vision.spatial_merge_size", 2),
    }  # fmt: skip
    if not gated:
        ratio = (file.inner + 0.5) / max(width, 1)  # rounded down to `inner` again
        act = file.activation("quick_gelu")
        return found | {"embed_dim": width, "hidden_size": out, "mlp_ratio": ratio, "hidden_act": act}, {}
    every = file.number("vision.n_wa_pattern")
    whole = [i for i in range(depth) if (i + 1) % every == 0] if type(every) is int and every > 0 else []
    return found | {
        "hidden_size": width, "out_hidden_size": out, "intermediate_size": file.inner,
        "hidden_act": file.activation("silu"), "window_size": file.number("vision.window_size", WINDOW),
        "fullatt_block_indexes": whole,
    }, {}  # fmt: skip


def _deep(file: ProjectorFile) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration of Qwen3-VL's tower."""
    marks = file.values.get("clip.vision.is_deepstack_layers")
    deep = [i for i, mark in enumerate(marks) if mark is True] if isinstance(marks, list) else []
    return {
        "model_type": "qwen3_vl", "depth": file.number("vision.block_count"),
        "hidden_size": file.number("vision.embedding_length"), "intermediate_size": file.inner,
        "num_heads": file.number("vision.attention.head_count"), "patch_size": file.number("vision.patch_size"),
        "spatial_merge_size": file.number("vision.spatial_merge_size", 2), "temporal_patch_size": FRAMES,
        "out_hidden_size": file.shape("mm.2.weight")[0], "hidden_act": file.activation("gelu_pytorch_tanh"),
        "num_position_embeddings": file.shape("v.position_embd.weight")[0], "deepstack_visual_indexes": deep,
    }, {}  # fmt: skip


def _deep_names(config: Any) -> dict[str, str]:
    """The bias of the patches, and the mergers after some layers, which files number by these."""
    found = {"vision_tower.patch_embed.proj.bias": "v.patch_embd.bias"}
    parts = {"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"}
    for number, layer in enumerate(config.vision_config.deepstack):
        for own, theirs in parts.items():
            for last in ("weight", "bias"):
                name = f"vision_tower.deepstack_merger_list.{number}.{own}.{last}"
                found[name] = f"v.deepstack.{layer}.{theirs}.{last}"
    return found


def _pixtral(file: ProjectorFile) -> tuple[dict[str, Any], dict[str, Any]]:
    if "mm.patch_merger.weight" not in file.checkpoint.tensors:
        raise ModelError("this form of Pixtral is not known: it merges no patches", where=file.where)
    return _transformer(file, "pixtral") | {"hidden_act": file.activation("silu", "gelu")}, {
        "spatial_merge_size": file.number("vision.spatial_merge_size", 2),
        "multimodal_projector_bias": "mm.1.bias" in file.checkpoint.tensors,
    }  # fmt: skip


def _pixtral_processor(file: ProjectorFile) -> dict[str, Any]:
    return {
        "image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": file.number("vision.image_size")},
        "patch_size": file.number("vision.patch_size"),
    }  # fmt: skip


def _pixtral_pairs(name: str, config: Any) -> list[int] | None:
    """Files have the rows of what is rotated in neighbouring pairs."""
    tower = config.vision_config
    rotated = name.endswith((".attention.q_proj.weight", ".attention.k_proj.weight"))
    return neighbouring_pairs(tower.hidden_size, tower.num_attention_heads) if rotated else None


def _internvl(file: ProjectorFile) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors, scale = file.checkpoint.tensors, file.number("vision.projector.scale_factor", 2)
    vision = _transformer(file, "internvl_vision", "gelu") | {
        "attention_bias": "v.blk.0.attn_q.bias" in tensors, "use_qk_norm": "v.blk.0.attn_q_norm.weight" in tensors,
        "norm_type": "layer_norm" if "v.blk.0.ln1.bias" in tensors else "rms_norm",
        "hidden_act": file.activation("gelu", "gelu"),
    }  # fmt: skip
    return vision, {"downsample_ratio": 1 / max(scale, 1)}


def _internvl_processor(file: ProjectorFile) -> dict[str, Any]:
    tiles = {f"{name}_patches": file.values.get(f"clip.vision.preproc_{name}_tiles") for name in ("min", "max")}
    return {"image_processor_type": "GotOcr2ImageProcessor", "size": _square(file), **tiles}


def _qwen_processor(file: ProjectorFile) -> dict[str, Any]:
    limits = {name: file.values.get(f"clip.vision.image_{name}") for name in ("min_pixels", "max_pixels")}
    return {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": file.number("vision.patch_size"),
        "merge_size": file.number("vision.spatial_merge_size", 2), **limits,
    }  # fmt: skip


def _frames(config: Any, *frames: Tensor) -> Tensor:
    return ops.stack(frames, 2)


QWEN_FORMS = {".patch_embed.proj.weight": GgufForm(bare=True, read=_frames)}
QWEN_NAMES = QWEN_TOWER | {"vision_tower.patch_embed.proj": "v.patch_embd.weight v.patch_embd.weight.1"}
PROJECTOR = "multi_modal_projector."
DEEP_NAMES = QWEN_NAMES | {
    "vision_tower.blocks.{}.attn.qkv": f"{BLOCK}attn_qkv", "vision_tower.pos_embed": "v.position_embd",
    "vision_tower.blocks.{}.mlp.linear_fc1": f"{BLOCK}ffn_up",
    "vision_tower.blocks.{}.mlp.linear_fc2": f"{BLOCK}ffn_down",
    "vision_tower.merger.norm": "v.post_ln", "vision_tower.merger.linear_fc1": "mm.0",
    "vision_tower.merger.linear_fc2": "mm.2",
}  # fmt: skip
LAYER_OF_PIXTRAL, LAYER_OF_INTERNVL = "vision_tower.transformer.layers.{}.", "vision_tower.encoder.layer.{}."
PIXTRAL_NAMES = {
    "vision_tower.patch_conv": "v.patch_embd", "vision_tower.ln_pre": "v.pre_ln",
    **{f"{LAYER_OF_PIXTRAL}attention.{name}_proj": f"{BLOCK}attn_{name}" for name in "qkv"},
    f"{LAYER_OF_PIXTRAL}attention.o_proj": f"{BLOCK}attn_out",
    f"{LAYER_OF_PIXTRAL}attention_norm": f"{BLOCK}ln1", f"{LAYER_OF_PIXTRAL}ffn_norm": f"{BLOCK}ln2",
    **{f"{LAYER_OF_PIXTRAL}feed_forward.{name}_proj": f"{BLOCK}ffn_{name}" for name in ("gate", "up", "down")},
    f"{PROJECTOR}norm": "mm.input_norm", f"{PROJECTOR}patch_merger.merging_layer": "mm.patch_merger",
    f"{PROJECTOR}linear_1": "mm.1", f"{PROJECTOR}linear_2": "mm.2",
}  # fmt: skip
INTERNVL_NAMES = {
    "vision_tower.embeddings.cls_token": "v.class_embd",
    "vision_tower.embeddings.position_embeddings": "v.position_embd",
    "vision_tower.embeddings.patch_embeddings.projection": "v.patch_embd",
    **{f"{LAYER_OF_INTERNVL}attention.{name}_proj": f"{BLOCK}attn_{name}" for name in "qkv"},
    **{f"{LAYER_OF_INTERNVL}attention.{name}_norm": f"{BLOCK}attn_{name}_norm" for name in "qk"},
    f"{LAYER_OF_INTERNVL}attention.projection_layer": f"{BLOCK}attn_out",
    f"{LAYER_OF_INTERNVL}layernorm_before": f"{BLOCK}ln1", f"{LAYER_OF_INTERNVL}layernorm_after": f"{BLOCK}ln2",
    f"{LAYER_OF_INTERNVL}lambda_1": f"{BLOCK}ls1", f"{LAYER_OF_INTERNVL}lambda_2": f"{BLOCK}ls2",
    f"{LAYER_OF_INTERNVL}mlp.fc1": f"{BLOCK}ffn_up", f"{LAYER_OF_INTERNVL}mlp.fc2": f"{BLOCK}ffn_down",
    f"{PROJECTOR}layer_norm": "mm.model.mlp.0", f"{PROJECTOR}linear_1": "mm.model.mlp.1",
    f"{PROJECTOR}linear_2": "mm.model.mlp.3",
}  # fmt: skip
INTERNVL_FORMS = {".cls_token": GgufForm(bare=True), ".position_embeddings": GgufForm()}
# By clip.projector_type.
KINDS: Mapping[str, Kind] = {
    "mlp": Kind(
        "llava", TOWER | {f"{PROJECTOR}linear_1": "mm.0", f"{PROJECTOR}linear_2": "mm.2"}, _llava, _llava_processor
    ),
    "idefics3": Kind(
        "idefics3", TOWER | {f"{PROJECTOR}proj": "mm.model.fc"}, _idefics3, _idefics3_processor,
        last="mm.model.fc.weight",
    ),
    "gemma3": Kind(
        "gemma3", TOWER | {
            f"{PROJECTOR}mm_input_projection_weight": "mm.input_projection",
            f"{PROJECTOR}mm_soft_emb_norm": "mm.soft_emb_norm",
        }, _gemma3, _gemma3_processor, offset="soft_emb_norm.weight", last="mm.input_projection.weight", axis=1,
    ),
    "qwen2vl_merger": Kind("qwen2_vl", QWEN_NAMES, partial(_qwen, gated=False), _qwen_processor, forms=QWEN_FORMS),
    "qwen3vl_merger": Kind("qwen3_vl", DEEP_NAMES, _deep, _qwen_processor, more=_deep_names, forms=QWEN_FORMS),
    "pixtral": Kind(
        "mistral3", PIXTRAL_NAMES, _pixtral, _pixtral_processor, order=_pixtral_pairs,
        ignored=re.compile(r"v\.token_embd\.img_break(\.weight)?"),  # the text has it, too
    ),
    "internvl": Kind(
        "internvl", INTERNVL_NAMES, _internvl, _internvl_processor, last="mm.model.mlp.3.weight",
        forms=INTERNVL_FORMS,
    ),
    "qwen2.5vl_merger": Kind("qwen2_5_vl", QWEN_NAMES, partial(_qwen, gated=True), _qwen_processor, forms=QWEN_FORMS),
}  # fmt: skip
