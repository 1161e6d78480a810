"""Writes golden_whisper.pt: a small model as openai-whisper's own files are (dims and model_state_dict, torch.save).

Run: python -m tests.models.make_golden_whisper_file (needs torch).
"""

from __future__ import annotations

from pathlib import Path

import torch

from .whisper_model import SPEAKING, weights


def main() -> None:
    values = {name: torch.from_numpy(value).half() for name, value in weights(SPEAKING).items()}
    dims = SPEAKING.to_dict()
    torch.save({"dims": dims, "model_state_dict": values}, Path(__file__).parent / "golden_whisper.pt")


if __name__ == "__main__":
    main()
