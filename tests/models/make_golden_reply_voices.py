"""Makes golden_reply_voices/NAME.json with transformers, one for each configuration of reply_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_reply_voices.py [NAME …]

A file has the names and shapes of the tensors, the reply of the model that writes, the likeliest codes of its sound,
and this sound, with noise that the tests can make alike; sound of more codes; and the reply and its codes after a
conversation with a recording. The weights are not stored: seeded.py
makes them here and in the tests.

The talker of Qwen2.5-Omni begins with the vectors of two codes, which it adds where it gets a mask of its text.
generate() takes masks of nothing but ones away, so that they are added here, as in the authors' code.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.goldens import write_each
from tests.models.reply_voice_configs import (
    ASKED,
    CONFIGS,
    DRAWN,
    MOST,
    RECORDED,
    ROLE,
    VOICE,
    conversation,
    recorded,
    weights,
)
from tests.models.seeded import rounded, shown
from tests.models.sense_configs import SETTINGS
from tests.models.sound_configs import recording

CLASSES = {
    "qwen2_5_omni": "Qwen2_5OmniForConditionalGeneration", "qwen3_omni_moe": "Qwen3OmniMoeForConditionalGeneration",
}  # fmt: skip


def loaded(name: str, place: Path) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model with drawn weights, and its tensors by their names in the file."""
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    kind = getattr(transformers, CLASSES[name])
    model = kind(transformers.AutoConfig.for_model(name, **config))
    model.float().save_pretrained(place)
    stored = load_file(place / "model.safetensors")
    stored = {key: torch.from_numpy(weights(key, tuple(value.shape))) for key, value in stored.items()}
    save_file(stored, place / "model.safetensors", {"format": "pt"})
    vector, mel = map(torch.from_numpy, recorded(5))
    torch.save({VOICE[0]: {"bos_token": VOICE[1], "cond": vector, "ref_mel": mel}}, place / "spk_dict.pt")
    return kind.from_pretrained(place).float().eval(), stored


def evenly(*shape: Any, **more: Any) -> torch.Tensor:
    """What stands for noise."""
    sizes = shape[0] if isinstance(shape[0], list | tuple) else shape
    return torch.linspace(-1, 1, int(torch.Size(sizes).numel())).reshape(*sizes)


def with_begin(talker: Any, arguments: Any, given: dict[str, Any]) -> None:
    """Adds the vectors of the codes with which speech begins."""
    if given.get("inputs_embeds") is not None and given.get("attention_mask") is None:
        codes = torch.tensor([talker.codec_pad_token, talker.codec_bos_token])
        given["inputs_embeds"][0, -2:] += talker.get_input_embeddings()(codes)


def spoken(model: Any, name: str, ids: torch.Tensor, **sounds: Any) -> tuple[list[int], list[Any], torch.Tensor]:
    """The reply, its likeliest codes and, without `sounds`, the sound of these, to the text `ids` (1, T)."""
    newer = name.startswith("qwen3")
    codes: list[Any] = []
    sounding = model.code2wav if newer else model.token2wav
    kept = sounding.chunked_decode if newer else sounding.forward

    def listen(found: torch.Tensor, **more: Any) -> torch.Tensor:
        codes.append(found[0].T.tolist() if newer else found[0].tolist())
        return torch.zeros(1, 1) if sounds else kept(found, **more)

    more = {} if newer else {"talker_eos_token_id": [56, 57]}
    with torch.no_grad(), patch.object(sounding, "chunked_decode" if newer else "forward", listen):
        written, sound = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), speaker="Ethan" if newer else VOICE[0],
            thinker_max_new_tokens=7, thinker_eos_token_id=None, thinker_do_sample=False, talker_do_sample=False,
            talker_max_new_tokens=MOST, **more, **sounds,
        )  # fmt: skip
    return written[0, ids.shape[1] :].tolist(), codes[0], sound


def golden(name: str) -> dict[str, Any]:
    newer = name.startswith("qwen3")
    extractor = transformers.WhisperFeatureExtractor(**SETTINGS)
    heard = extractor(
        [recording(RECORDED)], sampling_rate=16000, return_tensors="pt", padding="max_length", truncation=False,
        return_attention_mask=True,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place, patch.object(torch, "randn", evenly):
        model, stored = loaded(name, Path(place))
        if not newer:
            model.talker.register_forward_pre_hook(with_begin, with_kwargs=True)
        reply, codes, sound = spoken(model, name, torch.tensor([[*ASKED, *ROLE]]))
        told = [id for _, turn in conversation(name) for id in turn]
        answer, its_codes, _ = spoken(
            model, name, torch.tensor([[*told, *ROLE]]),
            input_features=heard.input_features, feature_attention_mask=heard.attention_mask,
        )  # fmt: skip
        with torch.no_grad():
            rows = torch.arange(DRAWN * (3 if newer else 1)).reshape(-1, DRAWN) * 7 % 40
            if newer:
                made = model.code2wav.chunked_decode(rows[None], chunk_size=4, left_context_size=2)
            else:
                vector, mel = map(torch.from_numpy, recorded(5))
                made = model.token2wav(rows, conditioning=vector, reference_mel=mel)
    return {
        "tensors": {key: list(value.shape) for key, value in stored.items()}, "reply": reply, "codes": codes,
        "sound": rounded(shown(sound.reshape(-1).numpy(), 120)), "drawn": rounded(shown(made.reshape(-1).numpy(), 120)),
        "heard": {"reply": answer, "codes": its_codes},
    }  # fmt: skip


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
