"""Language models that speak by codes of SNAC or X-Codec 2: the form of a prompt, the order of codes, sound,
files and errors.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.code_voice import SPEECH, TEXT, CodeVoice
from pyapp.audio.frame_voice import SpokenTokens
from pyapp.audio.speaking import SpeakOptions, speak
from pyapp.audio.token_voice import VOICES, TextTokens, TokenVoice, levels_of
from pyapp.engine.ops.random import Generator
from pyapp.errors import ModelError, OptionError
from pyapp.events import Error, Sound
from pyapp.formats import write_safetensors
from pyapp.models.loading.voice import LoadedVoice, load_voice
from pyapp.nn import Embedding, Module
from pyapp.nn.audio.sound_codes import Codes
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.models.decoder_configs import CONFIGS as DECODERS
from tests.models.small_models import seeded_model
from tests.models.test_codecs import make as make_codec
from tests.models.test_codecs import write as write_codec
from tests.models.voice_folders import write_folder
from tests.models.xcodec_configs import CONFIGS as XCODECS
from tests.models.xcodec_configs import weights as xcodec_weights
from tests.text.tokenizer_documents import document, template, whole_words

WORDS = ["<unk>", "<s>", "<|eot_id|>", *(f"{voice}:" for voice in VOICES), "hello", "there"]
CUSTOM = len(WORDS)  # the number of <custom_token_0>
ENTRIES, FIRST = 16, CUSTOM + 10  # of a codebook; the token of the first code
COUNT = FIRST + 7 * ENTRIES
FRAMES = [[3, 9, 1, 0, 15, 7, 2], [4, 8, 5, 6, 14, 10, 11]]


def tokenizer_json(custom: Sequence[str] = ()) -> str:
    """Whole words, and the tokens of codes."""
    custom = custom or [f"<custom_token_{number}>" for number in range(COUNT - CUSTOM)]
    special = {"<unk>": 0, "<s>": 1, "<|eot_id|>": 2} | {name: CUSTOM + i for i, name in enumerate(custom)}
    parts = {"pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": template({"<s>": 1}, "<s> $A")}
    return json.dumps(document(whole_words(WORDS, "<unk>"), special, **parts))


class Chain(Module):
    """Writes given tokens one after the other."""

    def __init__(self, tokens: list[int], count: int = COUNT) -> None:
        super().__init__()
        self.config = SimpleNamespace(vocab_size=count, max_seq_len=4096, to_dict=dict)
        self.table = Embedding(count, count)
        rows = np.zeros((count, count), np.float32)
        for before, after in zip(tokens, tokens[1:], strict=False):
            rows[before, after] = 100
        self.table.weight.data.copy_(pyapp.from_numpy(rows))

    @property
    def device(self) -> Any:
        return self.table.weight.device

    def new_cache(self, capacity: int | None = None, **_: Any) -> None:
        """There is nothing to remember."""

    def forward_cached(self, tokens: Any, position: Any, cache: Any, last_only: bool = True) -> Any:
        return self.table(tokens[-1:] if last_only else tokens)


def token(place: int, code: int) -> int:
    return FIRST + place * ENTRIES + code


def voice_of(frames: list[list[int]], more: tuple[int, ...] = ()) -> LoadedVoice:
    """A voice that says the frames after each prompt, then `more`."""
    tokenizer = Tokenizer(json.loads(tokenizer_json()))
    codes = [token(place, code) for frame in frames for place, code in enumerate(frame)]
    codec = make_codec("snac")
    with pyapp.no_grad():
        model = Chain([CUSTOM + 1, *codes, *more, CUSTOM + 2])
    return LoadedVoice("voice", TokenVoice(model, tokenizer, codec), TextTokens(tokenizer), {})


@pytest.fixture(scope="module", autouse=True)
def _tokenizers() -> None:
    pytest.importorskip("tokenizers")


pytestmark = pytest.mark.native_only  # needs the tokenizers library


def test_codes_of_frames() -> None:
    """As in the program of Orpheus' authors."""
    codes = [code for frame in FRAMES for code in frame]
    layers: tuple[list[int], ...] = ([], [], [])
    for i in range(2):
        layers[0].append(codes[7 * i])
        layers[1].append(codes[7 * i + 1])
        layers[2].extend(codes[7 * i + 2 : 7 * i + 4])
        layers[1].append(codes[7 * i + 4])
        layers[2].extend(codes[7 * i + 5 : 7 * i + 7])
    found = levels_of([*codes, 1, 2], pyapp.device("cpu"))
    assert [chunk.tolist() for chunk in found.chunks] == [[[layer]] for layer in layers]


def test_the_form_of_a_prompt() -> None:
    voice = voice_of(FRAMES).model
    ids = TextTokens(Tokenizer(json.loads(tokenizer_json()))).read("hello there").ids
    custom = [CUSTOM + number for number in (3, 4, 5, 1)]
    assert voice.prompt("leah", ids) == [
        custom[0], 1, WORDS.index("leah:"), WORDS.index("hello"), WORDS.index("there"), 2, *custom[1:],
    ]  # fmt: skip


def test_what_is_said() -> None:
    """The sound of the codes, with noise of the sentence's seed; what is not a code at its place is left out."""
    for more in ((), (token(0, 1),), (WORDS.index("hello"), token(3, 3))):
        loaded = voice_of(FRAMES, more)
        found, rate = speak(loaded, "hello", {"seed": 5})
        generator = Generator().manual_seed(5)
        codes = levels_of([code for frame in FRAMES for code in frame], pyapp.device("cpu"))
        with pyapp.no_grad():
            sound = loaded.model.codec.decode(codes, noise=lambda shape: pyapp.randn(*shape, generator=generator))  # noqa: B023
        assert rate == 1600 and np.abs(found - sound[0, 0].numpy()).max() < 1e-4
    assert len(speak(voice_of([]), "hello")[0]) == 0
    assert voice_of(FRAMES).speakers == 8


def test_text_writes_no_control_tokens() -> None:
    ids = TextTokens(Tokenizer(json.loads(tokenizer_json()))).read("<custom_token_2> hello").ids
    assert CUSTOM + 2 not in ids and ids[-1] == WORDS.index("hello")


def test_settings_and_codecs_that_do_not_fit() -> None:
    loaded = voice_of(FRAMES)
    for options, told in (({"rate": 2.0}, "rate"), ({"noise": 0.5}, "noise"), ({"phonemes": True}, "phonemes"),
                          ({"speaker": 8}, "voices 0 to 7")):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            speak(loaded, "hello", SpeakOptions(**options))
    tokenizer = Tokenizer(json.loads(tokenizer_json()))
    for codec, told in (("dac", "not a SNAC"), ("snac-attention", "not a SNAC")):
        with pytest.raises(ModelError, match=told):
            TokenVoice(Chain([1, 2]), tokenizer, make_codec(codec))
    other = make_codec("snac", codebook_size=64)
    with pytest.raises(ModelError, match="custom_token_457"):
        TokenVoice(Chain([1, 2]), tokenizer, other)


SPOKEN = [*SPEECH, *TEXT, *(f"<|s_{number}|>" for number in range(480))]
LLASA = "{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}"


def test_one_code_a_moment(tmp_path: Path) -> None:
    """Llasa: the conversation of its authors' program, the sound of its codes, and files."""
    config = XCODECS["xcodec2"]
    codec = seeded_model(config, "audio-codec", xcodec_weights)
    settings = {"chat_template": LLASA}
    tokenizer = Tokenizer(json.loads(tokenizer_json(SPOKEN)), settings)
    number = {name: CUSTOM + place for place, name in enumerate(SPOKEN)}
    codes = [7, 479, 0, 250]
    tokens = [number[SPEECH[0]], *(number[f"<|s_{code}|>"] for code in codes), number[SPEECH[1]]]
    with pyapp.no_grad():
        voice = CodeVoice(Chain(tokens, CUSTOM + len(SPOKEN)), tokenizer, codec)
        wanted = codec.decode(Codes((pyapp.tensor([[codes]]),), (None,)))[0, 0].numpy()
    ids = voice.prompt("hello <|s_3|> there")
    places = [ids.index(number[name]) for name in (*TEXT, SPEECH[0])]
    assert ids[-1] == number[SPEECH[0]] and places == sorted(places) and number["<|s_3|>"] not in ids
    inside = ids[places[0] + 1 : places[1]]
    assert inside[0] == WORDS.index("hello") and inside[-1] == WORDS.index("there")
    loaded = LoadedVoice("voice", voice, SpokenTokens(tokenizer), {})
    assert loaded.speakers == 1 and not loaded.voices
    found, rate = speak(loaded, "hello. there", {"noise": 0.1})
    assert rate == 16000 and np.abs(found - wanted).max() < 1e-4  # both sentences at once
    with pytest.raises(ModelError, match="SPEECH_GENERATION_START"):
        CodeVoice(Chain([1, 2]), Tokenizer(json.loads(tokenizer_json())), codec)

    from pyapp.models.llama import TASKS, Config

    small = DECODERS["llama"] | {"vocab_size": CUSTOM + len(SPOKEN), "max_position_embeddings": 40}
    write_folder(tmp_path / "codec", dict(codec.state_dict()), config)
    write_folder(tmp_path / "llasa", dict(TASKS["causal-lm"](Config.from_dict(small)).state_dict()), small)
    (tmp_path / "llasa/tokenizer.json").write_text(tokenizer_json(SPOKEN))
    (tmp_path / "llasa/tokenizer_config.json").write_text(json.dumps(settings))
    of_files = load_voice(tmp_path / "llasa", codec=tmp_path / "codec")
    assert isinstance(of_files.model, CodeVoice) and of_files.model.prompt("hello") == voice.prompt("hello")
    assert len(speak(of_files, "hello")[0]) % 320 == 0


def test_folders(tmp_path: Path) -> None:
    """A small Llama says nothing of sense, but as long as its tokens are codes."""
    from pyapp.models.llama import TASKS, Config

    config = DECODERS["llama"] | {"vocab_size": COUNT, "max_position_embeddings": 4096}
    pyapp.manual_seed(1)
    model = TASKS["causal-lm"](Config.from_dict(config))
    write_safetensors(tmp_path / "model.safetensors", dict(model.state_dict()))
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    codec = write_codec(tmp_path / "codec", "snac", dict(make_codec("snac").state_dict()))

    async def run(**more: Any) -> list[Any]:
        return [event async for event in tasks.speak("hello", model=str(tmp_path), **more)]

    events = asyncio.run(run(codec=str(codec)))
    [sound] = [event for event in events if isinstance(event, Sound)]
    assert sound.rate == 1600 and events[-1].results["sentences"] == 1
    assert isinstance(asyncio.run(run())[-1], Error)
