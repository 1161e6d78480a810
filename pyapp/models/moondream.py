"""Moondream (Korrapati 2024, https://github.com/vikhyat/moondream): what SigLIP's tower sees, projected by two layers,
stands before Phi-1.5. The form of its first files, of which a vector of the tower is one of the text.

Parameters have the names of the parts here; `stored` knows those of files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Linear, Module
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import PictureTextModel
from pyapp.text.tokenization.tokenizer import Tokenizer

from .loading import phi_form, picture_text
from .loading.config import as_object, optional_object
from .loading.picture_text import PictureTextConfig
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("moondream1",)
IMAGE_PROCESSOR = "Siglip"  # of files that name none
TOWERS = ("vision_encoder.encoder.model.visual.", "vision_encoder.vision.trunk.model.", "vision_encoder.vision.trunk.")
PROJECTOR = "vision_encoder.projection.mlp."
IGNORED = r".*\.rotary_emb\.inv_freq"
PHI = {  # what no file says of the language model: Phi-1.5's
    "vocab_size": 51200, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
    "num_attention_heads": 32,
}  # fmt: skip
SIGLIP = {
    "model_type": "siglip_vision_model", "image_size": 378, "patch_size": 14, "hidden_size": 1152,
    "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16, "layer_norm_eps": 1e-5,
    "vision_use_head": False,
}  # fmt: skip
BEGIN, PART = "<|endoftext|>", "<image>"
# The turns of a conversation as the model was trained with them; no file has them.
TEMPLATE = (
    "{{ '" + BEGIN + "' }}{% for message in messages %}{% for part in message['content'] if message['content'] is not "
    "string and part['type'] == 'image' %}{{ '" + PART + "' }}{% endfor %}"
    "{{ '\\n\\nAnswer: ' if message['role'] == 'assistant' else '\\n\\nQuestion: ' if message['role'] == 'user' else "
    "'\\n\\n' }}{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in "
    "message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\n\\nAnswer:' }}{% endif %}"
)


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters. The files' config.json has few of them: the others are those of the published model."""

    model_type = "moondream1"
    text = "phi"
    usual = PHI
    token = ("image_token_id", PHI["vocab_size"])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, whose older form calls the language model's phi_config."""
        text = as_object(values.get("text_config", values.get("phi_config")) or {}, "text_config")
        return super().from_dict({**values, "text_config": text, "vision_config": _vision(values)})


def _vision(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The tower's fields of an object of a config.json, with what it leaves out."""
    return {**SIGLIP, **optional_object(settings, "vision_config")}


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> dict[str, Any]:
    """The configuration; ModelError for files of the later forms, which see several parts of a picture."""
    fc1 = tensors.get(f"{PROJECTOR}fc1.weight")
    if fc1 is None or fc1.shape[1] != _vision(settings)["hidden_size"]:
        raise ModelError(
            "these weights of Moondream are of a later form, which is not supported",
            hint="Take the files of vikhyatk/moondream2 from before July 2024: revision 2024-05-20",
        )
    return dict(settings)


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """Where the parameters lie in files."""
    vision = config.vision_config
    found = phi_form.stored(config.text_config, names, "language_model.", "text_model.")
    tower = next((start for start in TOWERS if f"{start}pos_embed" in names), TOWERS[0])
    shape = vision.hidden_size, vision.num_channels, *vision.patch_size
    embeddings = "vision_tower.embeddings."
    found |= {
        f"{embeddings}patch_embedding.weight": Stored(
            (f"{tower}patch_embed.linear.weight",), values=lambda value: value.reshape(*shape)
        ),
        f"{embeddings}patch_embedding.bias": Stored((f"{tower}patch_embed.linear.bias",)),
        f"{embeddings}position_embedding.weight": Stored(
            (f"{tower}pos_embed",), values=lambda value: value.reshape(*value.shape[1:])
        ),
    }
    parts = {"layer_norm1": "norm1", "layer_norm2": "norm2", "self_attn.out_proj": "attn.proj",
             "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}  # fmt: skip
    for last in ("weight", "bias"):
        found[f"vision_tower.post_layernorm.{last}"] = Stored((f"{tower}norm.{last}",))
        for name in ("fc1", "fc2"):
            found[f"multi_modal_projector.{name}.{last}"] = Stored((f"{PROJECTOR}{name}.{last}",))
        for i in range(vision.num_hidden_layers):
            layer, block = f"vision_tower.encoder.layers.{i}.", f"{tower}blocks.{i}."
            for own, part in parts.items():
                found[f"{layer}{own}.{last}"] = Stored((f"{block}{part}.{last}",))
            own_parts = [f"{layer}self_attn.{part}_proj.{last}" for part in "qkv"]
            found |= cut_apart(f"{block}attn.qkv.{last}", own_parts, vision.hidden_size)
    return found


def processor_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a preprocessor_config.json, which files lack: the whole picture, made a square."""
    side = _vision(settings)["image_size"]
    half = [0.5] * 3
    return {
        "image_processor_type": "SiglipImageProcessor", "size": {"height": side, "width": side}, "resample": 3,
        "image_mean": half, "image_std": half,
    }  # fmt: skip


def with_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of files with what they lack: the token that begins a text, that of a picture's vectors, and the
    form of a conversation. ModelError for one without <|endoftext|>.
    """
    begin = tokenizer.id_of(BEGIN)
    if begin is None:
        raise ModelError(f"its tokenizer has no token {BEGIN}", hint="Take the files of vikhyatk/moondream2")
    document = json.loads(tokenizer.to_json())
    settings = {"bos_token": BEGIN, "eos_token": BEGIN, "chat_template": TEMPLATE, **tokenizer.settings}
    if tokenizer.id_of(PART) is None:
        plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        token = {"id": tokenizer.vocab_size, "content": PART, "special": True, **plain}
        document.setdefault("added_tokens", []).append(token)
    document["post_processor"] = {
        "type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": BEGIN, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {BEGIN: {"id": BEGIN, "ids": [begin], "tokens": [BEGIN]}},
    }  # fmt: skip
    return Tokenizer(document, settings)


class Projector(Module):
    """Two layers with an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.text_config.hidden_size
        self.fc1 = Linear(config.vision_config.hidden_size, 4 * width)
        self.fc2 = Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, T, D)."""
        return self.fc2(ops.gelu(self.fc1(x), approximate="tanh"))


class MoondreamForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=False)
        self.multi_modal_projector = Projector(config)


TASKS: Mapping[str, Any] = {picture_text.TASK: MoondreamForConditionalGeneration}
