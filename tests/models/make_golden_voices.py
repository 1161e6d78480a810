"""Makes golden_voices/NAME.json with transformers, one for each configuration of voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_voices.py [NAME …]

A file has the names and shapes of the parameters once the norms of weights are applied, and those of the file's own
names; hidden states, means and log-variances of a batch with padding; the durations and samples of a text without and
with noise, of another rate, and of the batch; and of each parameter's gradient of a sum over the samples the sum and
the product with a fixed vector. The weights are not stored: seeded.py makes them here and in the tests. What a text
would take is not a whole number of frames: a file is refused whose durations are so near to one that rounding decides.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch.nn.utils import parametrize
from transformers import AutoConfig, VitsModel

from tests.goldens import write_each
from tests.models.seeded import gradients_of, rounded, shown, voice_weights
from tests.models.seeded_folders import along, fill
from tests.models.voice_configs import CONFIGS, SPEAKER, TEXTS, noise

MARGIN = 1e-3  # frames between a duration and a whole number


def model_of(name: str) -> tuple[Any, dict[str, list[int]]]:
    """The model with ordinary weights, and the shapes of its parameters by the names of files."""
    config = dict(CONFIGS[name])
    model = VitsModel(AutoConfig.for_model(config.pop("model_type"), **config)).float().eval()
    filed = {key: list(value.shape) for key, value in model.state_dict().items()}
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    fill(model, voice_weights)
    return model, filed


class Spoken:
    """The model's run with the noise of the tests: its durations, and what it returns."""

    def __init__(self, model: Any, ids: Any, mask: Any, **settings: Any) -> None:
        self.durations: list[list[int]] = []
        make = lambda *shape: torch.from_numpy(noise(tuple(shape)))  # noqa: E731
        ceil = torch.ceil

        def kept(x: Any) -> Any:
            if x.ndim != 3:  # of torch's own, which writes a tensor as text
                return ceil(x)
            found = x[x != 0]
            assert float((found - found.round()).abs().min()) > MARGIN, "choose other weights"
            self.durations = ceil(x).squeeze(1).int().tolist()
            return ceil(x)

        with (
            mock.patch("torch.randn", make),
            mock.patch("torch.randn_like", lambda x: make(*x.shape)),
            mock.patch("torch.ceil", kept),
        ):
            self.found = model(input_ids=ids, attention_mask=mask, **settings)

    def entry(self) -> dict[str, Any]:
        return {
            "durations": self.durations,
            "lengths": self.found.sequence_lengths.tolist(),
            "frames": rounded(shown(self.found.spectrogram.detach().numpy(), 200)),
            "samples": rounded(shown(self.found.waveform.detach().numpy(), 400)),
        }


def golden(name: str) -> dict[str, Any]:
    model, filed = model_of(name)
    longest = max(map(len, TEXTS))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in TEXTS])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in TEXTS])
    one = torch.tensor([TEXTS[0]])
    speaker = SPEAKER if CONFIGS[name].get("num_speakers", 1) > 1 else None
    read = model.text_encoder(ids, mask.unsqueeze(-1).float(), mask)
    runs = {
        "batch": Spoken(model, ids, mask, speaker_id=speaker),
        "noisy": Spoken(model, one, None, speaker_id=speaker),
        "slow": Spoken(model, one, None, speaker_id=speaker, speaking_rate=0.7),
    }
    model.noise_scale, model.noise_scale_duration = 0.0, 0.0
    runs["quiet"] = quiet = Spoken(model, one, None)
    along(quiet.found.waveform, "samples").backward()
    return {
        "parameters": gradients_of(model),
        "filed": filed,
        "hidden": rounded(shown(read.last_hidden_state.detach().numpy(), 200)),
        "means": rounded(shown(read.prior_means.detach().numpy(), 200)),
        "log_variances": rounded(shown(read.prior_log_variances.detach().numpy(), 200)),
        **{run: spoken.entry() for run, spoken in runs.items()},
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
