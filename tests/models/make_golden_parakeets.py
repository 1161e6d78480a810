"""Makes golden_parakeets/NAME.json with transformers, one for each configuration of parakeet_configs.py:

    PYTHONPATH=. python tests/models/make_golden_parakeets.py [NAME …]

A file has the names and shapes of the parameters and buffers, what the processor makes of two recordings, logits of the
first and of both with padding, what is written of the first (for transducers with the moments), and of each parameter's
gradient of a loss the sum and the product with a fixed vector. The weights are not stored: seeded.py makes them here
and in the tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import ctc_loss

from tests.goldens import write_json
from tests.models.parakeet_configs import CONFIGS, LABELS, SAMPLES, WRITTEN, sounds, weights
from tests.models.seeded import direction, gradients_of, rounded, shown

FOLDER = Path(__file__).with_name("golden_parakeets")


def golden(name: str) -> dict[str, Any]:
    config = dict(CONFIGS[name])
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made._attn_implementation = "eager"
    model = getattr(transformers, f"ParakeetFor{name.upper()}")(made).float().eval()
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(weights(key, tuple(tensor.shape))))
    extractor = transformers.ParakeetFeatureExtractor(feature_size=8)
    recordings = [sounds(count) for count in SAMPLES]
    alone = extractor(recordings[0], sampling_rate=16000, return_tensors="pt")
    batch = extractor(recordings, sampling_rate=16000, return_tensors="pt")
    found = {"input": rounded(shown(batch["input_features"][:, :-1].numpy()))}  # the last frame is padding
    moments = int(model._get_subsampling_output_length(alone["attention_mask"].sum(-1)))
    if name == "ctc":
        logits = model(**alone).logits[:, :moments]
        scores = logits.log_softmax(-1).transpose(0, 1)
        loss = ctc_loss(scores, torch.tensor([LABELS]), [moments], [len(LABELS)], blank=11, reduction="sum")
        found["numbers"] = logits[0].argmax(-1).tolist()
        with torch.no_grad():
            padded = model(**batch).logits
            mask = model._get_output_attention_mask(batch["attention_mask"], target_length=padded.shape[1])
            found["padded"] = rounded(shown((padded * mask.unsqueeze(-1))[:, :moments].numpy(), 96))
    else:
        logits = model(**alone, decoder_input_ids=torch.tensor(WRITTEN)).logits[:, :moments]
        loss = (logits * torch.from_numpy(direction(name, tuple(logits.shape))).float()).sum()
        with torch.no_grad():
            lengths = [*range(12, logits.shape[-1])]  # their scores stand after those of pieces
            made = model.generate(
                **alone, decoder_start_token_id=11, suppress_tokens=lengths or None, max_new_tokens=99
            )
        starts = made.durations[0].cumsum(0) - made.durations[0]
        found["pieces"] = [
            [token, start]
            for token, start in zip(made.sequences[0].tolist()[1:], starts.tolist()[1:], strict=True)
            if token != 11 and start < moments
        ]
    loss.backward()
    return found | {
        "state": sorted({*model.state_dict()} - {key for key, _ in model.named_parameters()}),
        "parameters": gradients_of(model),
        "logits": rounded(shown(logits.detach().numpy(), 96)),
        "loss": float(loss.detach()),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    for name in sys.argv[1:] or CONFIGS:
        found = golden(name)
        write_json(FOLDER / f"{name}.json", found, separators=(",", ":"))
        print(name, found.get("numbers"), found.get("pieces"))
