"""Models that speak their replies, against transformers (make_golden_reply_voices.py): the tensors of their files, the
codes of a reply, and sound; voices, the task and the command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import read_wav, reply_voice
from pyapp.audio.reply_voice import ReplyVoice
from pyapp.audio.speaking import SpeakOptions, speak, speak_events
from pyapp.audio.wav import as_pcm
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Sound
from pyapp.models.load import load_model
from pyapp.models.loading.voice import SPEAKERS, load_voice
from pyapp.models.qwen_omni import Speaking, renamed
from pyapp.nn.audio import code_wave
from pyapp.nn.audio.talkers import Heard
from tests.models.reply_voice_configs import (
    ASKED,
    CONFIGS,
    DRAWN,
    MOST,
    RECORDED,
    ROLE,
    VOICE,
    conversation,
    recorded,
    weights,
)
from tests.models.seeded import shown
from tests.models.sense_configs import PICTURE, SETTINGS, SOUND, SOUND_ENDS
from tests.models.small_models import golden_in, numbers
from tests.models.sound_configs import recording
from tests.models.test_described_voices import letters
from tests.models.test_senses import TOKENS
from tests.models.voice_folders import drawn, write_folder

CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}
RATE = 24000
golden = golden_in("golden_reply_voices")


def known() -> dict[str, Any]:
    """What Qwen2.5-Omni knows of two voices."""
    vector, mel = map(pyapp.from_numpy, recorded(5))
    one = {"bos_token": VOICE[1], "cond": vector, "ref_mel": mel}
    return {VOICE[0]: one, "Ethan": {**one, "cond": -vector}}


def with_sound(name: str) -> str:
    """A tokenizer.json of letters, with the tokens of recordings and pictures."""
    document = json.loads(letters())
    vocab = document["model"]["vocab"]
    document["model"]["vocab"] = {piece: id if id < 3 else id + 100 for piece, id in vocab.items()}
    marks = dict(zip(TOKENS[f"{name}_thinker"][:4], (SOUND, *SOUND_ENDS, PICTURE), strict=True))
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for mark, id in {**marks, "<|im_start|>": 40, "<|im_end|>": 41}.items():
        document["model"]["vocab"][mark] = id
        document["added_tokens"].append({"id": id, "content": mark, **plain, "special": True})
    return json.dumps(document)


@pytest.fixture(scope="module", params=CONFIGS)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], Any, Path]:
    name, folder = request.param, tmp_path_factory.mktemp("model")
    tensors = drawn(golden(name)["tensors"], weights)
    write_folder(folder, tensors, CONFIGS[name], tokenizer=with_sound(name), preprocessor_config=SETTINGS)
    if not name.startswith("qwen3"):
        pyapp.save(known(), folder / SPEAKERS)
    return name, golden(name), load_voice(folder), folder


def result_of(steps: Any) -> Any:
    """What a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def evenly(*shape: int) -> pyapp.Tensor:
    """What stands for noise."""
    return pyapp.linspace(-1, 1, int(np.prod(shape))).reshape(*shape)


def test_parity(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files give every parameter; the likeliest codes, and the sound of them and of others, are those of
    transformers.
    """
    name, expected, loaded, _ = case
    voice: ReplyVoice = loaded.model
    model: Speaking = voice.model
    own = {key for key, _ in model.named_parameters() if ".experts." not in key}  # which the file has apart
    own.discard("talker.predictor.model.embed_tokens.weight")  # one of the tables
    assert own <= {renamed(key) for key in expected["tensors"]}
    newer = name.startswith("qwen3")
    known_of = () if newer else voice._voices[VOICE[0]][1:]
    with pyapp.no_grad():
        read = model.read(ASKED, ROLE, expected["reply"][:-1], 37 if newer else VOICE[1])
        found = [*voice.written(read, MOST, 0.0, 1)]
        codes = expected["codes"] if newer else [[code] for code in expected["codes"]]
        assert found[: len(codes)] == codes and len(codes) >= MOST - 1
        rows = (np.arange(DRAWN * len(codes[0])).reshape(-1, DRAWN) * 7 % 40).T.tolist()
        for what, given in (("sound", codes), ("drawn", rows)):
            parts = [numbers(part) for part in model.sound(given, known_of, evenly) if part is not None]
            np.testing.assert_allclose(shown(np.concatenate(parts), 120), expected[what], **CLOSE)
            monkeypatch.setattr(code_wave, "CHUNK", 4)
            monkeypatch.setattr(code_wave, "CONTEXT", 2)


def test_speech(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with the same seed, another one with another and in another voice; all voices have names."""
    name, _, loaded, folder = case
    newer = name.startswith("qwen3")
    assert loaded.voices == (("ethan", "aiden") if newer else (VOICE[0], "Ethan")) and loaded.speakers == 2
    monkeypatch.setattr(reply_voice, "MOST", 8)
    found, rate = speak(loaded, "it is", {"seed": 4})
    assert rate == RATE and len(found) and np.array_equal(found, speak(loaded, "it is", {"seed": 4})[0])
    other = {"seed": 4, "voice": loaded.voices[1]}
    assert not np.array_equal(found, speak(loaded, "it is", {"seed": 5})[0])
    assert not np.array_equal(found, speak(loaded, "it is", other)[0])
    for text, options, told in (
        ("it", {"rate": 2}, "its own"), ("it", {"phonemes": True}, "letters"), ("it", {"voice": "x"}, "no voice"),
        ("a " * 250, {}, "too long"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            speak(loaded, text, options)


def test_replies_to_a_conversation(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply is spoken as a whole, after what the talker reads of the conversation, in two where it is long."""
    name, _, loaded, _ = case
    monkeypatch.setattr(reply_voice, "MOST", 8)
    voice: ReplyVoice = loaded.model
    seen = [{"type": "image", "image": "a.png"}, {"type": "text", "text": "so"}]
    said: list[dict[str, Any]] = [{"role": "user", "content": "is it"}, {"role": "assistant", "content": "no"}]
    said.append({"role": "user", "content": seen})
    turn = "<|im_start|>{}\n{}<|im_end|>\n".format
    text = turn("user", "is it") + turn("user", "so")
    if not name.startswith("qwen3"):
        text = "".join(
            turn(*one)
            for one in (
                ("system", reply_voice.SYSTEM), ("user", "is it"), ("assistant", "no"), ("user", "so")
            )
        )  # fmt: skip
    asked, _ = result_of(voice.asked_in(said))
    assert asked == voice._words.encode_guarded(text)
    options = SpeakOptions(seed=4)

    def spoken(reply: str) -> list[Any]:
        return [event for event in speak_events(loaded, reply, options, Cancel(), said) if isinstance(event, Sound)]

    (found,) = spoken("**It** is. So it is.")
    ids = loaded.tokenizer.read("It is. So it is.", False).ids
    parts = [part for part in voice.replied(asked, ids, options, 4) if part is not None]
    assert found.pcm == as_pcm(np.concatenate(parts)) and found.text == "It is. So it is."
    monkeypatch.setattr(reply_voice, "AT_ONCE", {False: 12, True: 12})
    assert [sound.text for sound in spoken("It is. So it is.")] == ["It is.", "So it is."]
    assert not spoken("***\n")


def test_recordings_reach_the_talker(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a recording in a conversation, the codes of the reply are those of transformers; a voice hears recordings
    by the ears of the model that it belongs to, and leaves them out without.
    """
    name, expected, loaded, folder = case
    voice, writer = loaded.model, load_model(folder)
    ears: Any = writer.model
    model, newer = voice.model, name.startswith("qwen3")
    processor = writer.hearing or writer.processor
    samples = recording(RECORDED)
    turns = conversation(name)
    told = [id for _, turn in turns for id in turn]
    asked = [id for role, turn in turns for id in turn if role == 42 or not newer]
    with pyapp.no_grad():
        vectors = ears.ears.vectors_of(processor(samples), [processor.size(len(samples))])
        heard = Heard([place for place, id in enumerate(told) if id == SOUND], vectors)
        heard = Heard([i for i, id in enumerate(asked) if id == SOUND], model.states_of(writer.model, told, heard))
        answer = expected["heard"]
        read = model.read(asked, ROLE, answer["reply"][:-1], 37 if newer else VOICE[1], heard)
        codes = answer["codes"] if newer else [[code] for code in answer["codes"]]
        found = [*voice.written(read, MOST, 0.0, 1)]
    assert found[: len(codes)] == codes and len(codes) > 8
    parts = [{"type": "audio", "audio": samples}, {"type": "text", "text": "so"}]
    said: list[dict[str, Any]] = [{"role": "system", "content": "no"}, {"role": "user", "content": parts}]
    asked, own = result_of(voice.asked_in(said, writer))
    assert len(own.places) == len(heard.places) == len(own.vectors) and {asked[place] for place in own.places} == {
        SOUND
    }
    if not newer:
        np.testing.assert_allclose(numbers(own.vectors), numbers(vectors), atol=0.1)  # its offset is taken away
    assert result_of(voice.asked_in(said))[1] is None and result_of(voice.asked_in(said[:1], writer))[1] is None
    monkeypatch.setattr(reply_voice, "MOST", 8)

    def spoken(ears: Any) -> list[bytes]:
        events = speak_events(loaded, "it is", SpeakOptions(seed=4), Cancel(), said, ears)
        return [event.pcm for event in events if isinstance(event, Sound)]

    assert spoken(writer) != spoken(None)


HOSTILE: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "qwen2_5_omni": [
        ("talker_config", {"embedding_size": 31}, "embedding_size"),
        ("talker_config", {"tts_codec_start_token_id": 60}, "tts_codec_start_token_id"),
        ("token2wav_config", {"dit_config": []}, "dit_config"),
        ("token2wav_config", {"dit_config": {"mel_dim": 5, "enc_channels": [4, 4, 9]}}, "enc_channels"),
        ("token2wav_config", {"dit_config": {"mel_dim": 6}}, "mel_dim"),
    ],
    "qwen3_omni_moe": [
        ("talker_config", {"num_code_groups": 2}, "num_code_groups"),
        ("talker_config", {"speaker_id": {"x": 5000}}, "5000"),
        ("talker_config", {"accept_hidden_layer": 3}, "accept_hidden_layer"),
        ("code2wav_config", {"num_key_value_heads": 1}, "num_key_value_heads"),
        ("code2wav_config", {"upsample_rates": [100]}, "upsample_rates"),
    ],
}  # fmt: skip


@pytest.mark.native_only
def test_the_command_and_hostile_files(case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    name, _, loaded, folder = case
    monkeypatch.setattr(reply_voice, "MOST", 8)
    file = tmp_path / "speech.wav"
    arguments = ["speak", "it", "-m", str(folder), "--voice", loaded.voices[1], "-o", str(file)]
    found = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert found.return_value == 0 and read_wav(file)[1] == RATE, found.output
    for part, changed, told in HOSTILE[name]:
        (folder / "config.json").write_text(json.dumps(CONFIGS[name] | {part: CONFIGS[name][part] | changed}))
        with pytest.raises(ModelError, match=told):
            load_voice(folder)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    if not name.startswith("qwen3"):
        for wrong, told in (({"x": 1}, "bos_token"), ([1], "by name"), ({"x": {"bos_token": 5}}, "a vector of 4")):
            pyapp.save(wrong, folder / SPEAKERS)
            with pytest.raises(ModelError, match=told):
                load_voice(folder)
        (folder / SPEAKERS).unlink()
        with pytest.raises(ModelError, match="voices are missing"):
            load_voice(folder)
