"""Makes golden_moondreams/moondream.json with transformers: SiglipVisionModel and PhiForCausalLM, between which
Moondream puts two layers:

    PYTHONPATH=. python tests/models/make_golden_moondreams.py

The file has the names and shapes of the tensors as Moondream's first files have them, some of the logits for a text
with a picture, the product of each tensor's gradient with a fixed vector, and up to 24 greedy tokens. The weights are
not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PhiConfig, PhiForCausalLM, SiglipVisionConfig, SiglipVisionModel

from tests.goldens import write_json
from tests.models.moondream_configs import BEGIN, BEHIND, CONFIGS, prepared
from tests.models.seeded import direction, picture_weights, rounded, shown
from tests.models.seeded_folders import along

FILE = Path(__file__).parent / "golden_moondreams" / "moondream.json"
TOWER, TEXT = "vision_encoder.encoder.model.visual.", "text_model."


def joined(parts: dict[str, Any], before: str, last: str) -> Any:
    """Queries, keys and values in one."""
    return torch.cat([parts[f"{before}self_attn.{part}_proj.{last}"] for part in "qkv"])


def in_files(tower: dict[str, Any], text: dict[str, Any], projector: dict[str, Any]) -> dict[str, Any]:
    """The tensors by the names in Moondream's files."""
    vision = {name.removeprefix("vision_model."): value for name, value in tower.items()}
    found = {
        f"{TOWER}patch_embed.linear.weight": vision["embeddings.patch_embedding.weight"].flatten(1),
        f"{TOWER}pos_embed": vision["embeddings.position_embedding.weight"][None],
        f"{TOWER}patch_embed.linear.bias": vision["embeddings.patch_embedding.bias"],
        f"{TEXT}transformer.embd.wte.weight": text["model.embed_tokens.weight"],
        **{f"vision_encoder.projection.mlp.{name}": value for name, value in projector.items()},
    }
    for last in ("weight", "bias"):
        found[f"{TOWER}norm.{last}"] = vision[f"post_layernorm.{last}"]
        found[f"{TEXT}lm_head.ln.{last}"] = text[f"model.final_layernorm.{last}"]
        found[f"{TEXT}lm_head.linear.{last}"] = text[f"lm_head.{last}"]
        for i in range(2):
            layer, block = f"encoder.layers.{i}.", f"{TOWER}blocks.{i}."
            found[f"{block}attn.qkv.{last}"] = joined(vision, layer, last)
            for name, own in (("norm1", "layer_norm1"), ("norm2", "layer_norm2"), ("attn.proj", "self_attn.out_proj"),
                              ("mlp.fc1", "mlp.fc1"), ("mlp.fc2", "mlp.fc2")):  # fmt: skip
                found[f"{block}{name}.{last}"] = vision[f"{layer}{own}.{last}"]
            layer, block = f"model.layers.{i}.", f"{TEXT}transformer.h.{i}."
            found[f"{block}mixer.Wqkv.{last}"] = joined(text, layer, last)
            for name, own in (("ln", "input_layernorm"), ("mixer.out_proj", "self_attn.dense"),
                              ("mlp.fc1", "mlp.fc1"), ("mlp.fc2", "mlp.fc2")):  # fmt: skip
                found[f"{block}{name}.{last}"] = text[f"{layer}{own}.{last}"]
    return found


def golden() -> dict[str, Any]:
    config = CONFIGS["moondream"]
    vision, words = config["vision_config"], config["text_config"]
    width = words["hidden_size"]
    tower = SiglipVisionModel(SiglipVisionConfig(**vision, layer_norm_eps=1e-5, vision_use_head=False)).eval()
    text = PhiForCausalLM(PhiConfig(**words, hidden_act="gelu_new", partial_rotary_factor=0.5)).eval()
    projector = torch.nn.ModuleDict({
        "fc1": torch.nn.Linear(vision["hidden_size"], 4 * width), "fc2": torch.nn.Linear(4 * width, width)
    })  # fmt: skip
    parts = [dict(part.named_parameters()) for part in (tower, text, projector)]
    shapes = {name: tuple(value.shape) for name, value in in_files(*parts).items()}
    values = {name: torch.from_numpy(picture_weights(name, shape)) for name, shape in shapes.items()}
    with torch.no_grad():
        _fill(parts, values)
    seen = tower(torch.from_numpy(prepared())).last_hidden_state
    seen = projector["fc2"](torch.nn.functional.gelu(projector["fc1"](seen), approximate="tanh"))
    table = text.get_input_embeddings()
    embedded = torch.cat([table(torch.tensor([BEGIN])), seen, table(torch.tensor([BEHIND]))], 1)
    logits = text(inputs_embeds=embedded).logits
    along(logits, "moondream").backward()
    grads = in_files(*({name: value.grad for name, value in part.items()} for part in parts))
    with torch.no_grad():
        tokens: list[int] = []
        for _ in range(24):
            more = embedded if not tokens else torch.cat([embedded, table(torch.tensor([tokens]))], 1)
            best = text(inputs_embeds=more).logits[0, -1].topk(2)
            if best.values[0] - best.values[1] < 1e-3:
                break  # rounding could decide
            tokens.append(int(best.indices[0]))
    return {
        "logits": rounded(shown(logits.detach().numpy(), 96)),
        "tokens": tokens,
        "parameters": {
            name: [list(grad.shape), *rounded([(grad.double().numpy() * direction(name, tuple(grad.shape))).sum()])]
            for name, grad in grads.items()
        },
    }


def _fill(parts: list[dict[str, Any]], values: dict[str, Any]) -> None:
    """Copies the tensors of a file into the parts."""
    empty = [{name: torch.zeros_like(value) for name, value in part.items()} for part in parts]
    for part, zeros in zip(parts, empty, strict=True):
        for name, parameter in part.items():
            zeros[name] = torch.ones_like(parameter)
            for key, marks in in_files(*empty).items():
                if marks.any():
                    parameter.copy_(values[key][marks.bool()].reshape(parameter.shape))
            zeros[name] = torch.zeros_like(parameter)


if __name__ == "__main__":
    print(write_json(FILE, golden(), separators=(",", ":")))
