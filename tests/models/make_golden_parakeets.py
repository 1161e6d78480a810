"""Makes golden_parakeets/NAME.json with transformers, one for each configuration of parakeet_configs.py:

    PYTHONPATH=. python tests/models/make_golden_parakeets.py [NAME …]

A file has the names and shapes of the parameters and buffers, what the processor makes of two recordings, logits of the
first and of both with padding, what is written of the first (for transducers with the moments), and of each parameter's
gradient of a loss the sum and the product with a fixed vector. The weights are not stored: seeded.py makes them here
and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch.nn.functional import ctc_loss

from tests.goldens import write_each
from tests.models.parakeet_configs import CONFIGS, LABELS, SAMPLES, WRITTEN, sounds, weights
from tests.models.seeded import gradients_of, rounded, shown
from tests.models.seeded_folders import along, configuration, fill


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name], eager=True)
    model = getattr(transformers, f"ParakeetFor{name.upper()}")(made).float().eval()
    fill(model, weights)
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
        loss = along(logits, name)
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
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
