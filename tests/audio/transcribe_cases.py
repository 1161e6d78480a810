"""The models, sounds and settings that are compared with openai-whisper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .speech_model import Shape

MULTILINGUAL = Shape("multilingual")
LARGE_V3 = Shape("large-v3", languages=100, n_mels=128, state=48, heads=3, decoder_layers=3, n_text_ctx=56, seed=3)
ENGLISH = Shape("english", multilingual=False, state=24, encoder_layers=2, decoder_layers=1, seed=7, silence=5.0)
# Ends soon, and hears silence often.
TERSE = Shape("terse", seed=11, end=6.0, silence=9.0, gain=2.4)
SHAPES = (MULTILINGUAL, LARGE_V3, ENGLISH, TERSE)
# openai's defaults, but with fewer temperatures and samples: they are slow, and here every one is needed.
USUAL = {"temperature": (0.0, 0.4), "best_of": 2}


@dataclass(frozen=True)
class Case:
    name: str
    shape: Shape
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 62.0
    sound: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        return {**USUAL, **self.options}


A, B, C, D = SHAPES
PROMPT = "The people who call, and the oil."
WORDS = {"word_timestamps": True}
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SURE = {"logprob_threshold": None, "compression_ratio_threshold": None}  # nothing is tried again

CASES = [
    Case("usual settings", A),
    Case("usual settings, 128 mels and Cantonese", B, seconds=40.0),
    Case("usual settings, English only", C, seconds=95.0),
    Case("usual settings, terse", D, seconds=95.0, sound=2),
    Case("given language", A, {"language": "de"}),
    Case("language by name", B, {"language": "Cantonese"}, seconds=40.0),
    Case("given language, English only", C, {"language": "en"}, seconds=40.0),
    Case("translation", A, {"task": "translate", "language": "fr"}),
    Case("translation of a detected language", B, {"task": "translate"}, seconds=47.3),
    Case("greedy alone", A, {"temperature": 0.0}),
    Case("one temperature", A, {"temperature": 0.6}),
    Case("one sample", A, {"temperature": (0.2, 0.7), "best_of": 1}),
    Case("five samples", C, {"temperature": 0.8, "best_of": 5}, seconds=40.0),
    Case("all temperatures", C, {"temperature": TEMPERATURES, "logprob_threshold": -0.9}, seconds=40.0),
    Case("all temperatures, repetitive", A, {"temperature": (0.0, 0.3, 0.9), "compression_ratio_threshold": 1.1}),
    Case("nothing tried again", A, SURE),
    Case("likely enough", A, {"logprob_threshold": -1.45}),
    Case("no test of repetition", D, {"compression_ratio_threshold": None}, seconds=70.0),
    Case("no test of silence", D, {"no_speech_threshold": None}, seconds=70.0),
    Case("silence alone", D, {"no_speech_threshold": 0.2, "logprob_threshold": None}, seconds=70.0),
    Case("silence often", D, {"no_speech_threshold": 0.01, "logprob_threshold": -0.5}, seconds=95.0, sound=1),
    Case("beam of 2", A, {"beam_size": 2}),
    Case("beam of 3, patient", A, {"beam_size": 3, "patience": 2.0, "temperature": 0.0}),
    Case("beam of 4, impatient", B, {"beam_size": 4, "patience": 0.5, "temperature": 0.0}, seconds=40.0),
    Case("beam with length penalty", A, {"beam_size": 3, "length_penalty": 0.4, "temperature": 0.0}),
    Case("samples with length penalty", C, {"temperature": 0.5, "best_of": 3, "length_penalty": 1.0}, seconds=40.0),
    Case("beam, then samples", C, {"beam_size": 2, "temperature": (0.0, 0.5), "logprob_threshold": -1.0}, seconds=50.0),
    Case("beam, terse", D, {"beam_size": 3, "language": "es"}, seconds=70.0),
    Case("without times", A, {"without_timestamps": True, "suppress_tokens": "-1"}),
    Case("without times, beam", C, {"without_timestamps": True, "beam_size": 2, **SURE}, seconds=70.0),
    Case("late first time", A, {"max_initial_timestamp": 12.0}),
    Case("any first time", A, {"max_initial_timestamp": None, "language": "ja"}),
    Case("first time at once", B, {"max_initial_timestamp": 0.02}, seconds=40.0),
    Case("nothing suppressed", A, {"suppress_tokens": "", "language": "it"}),
    Case("chosen tokens suppressed", A, {"suppress_tokens": "-1,260,261,300,301,302"}),
    Case("only chosen tokens suppressed", C, {"suppress_tokens": [262, 270, 280]}, seconds=40.0),
    Case("blank beginnings", D, {"suppress_blank": False}, seconds=40.0),
    Case("few tokens", A, {"sample_len": 7}),
    Case("prefix", A, {"prefix": "the people", "sample_len": 12}, seconds=40.0),
    Case("initial prompt", A, {"initial_prompt": PROMPT}),
    Case("initial prompt, carried", A, {"initial_prompt": PROMPT[:10], "carry_initial_prompt": True, **SURE}),
    Case("initial prompt longer than the context", C, {"initial_prompt": PROMPT * 4, "carry_initial_prompt": True}),
    Case("no conditioning", A, {"condition_on_previous_text": False}),
    Case("no conditioning, carried prompt", B,
         {"condition_on_previous_text": False, "initial_prompt": "oil", "carry_initial_prompt": True}, seconds=40.0),
    Case("two clips", A, {"clip_timestamps": "3,20.5,41"}),
    Case("clips in a list", C, {"clip_timestamps": [10.0, 14.0, 30.0, 55.0]}),
    Case("words", A, WORDS),
    Case("words of Japanese", A, {**WORDS, "language": "ja", **SURE}),
    Case("words, beam", A, {**WORDS, "beam_size": 2, "temperature": 0.0}, seconds=45.0),
    Case("words, other punctuation", A, {**WORDS, "prepend_punctuations": " the", "append_punctuations": "s.,"}),
    Case("words of a translation", A, {**WORDS, "task": "translate", "language": "de"}, seconds=40.0),
    Case("words in clips", C, {**WORDS, "clip_timestamps": "2,9,20,48"}),
    Case("words, a last frame alone", B,
         {**WORDS, "sample_len": 5, "logprob_threshold": -1.45, "hallucination_silence_threshold": 2.0}, 30.01, 3),
    Case("words, silence skipped", A, {**WORDS, "hallucination_silence_threshold": 2.0}),
    Case("words, much silence skipped", C, {**WORDS, "hallucination_silence_threshold": 0.5}, seconds=50.0),
    Case("words, silence skipped, terse", D, {**WORDS, "hallucination_silence_threshold": 1.0}, seconds=50.0),
]  # fmt: skip
