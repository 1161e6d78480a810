"""Makes golden_staged_voices/NAME.json with transformers, one for each configuration of staged_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_staged_voices.py [NAME …]

A file has the names and shapes of the tensors as files have them, logits of the three networks, of each parameter's
gradient of their sum with a fixed vector the product with another one, and the tokens, the codes and the sound of a
text, without a voice and with what one said before. The weights are not stored: seeded.py makes them here and in the
tests.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import BarkModel
from transformers.models.bark.generation_configuration_bark import (
    BarkCoarseGenerationConfig,
    BarkFineGenerationConfig,
    BarkSemanticGenerationConfig,
)

from tests.goldens import write_each
from tests.models.seeded import direction, frame_weights, rounded, shown
from tests.models.seeded_folders import along, configuration, load_seeded
from tests.models.staged_voice_configs import CONFIGS, GENERATION, IDS, history


def written(model: Any, before: dict[str, torch.Tensor] | None) -> dict[str, Any]:
    """What the model makes of the text, greedily."""
    semantic = BarkSemanticGenerationConfig(**GENERATION["semantic_config"])
    coarse = BarkCoarseGenerationConfig(**GENERATION["coarse_acoustics_config"])
    fine = BarkFineGenerationConfig(**GENERATION["fine_acoustics_config"])
    length = semantic.max_input_semantic_length
    ids = torch.tensor([[*IDS, *[0] * (length - len(IDS))]])
    mask = (torch.arange(length) < len(IDS)).long()[None]
    meaning = model.semantic.generate(
        ids, attention_mask=mask, history_prompt=before, semantic_generation_config=semantic
    )
    shared = {"semantic_generation_config": semantic, "coarse_generation_config": coarse, "history_prompt": before,
              "codebook_size": GENERATION["codebook_size"]}  # fmt: skip
    codes = model.coarse_acoustics.generate(meaning.clone(), **shared)
    rows = model.fine_acoustics.generate(codes.clone(), fine_generation_config=fine, **shared)
    tokens = [token for token in meaning[0].tolist() if token != semantic.eos_token_id]
    first = semantic.semantic_vocab_size
    return {
        "meaning": tokens,
        "codes": [(code - first) % GENERATION["codebook_size"] for code in codes[0].tolist()],
        "rows": rows[0].tolist(),
        "sound": rounded(shown(model.codec_decode(rows).numpy(), 60)),
    }


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    model, stored = load_seeded(BarkModel(made), frame_weights)
    codes = torch.arange(60).reshape(1, 15, 4) * 7 % 17
    outputs = {
        "semantic": model.semantic(torch.tensor([[3, 50, 97, 11, 19]])).logits,
        "coarse": model.coarse_acoustics(torch.tensor([[3, 21, 37, 56, 19]])).logits,
        "fine": model.fine_acoustics(2, codes).logits,
    }
    total = sum(along(value, key) for key, value in outputs.items())
    total.backward()  # type: ignore[union-attr]
    grads = {
        key: rounded([(value.grad.double().numpy() * direction(key, value.shape)).sum()])[0]
        for key, value in model.named_parameters()
        if value.grad is not None
    }
    with torch.no_grad():
        before = {key: torch.from_numpy(value) for key, value in history().items()}
        return {
            "tensors": {key: list(value.shape) for key, value in stored.items()},
            "logits": {key: rounded(shown(value.detach().numpy(), 80)) for key, value in outputs.items()},
            "gradients": grads, "alone": written(model, None), "voice": written(model, before),
        }  # fmt: skip


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
