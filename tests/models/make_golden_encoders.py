"""Makes golden_encoders/NAME.json with transformers, one for each configuration of encoder_configs.py:

    PYTHONPATH=. python tests/models/make_golden_encoders.py [NAME …]

For each task a file has the names and shapes of the parameters, the outputs of a batch with padding (its first and last
tokens), and the product of each parameter's gradient with a fixed vector. The weights are not stored: seeded.py makes
them here and in the tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from pyapp.models._index import MODEL_TYPES, TASKS
from tests.models.encoder_configs import CONFIGS, batch
from tests.models.seeded import direction, draw

FOLDER = Path(__file__).with_name("golden_encoders")
CLASSES = {
    "features": "AutoModel",
    "masked-lm": "AutoModelForMaskedLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "replaced-tokens": "AutoModelForPreTraining",
}


def model_of(name: str, task: str) -> Any:
    config = dict(CONFIGS[name])
    if task == "question-answering":
        config |= {"id2label": {"0": "start", "1": "end"}}
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made._attn_implementation = "eager"
    model = getattr(transformers, CLASSES[task]).from_config(made).float().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw(key, tuple(parameter.shape))))
    return model


def outputs(model: Any, name: str, task: str) -> Any:
    ids, mask, types = batch(CONFIGS[name])
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    if types is not None:
        given["token_type_ids"] = torch.tensor(types)
    if name == "dpr":  # which gives the first token alone
        return model.question_encoder.encode_proj(model(**given, output_hidden_states=True).hidden_states[-1])
    found = model(**given)
    if task == "question-answering":
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found[0]


def shown(x: Any) -> Any:
    """The first and the last token of the first text, and the last real token of the second."""
    return x if x.ndim == 2 else x[[0, 0, 1], [0, 6, 3]]


def rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values, np.float64).reshape(-1)]


def golden(name: str, task: str) -> dict[str, Any]:
    model = model_of(name, task)
    found = outputs(model, name, task)
    picked = shown(found)
    (picked * torch.from_numpy(direction(task, tuple(picked.shape))).float()).sum().backward()
    parameters = {}
    for key, parameter in model.named_parameters():
        grad = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.double().numpy()
        parameters[key] = [list(parameter.shape), *rounded([(grad * direction(key, grad.shape)).sum()])]
    return {"outputs": rounded(picked.detach()), "parameters": parameters}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CONFIGS:
        tasks = TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]]
        text = json.dumps({task: golden(name, task) for task in tasks}, separators=(",", ":"))
        (FOLDER / f"{name}.json").write_text(text + "\n")
        print(name, len(text))
