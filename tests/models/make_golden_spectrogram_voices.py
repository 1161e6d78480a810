"""Makes golden_spectrogram_voices/NAME.json with transformers, for the configurations of spectrogram_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_spectrogram_voices.py

SpeechT5's has the names and shapes of its tensors in files, what it makes of two texts, of which the second is padded,
and of frames, the gradients of that, the frames that it writes of the first text, and their sound by the vocoder. The
numbers that the prenet leaves out at random are fixed ones.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

from tests.goldens import write_json
from tests.models.seeded import gradients_of, rounded, shown
from tests.models.seeded_folders import along, fill
from tests.models.spectrogram_voice_configs import CONFIGS, LETTERS, OTHER, TEXT, frames, kept, voices, weights

FOLDER = Path(__file__).with_name("golden_spectrogram_voices")


def filled(kind: Any, name: str) -> Any:
    config = dict(CONFIGS[name])
    config.pop("model_type")
    made = getattr(transformers, f"{kind.removesuffix('ForTextToSpeech')}Config")(**config)
    model = getattr(transformers, kind)(made)
    fill(model, weights)
    return model.float().eval()


def letters() -> dict[str, Any]:
    """A model of letters by sentencepiece, as SpeechT5 has, and the numbers of a text."""
    made = io.BytesIO()
    text = "".join(letter * (40 - i) for i, letter in enumerate(LETTERS[5:]))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(text)]), model_writer=made, model_type="char", vocab_size=len(LETTERS),
        bos_id=0, pad_id=1, eos_id=2, unk_id=3, normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    words = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    assert [words.id_to_piece(i) for i in range(len(LETTERS))] == LETTERS
    return {"letters": base64.b64encode(made.getvalue()).decode(), "ids": words.encode("Heta  eta  .")}


def tensors(model: Any) -> dict[str, list[int]]:
    return {key: list(value.shape) for key, value in model.state_dict().items() if value.is_floating_point()}


def main() -> None:
    model, vocoder = filled("SpeechT5ForTextToSpeech", "speecht5"), filled("SpeechT5HifiGan", "vocoder")
    torch.bernoulli = lambda x, p: torch.from_numpy(kept(tuple(x.shape)).copy())
    ids = torch.tensor([TEXT, [*OTHER, *[1] * (len(TEXT) - len(OTHER))]])
    out = model.speecht5(
        ids, (ids != 1).long(), torch.from_numpy(frames()), speaker_embeddings=torch.from_numpy(voices())
    )[0]
    plain, refined, ends = model.speech_decoder_postnet(out)
    loss = sum(along(values, name) for name, values in (("refined", refined), ("ends", ends)))
    loss.backward()
    with torch.no_grad():
        voice = torch.from_numpy(voices()[1:])
        written = model.generate(torch.tensor([TEXT]), speaker_embeddings=voice)
        sound = model.generate(torch.tensor([TEXT]), speaker_embeddings=voice, vocoder=vocoder)
    found = {
        "tensors": tensors(model), "parameters": gradients_of(model), "loss": float(loss.detach()),
        "plain": rounded(shown(plain.detach().numpy())), "refined": rounded(shown(refined.detach().numpy())),
        "ends": rounded(ends.detach().numpy()), "frames": list(written.shape), "written": rounded(shown(written)),
        "sound": rounded(shown(sound.numpy(), 64)),
    }  # fmt: skip
    found["tensors"] = {key: shape for key, shape in found["tensors"].items() if key not in found["parameters"]}
    found |= letters()
    FOLDER.mkdir(exist_ok=True)
    for name, values in (("speecht5", found), ("vocoder", {"tensors": tensors(vocoder)})):
        write_json(FOLDER / f"{name}.json", values, separators=(",", ":"))
    print(written.shape, sound.shape, sound.abs().max(), ends.sigmoid())


if __name__ == "__main__":
    main()
