"""Makes golden_denoising.json: texts by the published loops of LLaDA and Dream, with transformers' Llama and Qwen2,
whose tokens all see one another.

    PYTHONPATH=. python tests/text/make_golden_denoising.py

The weights are not stored: tests/models/seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.goldens import write_json
from tests.models.seeded import draw
from tests.text.denoising_cases import CASES, MODELS, PROMPT

MASK = 95
LEAST_TIME = 1e-3
LEAD = 1e-5  # of a chosen score over the next: no rounding may decide


def model_of(name: str, salt: int) -> Any:
    settings = dict(MODELS[name])
    del settings["model_type"]
    made = AutoConfig.for_model({"llada": "llama", "dream": "qwen2"}[name], **settings)
    made._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(made).double().eval()
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(draw(key, tuple(tensor.shape), salt)))
    return model


def logits_of(model: Any, x: torch.Tensor) -> torch.Tensor:
    """All tokens see one another."""
    size = x.shape[1]
    seen = torch.zeros(x.shape[0], 1, size, size, dtype=torch.float64)
    return model(x, attention_mask=seen).logits


def leading(scores: torch.Tensor, count: int) -> torch.Tensor:
    """The places of the largest scores. AssertionError where rounding could choose others."""
    ordered = scores.sort(descending=True).values
    if 0 < count < len(ordered) and ordered[count] > -1e30:
        assert ordered[count - 1] - ordered[count] > LEAD, "no clear choice"
    return scores.topk(count).indices


def best(logits: torch.Tensor) -> torch.Tensor:
    top = logits.topk(2).values
    assert (top[..., 0] - top[..., 1]).min() > LEAD and not (logits.argmax(-1) == MASK).any(), "no clear choice"
    return logits.argmax(-1)


def llada(model: Any, count: int, steps: int, block_length: int, guidance_scale: float = 1.0) -> list[int]:
    """Low-confidence remasking in blocks, without sampling."""
    x = torch.full((1, len(PROMPT) + count), MASK)
    x[0, : len(PROMPT)] = torch.tensor(PROMPT)
    given = x != MASK
    blocks = count // block_length
    for block in range(blocks):
        first, last = len(PROMPT) + block * block_length, len(PROMPT) + (block + 1) * block_length
        own = steps // blocks
        for step in range(own):
            masked = x == MASK
            logits = logits_of(model, x)
            if guidance_scale != 1:
                without = logits_of(model, torch.where(given, MASK, x))
                logits = without + guidance_scale * (logits - without)
            found = x.clone()
            found[masked] = best(logits[masked])
            sure = logits.softmax(-1).gather(-1, found.unsqueeze(-1)).squeeze(-1)
            sure[:, last:] = -torch.inf
            sure = torch.where(masked, sure, -torch.inf)
            places = leading(sure[0], block_length // own + (step < block_length % own))
            x[0, places] = found[0, places]
        assert not (x[0, first:last] == MASK).any()
    return x[0, len(PROMPT) :].tolist()


def dream(model: Any, count: int, steps: int, remasking: str) -> list[int]:
    """Times from 1 to nearly 0, without sampling."""
    x = torch.full((1, len(PROMPT) + count), MASK)
    x[0, : len(PROMPT)] = torch.tensor(PROMPT)
    times = torch.linspace(1, LEAST_TIME, steps + 1, dtype=torch.float64)
    for step in range(steps):
        masked = x == MASK
        logits = logits_of(model, x)
        logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)[masked]
        shares = logits.softmax(-1)
        found = best(logits) if masked.any() else logits.argmax(-1)
        if remasking == "entropy":
            sure = (shares * (shares + 1e-10).log()).sum(-1)
        elif remasking == "topk_margin":
            top = shares.topk(2).values
            sure = top[:, 0] - top[:, 1]
        else:
            sure = shares.max(-1).values
        left = int(masked.sum())
        number = int(left * (1 - times[step + 1] / times[step])) if step < steps - 1 else left
        if number:
            places = leading(sure, number)
            row = x[0, masked[0]]
            row[places] = found[places]
            x[0, masked[0]] = row
    return x[0, len(PROMPT) :].tolist()


def texts(salt: int) -> list[list[int]]:
    models = {name: model_of(name, salt) for name in MODELS}
    loops = {"llada": llada, "dream": dream}
    return [loops[name](models[name], count, **settings) for name, count, settings in CASES]


if __name__ == "__main__":
    with torch.no_grad():
        for salt in range(200):
            try:
                found = texts(salt)
            except AssertionError:
                continue
            if all(len({*text}) > 4 for text in found):
                break
        else:
            raise SystemExit("no weights give clear texts")
    print(write_json(Path(__file__).with_name("golden_denoising.json"), {"salt": salt, "texts": found}))
