"""Makes golden_described_voices/NAME.json with the package parler_tts, one for each configuration of
described_voice_configs.py:

    pip install --no-deps parler_tts==0.2.3 transformers==4.46.1 tokenizers==0.20.3 descript-audio-codec-unofficial \
        einops 'huggingface_hub<1' && pip install torch sentencepiece protobuf
    PYTHONPATH=. python tests/models/make_golden_described_voices.py [NAME …]

audiotools, of which dac takes two base classes that compute nothing, need not be there. A file has the names and shapes
of the tensors in a folder that save_pretrained wrote, logits of codes, of one text and of two with padding, the codes
that are written greedily, the sound of them, and of each parameter's gradient of the loss (but for the codec, which no
loss reads) the sum and the product with a fixed vector. The weights are not stored: described_voice_configs.py makes
them here and in the tests.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import torch

for module in ("audiotools", "audiotools.ml", "audiotools.core", "audiotools.core.util"):
    sys.modules[module] = ModuleType(module)
tools: Any = sys.modules["audiotools"]
tools.ml, tools.core = sys.modules["audiotools.ml"], sys.modules["audiotools.core"]
tools.core.util, tools.AudioSignal, tools.STFTParams = sys.modules["audiotools.core.util"], object, object
tools.ml.BaseModel = type("BaseModel", (torch.nn.Module,), {"INTERN": [], "EXTERN": []})
tools.ml.Accelerator = object

from parler_tts import ParlerTTSConfig, ParlerTTSForConditionalGeneration  # noqa: E402
from parler_tts.dac_wrapper import modeling_dac  # noqa: E402
from safetensors import safe_open  # noqa: E402

from tests.goldens import write_each  # noqa: E402
from tests.models.described_voice_configs import (  # noqa: E402
    CODES,
    CONFIGS,
    DESCRIPTION,
    DESCRIPTIONS,
    GENERATION,
    PROMPT,
    PROMPTS,
    PROMPTS_SHOWN,
    SHOWN,
    SIZES,
    weights,
)
from tests.models.seeded import gradients_of, rounded, shown  # noqa: E402

modeling_dac.DAC = partial(
    modeling_dac.DAC, encoder_dim=SIZES["encoder_hidden_size"], encoder_rates=SIZES["downsampling_ratios"],
    decoder_dim=SIZES["decoder_hidden_size"], decoder_rates=SIZES["downsampling_ratios"][::-1],
    codebook_dim=SIZES["codebook_dim"],
)  # fmt: skip


def model_of(name: str) -> tuple[Any, dict[str, list[int]]]:
    """The model, and the tensors of its file."""
    values = json.loads(json.dumps(CONFIGS[name]))
    if "num_codebooks" in values["audio_encoder"]:
        values["audio_encoder"]["model_type"] = "dac_on_the_hub"  # as it reads older files
    model = ParlerTTSForConditionalGeneration(ParlerTTSConfig(**values)).float().eval()
    with TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            tensors = {key: list(file.get_slice(key).get_shape()) for key in file.keys()}
        state = model.state_dict()
        for key, shape in tensors.items():
            if "embed_positions" not in key:
                state[key].copy_(torch.from_numpy(np.asarray(weights(key, tuple(shape)))))
    for key, number in GENERATION.items():
        setattr(model.generation_config, key, number)
    return model, tensors


def golden(name: str) -> dict[str, Any]:
    model, tensors = model_of(name)
    books = model.decoder.num_codebooks
    ids, prompt, codes = torch.tensor([DESCRIPTION]), torch.tensor([PROMPT]), torch.tensor(CODES)
    one = {"attention_mask": torch.ones_like(ids), "prompt_attention_mask": torch.ones_like(prompt)}
    two = {"attention_mask": torch.tensor(SHOWN), "prompt_attention_mask": torch.tensor(PROMPTS_SHOWN)}
    with torch.no_grad():
        logits = model(ids, prompt_input_ids=prompt, decoder_input_ids=codes, **one).logits
        both = model(
            torch.tensor(DESCRIPTIONS), prompt_input_ids=torch.tensor(PROMPTS), decoder_input_ids=codes.repeat(2, 1),
            decoder_attention_mask=torch.ones(2, codes.shape[1], dtype=torch.int64), **two,
        ).logits  # fmt: skip
    written = []
    decode = model.audio_encoder.decode

    def watched(audio_codes: Any, **options: Any) -> Any:
        written.append(audio_codes.reshape(books, -1).tolist())
        return decode(audio_codes=audio_codes, **options)

    model.audio_encoder.decode = watched
    sound = model.generate(ids, prompt_input_ids=prompt, do_sample=False, **one)
    scores = model(ids, prompt_input_ids=prompt, decoder_input_ids=codes[:, :-1], **one).logits
    length = codes.shape[1] - 1
    wanted = codes[:, 1:].reshape(-1)
    loss = torch.nn.functional.cross_entropy(scores[:, -length:].reshape(-1, scores.shape[-1]), wanted, reduction="sum")
    loss.backward()
    own = {
        key: value for key, value in gradients_of(model).items()
        if not key.startswith("audio_encoder.") and "embed_positions" not in key
    }  # fmt: skip
    return {
        "tensors": tensors, "parameters": own, "logits": rounded(shown(logits[:, -len(CODES[0]) :].numpy(), 100)),
        "logits of two": rounded(shown(both[:, -len(CODES[0]) :].numpy(), 100)), "written": written[0],
        "sound": rounded(shown(sound.detach().numpy(), 60)), "loss": float(loss.detach()),
    }  # fmt: skip


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden, ensure_ascii=False)
