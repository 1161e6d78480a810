"""Makes golden_sequences/NAME.json with transformers, one for each configuration of sequence_configs.py:

    PYTHONPATH=. python tests/models/make_golden_sequences.py [NAME …]

A file has the names and shapes of the parameters with the product of each gradient and a fixed vector, logits of a
batch with padding, and the texts of every search. The weights are not stored: seeded.py makes them here and in the
tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.goldens import write_each, write_json
from tests.models.seeded import direction, draw, rounded
from tests.models.seeded_folders import along, configuration
from tests.models.sequence_configs import (
    CONFIGS,
    HEAD_IDS,
    HEAD_MASK,
    HEAD_TOKENS,
    HEADS,
    IDS,
    MASK,
    MOST,
    SEARCHES,
    TEXTS,
)


def model_of(name: str, salt: int) -> Any:
    config = CONFIGS[name]
    made = configuration(config, eager=True)
    model = transformers.AutoModelForSeq2SeqLM.from_config(made).float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if config["model_type"] == "fsmt" and "embed_positions" in key:  # sines and cosines
                parameter.requires_grad_(False)
            if parameter.requires_grad:
                scale = 4.0 if "shared" in key or "embed_tokens" in key else 1.0
                parameter.copy_(scale * torch.from_numpy(draw(key, tuple(parameter.shape), salt)))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.from_numpy(draw("bias", tuple(model.final_logits_bias.shape))))
    return model


def biases(self: Any, x: Any, scores: Any, positions: Any, buckets: Any) -> Any:
    """The biases of ProphetNet's second stream. Where transformers 5.24, as the authors' program, reads several tokens
    at once, a token has those of other tokens and heads: rows are ordered by heads, and looked up as if by tokens. One
    token at a time, as texts are written, has its own, which are these.
    """
    if buckets is None:
        return _biases(self, x, scores, positions, buckets)
    said = self.relative_pos_embeddings(x.transpose(1, 2))  # (B, streams, T, buckets * H)
    said = said.unflatten(-1, (self.num_buckets, self.num_attn_heads)).permute(0, 1, 4, 2, 3)
    return said.gather(-1, buckets.long()[:, None, None].expand(*said.shape[:3], *buckets.shape[1:]))


_streams = transformers.models.prophetnet.modeling_prophetnet.ProphetNetNgramSelfAttention
_biases = _streams.get_predict_relative_pos_embeddings
_streams.get_predict_relative_pos_embeddings = biases


def seeing(model: Any) -> dict[str, Any]:
    """The first token of LED's sources sees everything, as its authors have it."""
    first = torch.tensor([[1] + [0] * (len(IDS[0]) - 1)] * 2)
    return {"global_attention_mask": first} if model.config.model_type == "led" else {}


def searches(model: Any) -> dict[str, list[list[int]]]:
    found = {}
    for name, options in SEARCHES.items():
        given = {"forced_eos_token_id": None, "max_new_tokens": MOST} | options
        tokens = model.generate(
            torch.tensor(IDS), attention_mask=torch.tensor(MASK), do_sample=False, **given, **seeing(model)
        )
        end = model.config.eos_token_id
        rows = [row[1:] for row in tokens.tolist()]
        found[name] = [row[: row.index(end) + 1] if end in row else row for row in rows]
    return found


def golden(name: str) -> dict[str, Any]:
    best: tuple[int, int, Any] = (-1, 0, None)
    for salt in range(8):  # the weights that give the most different texts
        texts = searches(model_of(name, salt))
        different = len({tuple(row) for rows in texts.values() for row in rows})
        best = max(best, (different, -salt, texts), key=lambda entry: entry[:2])
    salt = -best[1]
    model = model_of(name, salt)
    given = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": TEXTS}
    options = {"use_cache": False} if model.config.model_type == "fsmt" else {}  # whose texts are seen whole with one
    logits = model(**{key: torch.tensor(value) for key, value in given.items()}, **seeing(model), **options).logits
    along(logits, "logits").backward()
    parameters = {}
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            product = (parameter.grad.double().numpy() * direction(key, parameter.shape)).sum()
            parameters[key] = [list(parameter.shape), *rounded([product])]
    return {
        "salt": salt, "parameters": parameters, "logits": rounded(logits[:, [0, -1]].detach()), "searches": best[2]
    }  # fmt: skip


def golden_head(name: str, task: str) -> dict[str, Any]:
    """BART, PLBART or T5 with a head."""
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"} | HEAD_TOKENS
    labels = {"0": "no", "1": "yes"} if task == "question-answering" else {"0": "no", "1": "perhaps", "2": "yes"}
    made = transformers.AutoConfig.for_model(CONFIGS[name]["model_type"], **config, id2label=labels)
    made._attn_implementation = "eager"
    ends = {
        "sequence-classification": "ForSequenceClassification", "question-answering": "ForQuestionAnswering",
        "token-classification": "ForTokenClassification",
    }  # fmt: skip
    kind = type(made).__name__.removesuffix("Config")
    model = getattr(transformers, f"{kind}{ends[task]}")(made).float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw(key, tuple(parameter.shape))))
    found = model(input_ids=torch.tensor(HEAD_IDS), attention_mask=torch.tensor(HEAD_MASK))
    answers = task == "question-answering"
    outputs = torch.stack([found.start_logits, found.end_logits], -1) if answers else found.logits
    along(outputs, task).backward()
    parameters = {
        key: rounded([(parameter.grad.double().numpy() * direction(key, parameter.shape)).sum()])[0]
        for key, parameter in model.named_parameters() if parameter.grad is not None
    }  # fmt: skip
    return {"outputs": rounded(outputs.detach()), "parameters": parameters}


if __name__ == "__main__":
    for name in {name for name, _ in HEADS} & {*(sys.argv[1:] or CONFIGS)}:
        heads = {task: golden_head(name, task) for kind, task in HEADS if kind == name}
        write_json(Path(__file__).with_name("golden_sequences") / f"{name}_heads.json", heads)
    write_each(__file__, CONFIGS, golden)
