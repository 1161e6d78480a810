"""Makes golden.json with trl (1.16), peft and transformers:

    PYTHONPATH=. python -m tests.recipes.finetune.make_golden

It has the first losses of DPOTrainer, ORPOTrainer, CPOTrainer and KTOTrainer of each kind, over a model whose adapter
has seeded values, and that of RewardTrainer.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

from tests.goldens import write_json
from tests.models.seeded import draw
from tests.recipes.finetune.preference_case import (
    BETA,
    GAMMA,
    KINDS,
    LABELLED,
    PAIRS,
    REFERENCE_FREE,
    SCORES,
    SMOOTHING,
    UNPAIRED,
    WEIGHTS,
)
from tests.text.chat_model import write_chat_model

TARGET = Path(__file__).with_name("golden.json")


def first_loss(folder: Path, trainer_class: Any, settings: Any, lines: Sequence[Any] = PAIRS) -> float:
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    adapter = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "model" / "tokenizer.json"), eos_token="<|im_end|>", pad_token="<|im_start|>"
    )
    trainer = trainer_class(model, args=settings, train_dataset=Dataset.from_list([*lines]), processing_class=tokenizer,
                            peft_config=adapter)  # fmt: skip
    trainer.model.eval()
    with torch.no_grad():  # only now: an adapter that is there already is the reference
        for key, parameter in trainer.model.named_parameters():
            if parameter.requires_grad:
                known = key.replace(".default", "").replace("base_model.model.", "")
                parameter.copy_(torch.from_numpy(draw(known, tuple(parameter.shape))))
    batch = next(iter(trainer.get_train_dataloader()))
    with torch.no_grad():
        return float(trainer.compute_loss(trainer.model, batch))


def loss_of(folder: Path, kind: str) -> float:
    settings: dict[str, Any] = {
        "output_dir": str(folder / "out"), "per_device_train_batch_size": 2, "beta": BETA, "use_cpu": True,
        "report_to": [], "bf16": False, "gradient_checkpointing": False,
    }  # fmt: skip
    if kind == "orpo":
        return first_loss(folder, ORPOTrainer, ORPOConfig(**settings))
    if kind in UNPAIRED:
        settings |= {"per_device_train_batch_size": len(LABELLED), "loss_type": kind}
        settings |= dict(zip(("desirable_weight", "undesirable_weight"), WEIGHTS, strict=True))
        return first_loss(folder, KTOTrainer, KTOConfig(**settings), LABELLED)
    settings["label_smoothing"] = SMOOTHING if kind in ("robust", "cpo", "simpo") else 0.0
    if kind in REFERENCE_FREE:
        loss = {"loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": GAMMA} if kind == "simpo" else {}
        return first_loss(folder, CPOTrainer, CPOConfig(**settings, **loss))
    return first_loss(folder, DPOTrainer, DPOConfig(**settings, loss_type=[kind]))


def reward(center: float | None, with_margin: bool) -> float:
    chosen, rejected, margin = map(torch.tensor, SCORES)
    accelerator = SimpleNamespace(gather_for_metrics=lambda x: x, gather=lambda x: x)
    trainer: Any = SimpleNamespace(
        model=SimpleNamespace(training=False), accelerator=accelerator, _metrics=defaultdict(lambda: defaultdict(list)),
        args=SimpleNamespace(center_rewards_coefficient=center), _total_train_tokens=0,
    )  # fmt: skip
    logits = torch.cat([chosen, rejected]).unsqueeze(-1)
    inputs = {"attention_mask": torch.ones(6, 1)} | ({"margin": margin} if with_margin else {})
    return float(RewardTrainer.compute_loss(trainer, lambda **_: SimpleNamespace(logits=logits), inputs))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        write_chat_model(Path(name) / "model", layers=1)
        kinds = (*KINDS, *REFERENCE_FREE, *UNPAIRED)
        found: dict[str, Any] = {"preferences": {kind: loss_of(Path(name), kind) for kind in kinds}}
    found["reward"] = [reward(None, False), reward(None, True), reward(0.01, False)]
    write_json(TARGET, found)
