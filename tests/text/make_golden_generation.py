"""Writes golden_generation.json: what transformers' logits processors and beam search choose.

    PYTHONPATH=. python tests/text/make_golden_generation.py

`steps`: for settings and a text, the token that each number from [0, 1) draws, where tokens are in descending order of
their probability (ties do not occur). Frequency and presence penalties are by OpenAI's formula, because transformers
has none. `beams`: the texts of beam search over tests/text/table_model.py, and their scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, PretrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin
from transformers.generation import logits_process as process
from transformers.modeling_outputs import CausalLMOutputWithPast

from tests.goldens import write_json
from tests.text.table_model import EOS, VOCABULARY, TableTokenizer, logit

OUT = Path(__file__).with_name("golden_generation.json")
DRAWS = [0.0, 0.02, 0.1, 0.2, 0.33, 0.5, 0.62, 0.75, 0.9, 0.97, 0.999]
PROMPT, TEXT = [1, 5, 9, 5, 9, 7, 4, 5], [9, 11, 4, 5, 9, 11, 4, 5]
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.0, "repetition_penalty": 1.7},
    {"temperature": 1.0},
    {"temperature": 0.6, "top_k": 5},
    {"temperature": 1.5, "top_p": 0.8},
    {"temperature": 1.5, "min_p": 0.1},
    {"temperature": 1.0, "typical_p": 0.5},
    {"temperature": 2.0, "typical_p": 0.9, "top_k": 12, "top_p": 0.95},
    {"temperature": 1.0, "repetition_penalty": 1.5, "no_repeat_ngram": 3},
    {"temperature": 1.0, "no_repeat_ngram": 1},
    {"temperature": 0.0, "no_repeat_ngram": 2},
    {"temperature": 1.0, "logit_bias": {"4": 3.5, "17": -100.0, "9": -1.0}},
    {"temperature": 1.0, "logit_bias": {"5": 2.0, "9": -1.0}, "repetition_penalty": 1.3},
    {"temperature": 1.0, "frequency_penalty": 0.8},
    {"temperature": 0.7, "presence_penalty": -1.2, "frequency_penalty": 0.3, "repetition_penalty": 1.2},
    {"temperature": 1.0, "suppress_tokens": [4, 9, 17], "begin_suppress_tokens": [3, 6]},
    {"temperature": 1.0, "bad_words_ids": [[8], [5, 11], [4, 5, 13], [11, 4, 5, 10], [4, 4, 5, 3]]},
    {"temperature": 0.0, "bad_words_ids": [[4, 5, 13]], "no_repeat_ngram": 2, "min_new_tokens": 40},
    {"temperature": 1.0, "min_new_tokens": 9},
    {"temperature": 1.0, "min_new_tokens": 8},
]
# Settings of greedy texts, in transformers' names.
GREEDY: list[dict[str, Any]] = [
    {"begin_suppress_tokens": [21, 9]},
    {"suppress_tokens": [21], "no_repeat_ngram_size": 2},
    {"bad_words_ids": [[21, 21], [9], [5, 21, 2]], "max_new_tokens": 12},
    {"min_new_tokens": 10, "max_new_tokens": 12, "suppress_tokens": [21], "no_repeat_ngram_size": 2},
    {"min_length": 9, "max_new_tokens": 12, "suppress_tokens": [21], "no_repeat_ngram_size": 2},
    {"forced_bos_token_id": 9, "forced_eos_token_id": 7, "max_new_tokens": 6},
    {"repetition_penalty": 1.4, "begin_suppress_tokens": [2], "min_new_tokens": 7, "max_new_tokens": 16},
]
BEAMS: list[dict[str, Any]] = [
    {"beams": 2},
    {"beams": 4, "samples": 4},
    {"beams": 4, "samples": 3, "early_stopping": True},
    {"beams": 3, "samples": 3, "early_stopping": "never", "length_penalty": 1.5},
    {"beams": 5, "samples": 2, "length_penalty": -0.5},
    {"beams": 3, "samples": 3, "length_penalty": 0.0},
    {"beams": 3, "samples": 3, "repetition_penalty": 1.6, "max_new_tokens": 12},
    {"beams": 4, "samples": 4, "no_repeat_ngram": 2, "max_new_tokens": 12},
    {"beams": 3, "samples": 2, "logit_bias": {"7": 2.0, "2": -3.0}, "repetition_penalty": 1.3, "no_repeat_ngram": 1},
    {"beams": 3, "samples": 3, "stop": ["sg", "ssse"], "max_new_tokens": 12, "logit_bias": {"2": -8.0}},
    {
        "beams": 4,
        "samples": 4,
        "stop": ["g", "se"],
        "length_penalty": 2.0,
        "early_stopping": True,
        "logit_bias": {"2": -8.0},
    },
]


def processed(settings: dict[str, Any], logits: torch.Tensor) -> torch.Tensor:
    """The changed logits (V,) before they become probabilities."""
    ids = torch.tensor([PROMPT + TEXT])
    early: list[Any] = []
    if "logit_bias" in settings:
        early.append(process.SequenceBiasLogitsProcessor([[[int(i)], b] for i, b in settings["logit_bias"].items()]))
    if settings.get("repetition_penalty", 1) != 1:
        early.append(process.RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"]))
    scores = LogitsProcessorList(early)(ids, logits[None].clone())
    counts = torch.bincount(torch.tensor(TEXT), minlength=VOCABULARY).float()
    scores = scores - counts * settings.get("frequency_penalty", 0) - (counts > 0) * settings.get("presence_penalty", 0)
    late: list[Any] = []
    if "no_repeat_ngram" in settings:
        late.append(process.NoRepeatNGramLogitsProcessor(settings["no_repeat_ngram"]))
    if "bad_words_ids" in settings:
        late.append(process.NoBadWordsLogitsProcessor(settings["bad_words_ids"], torch.tensor([EOS])))
    if "min_new_tokens" in settings:
        late.append(
            process.MinNewTokensLengthLogitsProcessor(len(PROMPT), settings["min_new_tokens"], torch.tensor([EOS]))
        )
    if "suppress_tokens" in settings:
        late.append(process.SuppressTokensLogitsProcessor(settings["suppress_tokens"]))
    if "begin_suppress_tokens" in settings:
        begin = len(PROMPT)
        late.append(process.SuppressTokensAtBeginLogitsProcessor(settings["begin_suppress_tokens"], begin))
    if settings["temperature"]:
        late.append(process.TemperatureLogitsWarper(settings["temperature"]))
    for name, warper in (("top_k", process.TopKLogitsWarper), ("top_p", process.TopPLogitsWarper),
                         ("min_p", process.MinPLogitsWarper), ("typical_p", process.TypicalLogitsWarper)):  # fmt: skip
        if name in settings:
            late.append(warper(settings[name]))
    return LogitsProcessorList(late)(ids, scores)[0]


def drawn(settings: dict[str, Any]) -> list[int]:
    logits = torch.tensor([logit((PROMPT + TEXT)[-1], token) for token in range(VOCABULARY)])
    scores = processed(settings, logits)
    if not settings["temperature"]:
        return [int(scores.argmax())]
    values, order = torch.softmax(scores.double(), -1).sort(descending=True)
    sums = values.cumsum(-1)
    return [int(order[int((sums <= draw).sum())]) for draw in DRAWS]


class Table(PreTrainedModel, GenerationMixin):
    """The table as a model of transformers."""

    config_class = PretrainedConfig

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__(config)
        rows = [[logit(a, b) for b in range(VOCABULARY)] for a in range(VOCABULARY)]
        self.table = torch.nn.Parameter(torch.tensor(rows))

    def forward(self, input_ids: torch.Tensor, **_: Any) -> CausalLMOutputWithPast:
        return CausalLMOutputWithPast(logits=self.table[input_ids])

    def prepare_inputs_for_generation(self, input_ids: torch.Tensor, **_: Any) -> dict[str, Any]:
        return {"input_ids": input_ids}


def stopping(settings: dict[str, Any]) -> list[Any]:
    """Whether one of the stop strings is in the new text, as transformers' StopStringCriteria tells."""

    def criterion(ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        return torch.tensor([has_stop(row[2:], settings) for row in ids.tolist()])

    return [criterion]


def has_stop(tokens: list[int], settings: dict[str, Any]) -> bool:
    text = "".join(TableTokenizer.letters[token] for token in tokens)
    return any(stop in text for stop in settings.get("stop", ()))


def searched(settings: dict[str, Any]) -> list[dict[str, Any]]:
    model = Table(PretrainedConfig(vocab_size=VOCABULARY, num_hidden_layers=1, hidden_size=1, num_attention_heads=1))
    options = GenerationConfig(
        num_beams=settings["beams"], num_return_sequences=settings.get("samples", 1),
        max_new_tokens=settings.get("max_new_tokens", 8), eos_token_id=EOS,
        repetition_penalty=settings.get("repetition_penalty"), no_repeat_ngram_size=settings.get("no_repeat_ngram"),
        sequence_bias=[[[int(i)], b] for i, b in settings.get("logit_bias", {}).items()] or None,
        pad_token_id=EOS, length_penalty=settings.get("length_penalty", 1.0), use_cache=False, do_sample=False,
        early_stopping=settings.get("early_stopping", False), return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    found = model.generate(torch.tensor([[1, 5]]), generation_config=options, stopping_criteria=stopping(settings))
    rows = zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True)
    return [{"tokens": until_end(row[2:], settings), "score": score} for row, score in rows]


def greedy(settings: dict[str, Any]) -> list[int]:
    model = Table(PretrainedConfig(vocab_size=VOCABULARY, num_hidden_layers=1, hidden_size=1, num_attention_heads=1))
    options = GenerationConfig(**{"max_new_tokens": 8} | settings, eos_token_id=EOS, pad_token_id=EOS, use_cache=False)
    return until_end(model.generate(torch.tensor([[1, 5]]), generation_config=options)[0].tolist()[2:], {})


def until_end(tokens: list[int], settings: dict[str, Any]) -> list[int]:
    """Without what fills the row after the end of the text."""
    for count in range(1, len(tokens)):
        if tokens[count - 1] == EOS or has_stop(tokens[:count], settings):
            return tokens[:count]
    return tokens


def main() -> None:
    golden = {
        "draws": DRAWS, "prompt": PROMPT, "text": TEXT,
        "steps": [{"settings": settings, "tokens": drawn(settings)} for settings in SETTINGS],
        "beams": [{"settings": settings, "texts": searched(settings)} for settings in BEAMS],
        "greedy": [{"settings": settings, "tokens": greedy(settings)} for settings in GREEDY],
    }  # fmt: skip
    write_json(OUT, golden)
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
