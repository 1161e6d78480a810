"""Language models that hear, against transformers (make_golden_sound_texts.py): spectrograms, names, logits, gradients
and the tokens that they write; their files, transcription, and questions in a conversation.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio import write_wav
from pyapp.audio.processors.samples import LevelledSampleProcessor
from pyapp.audio.processors.spectrograms import (
    PairedSpectrogramProcessor,
    SpectrogramProcessor,
    WholeSpectrogramProcessor,
)
from pyapp.errors import FileFormatError, ModelError
from pyapp.events import Done, Error, Progress, Segment
from pyapp.formats import write_safetensors
from pyapp.models import _index, load_model, load_tokenizer
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn.vision_language.picture_text import Seen
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.pictures import Recording
from tests.models.seeded import direction, shown, sound_weights
from tests.models.small_models import along, golden_in, numbers
from tests.models.sound_configs import recording
from tests.models.sound_text_configs import (
    CONFIGS,
    EVEN,
    LEVELLED,
    LONG,
    LONGER,
    PAIRED,
    QUANTISED,
    SAMPLES,
    SETTINGS,
    SOUND,
    WHOLE,
    texts,
)
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
SPECIAL = {"<s>": 1, "</s>": 2, "[INST]": 3, "[/INST]": 4, "[AUDIO]": SOUND, "[BEGIN_AUDIO]": 25, "[TRANSCRIBE]": 34}
SPECIAL_OF_QWEN = {"</s>": 2, "<|im_start|>": 3, "<|im_end|>": 4, "<|AUDIO|>": SOUND, "<|audio_bos|>": 25,
                   "<|audio_eos|>": 26, "<|de|>": 27}  # fmt: skip
RESERVED = 40
CLEAR = 14720  # samples after which no two tokens are nearly as likely
WORDS = (b"on", b"es", b" t")
COUNTS = {"qwen3_asr": EVEN, "glmasr": LONG}  # the samples of other recordings than SAMPLES
SETTINGS_OF = {"granite_speech": PAIRED, "granite_speech_plus": PAIRED, "qwen3_asr": WHOLE, "glmasr": LONGER,
               "vibevoice_asr": LEVELLED}  # fmt: skip
golden = golden_in("golden_sound_texts")


def module_of(name: str) -> Any:
    return importlib.import_module(f"pyapp.models.{_index.MODEL_TYPES[name]}")


def by_names(name: str, model: Any) -> dict[str, pyapp.Tensor]:
    """The parameters of a model by the names of files."""
    found = dict(model.named_parameters())
    return {key: found[module_of(name).renamed(key)] for key in golden(name)["parameters"]}


@cache
def make(name: str) -> Any:
    """The model with the weights of its golden file."""
    module = module_of(name)
    model = module.TASKS["audio-text-to-text"](module.Config.from_dict(CONFIGS[name]))
    with pyapp.no_grad():
        for key, value in by_names(name, model).items():
            value.copy_(pyapp.from_numpy(sound_weights(key, tuple(value.shape))))
        for key, value in model.named_buffers():
            if value.dtype.is_floating_point:
                stored = key.replace("audio_tower.", "encoder.")  # as Granite Speech's files name it
                value.copy_(pyapp.from_numpy(sound_weights(stored, tuple(value.shape))))
    return model.eval().requires_grad_(False)


def tekken(special: Mapping[str, int] = SPECIAL, **changed: Any) -> dict[str, Any]:
    """A vocabulary of all bytes and a few words, in Mistral's form."""
    pieces = [*(bytes([byte]) for byte in range(256)), *WORDS]
    names = {number: name for name, number in special.items()}
    return {
        "config": {
            "pattern": r"[^\s]+|\s+[^\s]*", "default_vocab_size": RESERVED + len(pieces),
            "default_num_special_tokens": RESERVED,
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
            for i, piece in enumerate(pieces)
        ],
        "special_tokens": [
            {"rank": number, "token_str": names.get(number, f"<SPECIAL_{number}>"), "is_control": True}
            for number in range(RESERVED)
        ],
    } | changed  # fmt: skip


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them."""
    norms = {key.replace("audio_tower.", "encoder."): value for key, value in make(name).named_buffers()}
    norms = {key: value for key, value in norms.items() if "batch_norm" in key}
    files = {"preprocessor_config": SETTINGS_OF.get(name, SETTINGS), "tekken": tekken()}
    return write_folder(folder, by_names(name, make(name)) | norms, CONFIGS[name] | config, **files)


def mel(*counts: int, name: str = "voxtral") -> tuple[pyapp.Tensor, list[tuple[int, int]]]:
    """The spectrograms of recordings, and their sizes."""
    if name.startswith("granite_speech"):  # in one piece, and as transformers with silence after the shorter one
        paired = PairedSpectrogramProcessor.from_settings(PAIRED)
        sounds = [np.pad(recording(count), (0, max(counts) - count)) for count in counts]
        return pyapp.cat([paired(sound) for sound in sounds]), [paired.size(count) for count in counts]
    if name == "vibevoice_asr":  # likewise
        levelled = LevelledSampleProcessor.from_settings(LEVELLED)
        parts = [numbers(levelled(recording(count))) for count in counts]
        most = max(part.shape[2] for part in parts)
        parts = [np.pad(part, ((0, 0), (0, 0), (0, most - part.shape[2]))) for part in parts]
        return pyapp.from_numpy(np.concatenate(parts).astype(np.float32)), [levelled.size(count) for count in counts]
    if name == "qwen3_asr":  # likewise
        whole = WholeSpectrogramProcessor.from_settings(WHOLE)
        sounds = [np.pad(recording(count), (0, max(counts) - count)) for count in counts]
        return pyapp.cat([whole(sound) for sound in sounds]), [whole.size(count) for count in counts]
    processor = SpectrogramProcessor.from_settings(SETTINGS_OF.get(name, SETTINGS))
    return pyapp.cat([processor(recording(count)) for count in counts]), [processor.size(count) for count in counts]


@pytest.mark.parametrize("name", CONFIGS)
def test_spectrograms_logits_and_gradients_are_those_of_transformers(name: str) -> None:
    model, expected = make(name).requires_grad_(), golden(name)
    counts = COUNTS.get(name, SAMPLES)
    np.testing.assert_allclose(shown(numbers(mel(counts[0], name=name)[0]), 60), expected["mel"], **CLOSE)
    found, stored = by_names(name, model), expected["parameters"]
    assert {id(value) for value in found.values()} == {id(value) for value in model.parameters()}
    assert {key: shape for key, (shape, _) in stored.items()} == {k: list(value.shape) for k, value in found.items()}
    ids = pyapp.tensor(texts(name), dtype="int32")
    logits = model(ids, ids != 0, *mel(*counts, name=name)) * (ids != 0).unsqueeze(-1)
    np.testing.assert_allclose(shown(numbers(logits), 96), expected["outputs"], **CLOSE)
    along(logits, name).backward()
    for key, (_, product) in stored.items():
        grad = np.zeros(found[key].shape) if found[key].grad is None else numbers(found[key].grad)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), product, rtol=2e-3, atol=2e-3, err_msg=key
        )
    model.zero_grad()
    model.requires_grad_(False)


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_transformers(name: str) -> None:
    model, row = make(name), texts(name)[0]
    places = [i for i, token in enumerate(row) if token == SOUND]
    cache = model.new_cache(len(row) + 30)
    found: list[int] = []
    with pyapp.no_grad():
        features = model.vectors_of(*mel(COUNTS.get(name, SAMPLES)[0], name=name))
        logits = model.forward_cached(
            pyapp.tensor(row, dtype="int32"), pyapp.tensor([0], dtype="int32"), cache, seen=Seen(features, places)
        )
        for place in range(len(row), len(row) + 24):
            found.append(int(logits.reshape(-1).argmax()))
            at = pyapp.tensor([place], dtype="int32")
            logits = model.forward_cached(pyapp.tensor(found[-1:], dtype="int32"), at, cache)
    assert found == golden(name)["tokens"]


async def run(stream: Any) -> list[Any]:
    return [event async for event in stream]


def test_transcription_and_questions(tmp_path: Path) -> None:
    """What is written is what follows the prompts of mistral_common in the model itself."""
    folder = write(tmp_path / "model", "voxtral")
    file = tmp_path / "sound.wav"
    write_wav(file, recording(SAMPLES[1]), 16000)
    loaded = load_speech_model(folder)
    samples = next(iter(pyapp.audio.open_audio(file)))
    sound = Recording(loaded, samples, 1000)
    loaded.model.encoder.warm_up()
    assert len(sound.ids) == 20 and sound.text == "[AUDIO]" * 20

    def following(before: list[int], after: list[int], count: int) -> list[int]:
        """Greedily, without a cache."""
        row, found = [*before, *[SOUND] * 20, *after], []
        while len(found) < count and found[-1:] != [2]:
            logits = loaded.model(pyapp.tensor([[*row, *found]], dtype="int32"), None, loaded.processor(samples))
            found.append(int(logits[0, -1].argmax()))
        return [token for token in found if token != 2]

    language = [RESERVED + byte for byte in b"lang:de"]
    expected = following([1, 3, 25], [4, *language, 34], 7)  # 13 tokens a second
    events = asyncio.run(run(tasks.transcribe(file, {"language": "de"}, model=loaded, vad="energy")))
    written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
    assert written == expected and len(written) > 3
    assert [event.results["language"] for event in events if isinstance(event, Done)] == ["de"]

    whole = np.concatenate([recording(40000), np.zeros(16000, np.float32)] * 2)
    long = asyncio.run(run(tasks.transcribe(whole, {}, model=loaded, vad="energy")))
    spans = [(event.start, event.end) for event in long if isinstance(event, Segment)]
    assert isinstance(long[-1], Done) and len(spans) > 2, long
    assert all(0 < end - start <= 1 for start, end in spans) and spans == sorted(spans)

    text = load_model(folder)
    message = {"role": "user", "content": [{"type": "audio", "audio": str(file)}, {"type": "text", "text": "es?"}]}
    question = following([1, 3, 25], [RESERVED + 257, RESERVED + ord("?"), 4], 6)
    options = SamplingOptions(temperature=0.0, max_new_tokens=6)
    events = asyncio.run(run(tasks.chat(text, [message], options)))
    assert [event.id for event in events if event.type == "token" and event.id is not None] == question
    assert any(isinstance(event, Progress) and event.what == "hearing" for event in events)
    picture = {"role": "user", "content": [{"type": "image", "image": str(file)}]}
    last = asyncio.run(run(tasks.chat(text, [picture], options)))[-1]
    assert isinstance(last, Error) and "no pictures" in last.what


def test_prompts_of_qwen2_audio(tmp_path: Path) -> None:
    """As in its authors' evaluation; the model for conversations, which ends turns, is asked in one."""
    folder, samples = write(tmp_path / "model", "qwen2_audio"), recording(CLEAR)
    (folder / "tekken.json").write_text(json.dumps(tekken(SPECIAL_OF_QWEN)))
    spectrogram, sizes = mel(CLEAR)

    def spelled(*parts: str | int) -> list[int]:
        return [token for part in parts for token in ([part] if isinstance(part, int) else words.encode(part, False))]

    words = load_tokenizer(folder / "tekken.json")
    system, task = "system\nYou are a helpful assistant.", "Detect the language and recognize the speech:"
    heard = [25, *[SOUND] * 23, 26]
    prompts = [
        ({}, spelled(*heard, f"{task} ", 27)),
        ({"eos_token_id": [2, 4]},
         spelled(3, system, 4, "\n", 3, "user\nAudio 1: ", *heard, f"\n{task}", 4, "\n", 3, "assistant\n")),
    ]  # fmt: skip
    for generation, prompt in prompts:
        (folder / "generation_config.json").write_text(json.dumps(generation))
        loaded, row = load_speech_model(folder), [*prompt]
        for _ in range(6):
            logits = loaded.model(pyapp.tensor([row], dtype="int32"), None, spectrogram, sizes)
            row.append(int(logits[0, -1].argmax()))
        events = asyncio.run(run(tasks.transcribe(samples, {"language": "de"}, model=loaded, vad="energy")))
        written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
        assert written[:6] == row[len(prompt) :]


def test_qwen3_asr(tmp_path: Path) -> None:
    """With the language or without, as its authors ask; the tensors and the configuration of their files."""
    folder, samples = write(tmp_path / "model", "qwen3_asr"), recording(CLEAR)
    special = {"</s>": 2, "<|im_start|>": 3, "<|im_end|>": 4, "<|audio_pad|>": SOUND, "<|audio_start|>": 25,
               "<|audio_end|>": 26}  # fmt: skip
    (folder / "tekken.json").write_text(json.dumps(tekken(special)))
    model, own, older = make("qwen3_asr"), by_names("qwen3_asr", make("qwen3_asr")), {}
    for key, value in own.items():
        for new, old in (
            ("model.multi_modal_projector.linear_", "thinker.audio_tower.proj"),
            ("model.audio_tower", "thinker.audio_tower"), ("model.language_model", "thinker.model"),
        ):  # fmt: skip
            key = key.replace(new, old)
        older[key] = value
    assert {"thinker.model.norm.weight", "thinker.audio_tower.proj2.bias"} <= {*older}
    write_safetensors(folder / "model.safetensors", older)
    parts = {key: value for key, value in CONFIGS["qwen3_asr"].items() if key != "model_type"}
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_asr", "thinker_config": parts}))
    loaded, (spectrogram, sizes) = load_speech_model(folder), mel(CLEAR, name="qwen3_asr")
    words = load_tokenizer(folder / "tekken.json")
    count = model.tokens_in(0, 0, sizes[0])
    for language, told in (("de", "language German<asr_text>"), (None, "")):
        texts_between = [words.encode(part, bos=False) for part in ("system\n", "\n", "user\n", f"assistant\n{told}")]
        system, line, user, assistant = texts_between
        row = [3, *system, 4, *line, 3, *user, 25, *[SOUND] * count, 26, 4, *line, 3, *assistant]
        start = len(row)
        for _ in range(6):
            logits = model(pyapp.tensor([row], dtype="int32"), None, spectrogram, sizes)
            row.append(int(logits[0, -1].argmax()))
        asked = {} if language is None else {"language": language}
        events = asyncio.run(run(tasks.transcribe(samples, asked, model=loaded, vad="energy")))
        written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
        assert written[:6] == row[start:]
    assert model.said("language German<asr_text>on es") == "on es" and model.said("on") == "on"


def test_vibevoice_asr(tmp_path: Path) -> None:
    """It is asked with the length of the recording, and answers with JSON, of which the contents are what is said."""
    text = CONFIGS["vibevoice_asr"]["text_config"] | {"max_position_embeddings": 512}
    folder, samples = write(tmp_path / "model", "vibevoice_asr", text_config=text), recording(CLEAR)
    special = {"</s>": 2, "<|im_start|>": 3, "<|im_end|>": 4, "<|box_start|>": SOUND, "<|object_ref_start|>": 25,
               "<|object_ref_end|>": 26}  # fmt: skip
    (folder / "tekken.json").write_text(json.dumps(tekken(special)))
    loaded = load_speech_model(folder)
    system = "system\nYou are a helpful assistant that transcribes audio input into text output in JSON format."
    asked = f"\nThis is a {CLEAR / 16000:.2f} seconds audio, please transcribe it with these keys: "
    between = (system, "\n", "user\n", f"{asked}Start time, End time, Speaker ID, Content", "\n")
    told = [loaded.tokenizer.encode(part, bos=False) for part in between]
    row = [3, *told[0], 4, *told[1], 3, *told[2], 25, *[SOUND] * 10, 26, *told[3], 4, *told[4]]
    start, (sound, sizes) = len(row), mel(CLEAR, name="vibevoice_asr")
    assert loaded.model.tokens_in(0, 0, sizes[0]) == 10
    for _ in range(6):
        logits = loaded.model(pyapp.tensor([row], dtype="int32"), None, sound, sizes)
        row.append(int(logits[0, -1].argmax()))
    events = asyncio.run(run(tasks.transcribe(samples, {}, model=loaded, vad="energy")))
    written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
    assert written[:6] == row[start:] and len(written) > 12  # more than of a model that writes the words alone
    said = loaded.model.said
    whole = '[{"Start":0.0,"End":1,"Speaker":0,"Content":"on"},{"Start":1,"End":2.5,"Speaker":1,"Content":" es"}]'
    assert said(f"assistant\n{whole}\n") == said(whole[:-3] + '"}, {"Start"') == "on es"
    assert said('[{"Start":0,"End":1}]') == "" and said("on es") == "on es" and said("[" * 100_000).startswith("[[")
    given = LevelledSampleProcessor.from_settings({"normalize_audio": False, "pad_to_multiple_of": 4})
    assert given(samples).shape == (1, 1, -(-given.size(CLEAR)[1] // 4) * 4) and given.size(CLEAR) == (1, 22080)
    config = CONFIGS["vibevoice_asr"]
    part = config["acoustic_tokenizer_encoder_config"]
    hostile = [
        (part | {"depths": [1]}, "depths has 1"), (part | {"depths": [1 << 30] * 5}, "depths is"), (None, "acoustic"),
        (part | {"channels": 2}, "channels"), (part | {"downsampling_ratios": [4, 5, 8, 11]}, "moments of 1,760"),
        (part | {"num_filters": 1 << 20}, "num_filters"), (part | {"downsampling_ratios": [64] * 4}, "samples"),
    ]  # fmt: skip
    for changed, told_of in hostile:
        with pytest.raises(ModelError, match=told_of):
            module_of("vibevoice_asr").Config.from_dict(config | {"acoustic_tokenizer_encoder_config": changed})
    with pytest.raises(ModelError, match="chunk_size is 7"):
        module_of("vibevoice_asr").Config.from_dict(config | {"acoustic_tokenizer_chunk_size": 7})
    read = LevelledSampleProcessor.from_settings
    for settings, told_of in (({"sampling_rate": 5}, "sampling_rate"), ({"target_dB_FS": "x"}, "target_dB_FS"),
                              ({"eps": 0}, "eps is 0")):  # fmt: skip
        with pytest.raises(ModelError, match=told_of):
            read(settings)
    with pytest.raises(ModelError, match="moments have 1600"):
        read({}).check(config, "model")


def test_prompts_and_what_is_said() -> None:
    """As the processors of transformers ask, with the chat templates of the files, and read the answers."""
    asked = make("glmasr").transcription_prompt("<|pad|>", "de", ())
    assert asked == (
        "<|user|>\n<|begin_of_audio|><|pad|><|end_of_audio|><|user|>\nPlease transcribe this audio into text"
        "<|assistant|>\n"
    )
    flamingo = make("audioflamingo3")
    asked = flamingo.transcription_prompt("<sound>", None, ())
    turn = "<|im_start|>user\n<sound>Transcribe the input speech.<|im_end|>\n<|im_start|>assistant\n"
    assert asked.startswith("<|im_start|>system\n") and asked.endswith(turn)
    assert flamingo.transcription_prompt("<sound>", None, (), str.upper) == "<SOUND>TRANSCRIBE THE INPUT SPEECH."
    for told, said in (
        ("The spoken content of the audio is 'on, es'.", "on, es"), ("on es.", "on es."), ('"on"', "on"), ("'", "'"),
        ("The transcription of the audio is on.", "on"),
    ):  # fmt: skip
        assert flamingo.said(told) == said


TEMPLATE = """{% for message in messages %}{% if message.role == "user" %}[INST]{{ message['content'] }}[/INST]\
{% else %}{{ message['content'] + "</s>" }}{% endif %}{% endfor %}"""


def test_granite_speech(tmp_path: Path) -> None:
    """Its adapter is merged, it transcribes by the chat template of its files, and a template that joins texts has a
    place for a recording.
    """
    pytest.importorskip("jinja2")
    folder, samples = write(tmp_path / "model", "granite_speech", has_lora_adapter=True), recording(SAMPLES[1])
    special = {"<s>": 1, "</s>": 2, "[INST]": 3, "[/INST]": 4, "<|audio|>": SOUND}
    (folder / "tekken.json").write_text(json.dumps(tekken(special)))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    told: list[Any] = []
    load_speech_model(folder, report=told.append)
    assert any("adapter is missing" in str(event) for event in told)
    first, second = (np.arange(64, dtype=np.float32).reshape(shape) / 200 for shape in ((2, 32), (32, 2)))
    path = "base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_"
    matrices = {f"{path}{part}.weight": pyapp.from_numpy(value) for part, value in (("A", first), ("B", second))}
    write_safetensors(folder / "adapter_model.safetensors", matrices)
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "target_modules": ["q_proj"], "layers_to_transform": [1]}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    loaded = load_speech_model(folder)
    place = "language_model.model.layers.1.self_attn.q_proj.weight"
    own = by_names("granite_speech", make("granite_speech"))[place]
    merged = dict(loaded.model.named_parameters())[place]
    np.testing.assert_allclose(numbers(merged), numbers(own) + 4 * second @ first, rtol=1e-5, atol=1e-6)

    def following(said: str, count: int, *before: int) -> list[int]:
        """Greedily, without a cache."""
        row, found = [*before, 3, *[SOUND] * 6, *loaded.tokenizer.encode(said, bos=False), 4], []
        while len(found) < count:
            logits = loaded.model(pyapp.tensor([[*row, *found]], dtype="int32"), None, loaded.processor(samples))
            found.append(int(logits[0, -1].argmax()))
        return found

    events = asyncio.run(run(tasks.transcribe(samples, {}, model=loaded, vad="energy")))
    written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
    assert written[:4] == following("can you transcribe the speech into a written format?", 4)
    message = {"role": "user", "content": [{"type": "audio", "audio": samples}, {"type": "text", "text": "on t?"}]}
    options = SamplingOptions(temperature=0.0, max_new_tokens=4)
    events = asyncio.run(run(tasks.chat(load_model(folder), [message], options)))
    found = [event.id for event in events if event.type == "token" and event.id is not None]
    assert found == following("on t?", 4, 1)  # after the token that begins texts, which the template does not write


@pytest.mark.native_only
def test_the_commands(tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder = write(tmp_path / "model", "voxtral")
    file = str(tmp_path / "sound.wav")
    write_wav(file, recording(SAMPLES[1]), 16000)
    runner = testing.CliRunner()
    options = ["--audio", file, "--temperature", "0", "-n", "3"]
    found = runner.invoke(cli, ["chat", str(folder), *options], input="es?\n", standalone_mode=False)
    assert found.return_value == 0 and "3 tokens" in found.stderr, found.output
    found = runner.invoke(cli, ["transcribe", file, "--model", str(folder)], standalone_mode=False)
    assert found.return_value == 0, found.output


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"audio_config": None}, "audio_config"), ({"text_config": {"model_type": "bert"}}, "'bert'"),
    ({"audio_token_id": -1}, "audio_token_id"),
    ({"audio_config": CONFIGS["voxtral"]["audio_config"] | {"intermediate_size": 70}}, "cannot be joined"),
    ({"audio_config": CONFIGS["voxtral"]["audio_config"] | {"max_source_positions": 1 << 20}}, "reads|max_source"),
    ({"audio_config": CONFIGS["voxtral"]["audio_config"] | {"num_attention_heads": 5}}, "divide"),
    (CONFIGS["glmasr"] | {"audio_config": CONFIGS["glmasr"]["audio_config"] | {"intermediate_size": 60}}, "4 times"),
    (CONFIGS["glmasr"] | {"audio_config": CONFIGS["glmasr"]["audio_config"] | {"num_key_value_heads": 3}}, "divide"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", "voxtral", **changed)
    with pytest.raises(ModelError, match=told):
        load_speech_model(folder)


def test_hostile_configurations_of_granite_speech() -> None:
    config = CONFIGS["granite_speech"]
    encoder, asks = config["encoder_config"], config["projector_config"]
    for changed, told in (
        ({"encoder_config": encoder | {"num_layers": 1 << 20}}, "num_layers"),
        ({"encoder_config": encoder | {"context_size": 64}}, "context_size is 64, max_pos_emb 32"),
        ({"encoder_config": encoder | {"num_heads": 30}}, "heads of 0 numbers"),
        ({"projector_config": asks | {"encoder_hidden_size": 12}}, "encoder_hidden_size is 12"),
        ({"projector_config": asks | {"model_type": "mlp"}}, "'mlp' is not known"),
        ({"projector_config": 3}, "projector_config"), ({"downsample_rate": 4}, "does not divide"),
        ({"window_size": 0}, "window_size"), ({"encoder_config": None}, "encoder_config"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            module_of("granite_speech").Config.from_dict(config | changed)
    read = PairedSpectrogramProcessor.from_settings
    for settings, told in (
        ({"melspec_kwargs": {"n_fft": 400}}, "n_fft is 400"), ({"n_mels": 0}, "n_mels"),
        ({"sampling_rate": 8000}, "8000"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            read({"audio_processor": settings})
    for settings, told in (({"n_mels": 16}, "32 numbers a moment"), (PAIRED | {"projector_window_size": 12}, "12")):
        with pytest.raises(ModelError, match=told):
            read(settings).check(config, "model")
    assert read(PAIRED)(np.zeros(40, np.float32)).shape == (1, 1, 16)  # one moment at least


def test_vocabularies_of_mistral(tmp_path: Path) -> None:
    def load(**changed: Any) -> Any:
        (tmp_path / "tekken.json").write_text(json.dumps(tekken(**changed)))
        return load_tokenizer(tmp_path)

    words = load()
    assert words.encode("es on") == [1, RESERVED + 257, RESERVED + ord(" "), RESERVED + 256]
    assert words.encode("[INST] t[/INST]", bos=False) == [3, RESERVED + 258, 4]
    assert words.decode(words.encode("es tö")) == "es tö" and words.bos_id == 1 and words.eos_ids == {2}
    config = tekken()["config"]
    for changed in (
        {"config": config | {"default_vocab_size": None}}, {"config": config | {"default_num_special_tokens": 1 << 40}},
        {"vocab": [{"rank": 0, "token_bytes": "é"}]}, {"vocab": [1]}, {"special_tokens": [{"rank": 99}]},
        {"special_tokens": [{"rank": 99, "token_str": "x"}]}, {"vocab": []},
        {"special_tokens": [{"rank": 1, "token_str": "a"}]}, {"special_tokens": [{"rank": math.inf, "token_str": "a"}]},
    ):  # fmt: skip
        with pytest.raises(FileFormatError):
            load(**changed)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    found = load_speech_model(write(tmp_path / "model", name), dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    ids = pyapp.tensor(texts(name), dtype="int32")
    with pyapp.no_grad():
        expected = numbers(make(name)(ids, ids != 0, *mel(*SAMPLES, name=name)))
        assert (
            np.abs(numbers(found(ids, ids != 0, *mel(*SAMPLES, name=name))) - expected).mean() < 0.06 * expected.std()
        )
