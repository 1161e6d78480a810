"""Makes golden_decoders/NAME.json with transformers, one for each configuration of decoder_configs.py:

    PYTHONPATH=. python tests/models/make_golden_decoders.py [NAME …]

RWKV 5's to 7's come from their author's package (rwkv_reference.py), Based's from its formulas (based_reference.py). A
file has the names and shapes of the parameters, logits, greedy tokens through transformers' cache, logits of a batch
with padding, and of each parameter's gradient the sum and the product with a fixed vector. The weights are not stored:
seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, LlamaForCausalLM, Mistral4ForCausalLM

from tests.goldens import write_each
from tests.models import based_reference, rwkv_reference
from tests.models.decoder_configs import CONFIGS
from tests.models.seeded import draw, gradients_of, rounded

GIVE_NOTHING = (
    "Exaone4ForCausalLM",
    "Ernie4_5ForCausalLM",
    "Ernie4_5_MoeForCausalLM",
)  # whose own forward returns None in transformers 5.24
UNLISTED = {"mistral4": Mistral4ForCausalLM}  # which AutoModelForCausalLM does not know
COMPUTED = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")  # MiniMax's buffers, which are no weights
OWN = {**rwkv_reference.MODELS, **based_reference.MODELS}
UNMASKED = (
    "RwkvForCausalLM",
    "Rwkv6",
    "Rwkv7",
    "Based",
    "xLSTMForCausalLM",
    "DeepseekV4ForCausalLM",
)  # which take padding for tokens: their texts are read alone
STEPS = 64
MARGIN = 2e-3  # of the best logit over the second, at every greedy step: no rounding may decide
TEXT = [3, 17, 5, 60, 8, 44, 2, 9, 71, 30, 12, 1]
BATCH = [[0, 0, 0, 5, 9, 33, 21], [7, 90, 14, 2, 65, 11, 40]]
MASK = [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]


def model_of(name: str, salt: int) -> Any:
    config = dict(CONFIGS[name])
    if (own := OWN.get(config["model_type"])) is not None:
        model: Any = own(config)
    else:
        made = AutoConfig.for_model(config.pop("model_type"), **config)
        # Falcon's eager attention adds its linear biases twice.
        made._attn_implementation = "sdpa" if config.get("alibi") else "eager"
        found = UNLISTED.get(made.model_type)
        model = (found(made) if found else AutoModelForCausalLM.from_config(made)).float().eval()
    if type(model).__name__ in GIVE_NOTHING:
        type(model).forward = LlamaForCausalLM.forward
    with torch.no_grad():
        saved = {*model.state_dict()}
        buffers = (
            (key, buffer)
            for key, buffer in model.named_buffers()
            if key in saved and buffer.is_floating_point() and not key.endswith(COMPUTED)
        )
        for key, tensor in [*model.named_parameters(), *buffers]:
            tensor.copy_(torch.from_numpy(draw(key, tuple(tensor.shape), salt)))
    return model


def greedy(model: Any) -> tuple[list[int], float]:
    """The tokens, and the smallest lead of a chosen token."""
    tokens, cache, lead = [], None, float("inf")
    name = "cache" if model._is_stateful else "past_key_values"
    name = "state" if type(model).__name__ == "RwkvForCausalLM" else name
    if type(model).__name__ == "RecurrentGemmaForCausalLM":  # which returns no cache, and keeps its states itself
        cache = DynamicCache(config=model.config)
    ids = torch.tensor([TEXT])
    for _ in range(STEPS):
        if type(model).__name__ == "BambaForCausalLM":  # which counts positions from 0 in every call
            at = 0 if cache is None else len(TEXT) + len(tokens) - 1
            found = model(ids, use_cache=True, position_ids=torch.arange(at, at + ids.shape[1])[None], **{name: cache})
        else:
            found = model(ids, use_cache=True, **{name: cache})
        cache = found.get(name, cache)
        best = found.logits[0, -1].topk(2).values
        lead = min(lead, float(best[0] - best[1]))
        tokens.append(int(found.logits[0, -1].argmax()))
        ids = torch.tensor([tokens[-1:]])
        if type(model).__name__ == "OpenAIGPTLMHeadModel":  # which has no cache
            ids = torch.tensor([TEXT + tokens])
    return tokens, lead


def golden(name: str) -> dict[str, Any]:
    for salt in range(20):
        model = model_of(name, salt)
        with torch.no_grad():
            tokens, lead = greedy(model)
        if lead > MARGIN and len(set(tokens)) > 4:
            break
    else:
        raise SystemExit(f"{name}: no weights give clear tokens")
    with torch.no_grad():
        logits = model(torch.tensor([TEXT])).logits[0]
        if type(model).__name__ in UNMASKED:
            texts = ([t for t, kept in zip(*row, strict=True) if kept] for row in zip(BATCH, MASK, strict=True))
            padded = torch.cat([model(torch.tensor([text])).logits[:, -1:] for text in texts])
        else:
            padded = model(torch.tensor(BATCH), attention_mask=torch.tensor(MASK)).logits
    read = model(torch.tensor([TEXT[:-1]]), use_cache=False).logits[0]  # states of caches may change in place
    loss = torch.nn.functional.cross_entropy(read, torch.tensor(TEXT[1:]))
    loss.backward()
    parameters = gradients_of(model)
    state = sorted(key for key in model.state_dict() if not key.endswith(COMPUTED))
    return {
        "salt": salt,
        "state": [key for key in state if key not in parameters],
        "parameters": parameters,
        "logits": rounded(logits[[0, -1]]),
        "tokens": tokens,
        "padded": rounded(padded[:, -1]),
        "loss": float(loss.detach()),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
