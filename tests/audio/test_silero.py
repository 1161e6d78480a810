"""Speech by networks: Silero's rule beside silero-vad's own code, and hand-made networks of each of its kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import onnx
from pyapp.audio.activity import EnergyDetector, Span
from pyapp.audio.networks import choose_network, find_network, load_network
from pyapp.audio.silero import CHUNK, SileroDetector, SileroNetwork, SpeechOptions, speech_spans
from pyapp.audio.windows import Samples
from pyapp.errors import Cancelled, FileFormatError, ModelError, ModelNotFoundError, OptionError
from pyapp.events import Cancel
from tests.audio.networks import BATCHED, OLD, speech_network
from tests.audio.sounds import RATE, noise, silence
from tests.audio.speaker_sounds import CASES, case_of


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).with_name("golden_turns.npz")) as file:
        return dict(file)


@pytest.mark.parametrize("seed", range(len(CASES)))
def test_spans_are_those_of_silero_vad(golden: dict[str, np.ndarray], seed: int) -> None:
    probabilities, samples = case_of(seed)
    found = speech_spans(probabilities, samples, SpeechOptions(**CASES[seed]))
    assert np.array_equal(np.array(found).reshape(-1, 2), golden[f"spans {seed}"])
    assert len(found) > 3 or seed in (6, len(CASES) - 1)


def test_wrong_settings() -> None:
    for settings, where in (
        ({"threshold": 0.0}, "threshold"), ({"threshold": float("nan")}, "threshold"),
        ({"neg_threshold": 0.6}, "neg_threshold"), ({"min_speech": -1.0}, "min_speech"),
        ({"speech_pad": float("inf")}, "speech_pad"), ({"max_speech": 0.1}, "max_speech"),
    ):  # fmt: skip
        with pytest.raises(OptionError) as error:
            SpeechOptions(**settings)
        assert error.value.where == where


def talk() -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Loud noise is speech for the hand-made networks."""
    parts = [silence(1.0), noise(1.5), silence(1.0), noise(0.6, seed=2), silence(0.7)]
    return np.concatenate(parts), [(1.0, 2.5), (3.5, 4.1)]


def detector(kind: str = "", **changes: Any) -> SileroDetector:
    return SileroDetector(SileroNetwork(onnx.load(speech_network(kind, **changes)), "vad.onnx"))


def near(spans: list[Span], places: list[tuple[float, float]], by: float = 0.07) -> bool:
    return len(spans) == len(places) and all(
        abs(span.start - start) <= by and abs(span.end - end) <= by
        for span, (start, end) in zip(spans, places, strict=True)
    )


@pytest.mark.parametrize("kind", ["", OLD, BATCHED])
def test_each_kind_of_network_finds_speech(kind: str) -> None:
    sound, places = talk()
    found = detector(kind).spans(Samples(sound), 0, len(sound))
    assert near(found, places)
    assert near(EnergyDetector().spans(Samples(sound), 0, len(sound)), places, 0.2)


def test_pieces_give_what_the_whole_gives() -> None:
    sound, _ = talk()
    whole, pieces = detector(), detector()
    whole.spans(Samples(sound), 0, len(sound))
    blocks = Samples(iter(np.array_split(sound, 7)))
    for start in range(0, len(sound), 7000):
        pieces.spans(blocks, start, start + 7000)
        blocks.forget(start)
    assert np.array_equal(whole._known, pieces._known) and len(whole._known) == -(-len(sound) // CHUNK)


def test_times_count_from_the_place_that_is_asked_for() -> None:
    sound, _ = talk()
    at = 3 * RATE
    assert near(detector().spans(Samples(sound), at, len(sound)), [(0.5, 1.1)])
    back = detector()
    assert near(back.spans(Samples(sound), at, len(sound)), [(0.5, 1.1)])
    assert near(back.spans(Samples(sound), 0, len(sound)), [(1.0, 2.5), (3.5, 4.1)])  # what was passed over


def test_stop() -> None:
    cancel = Cancel()
    cancel.set()
    stopped = SileroDetector(SileroNetwork(onnx.load(speech_network())), cancel=cancel)
    with pytest.raises(Cancelled):
        stopped.spans(Samples(silence(1.0)), 0, RATE)


def test_nothing_and_silence() -> None:
    assert detector().spans(Samples(silence(0.0)), 0, 512) == []
    assert detector().spans(Samples(silence(0.01)), 0, 160) == []
    assert detector().spans(Samples(silence(2.0)), 0, 2 * RATE) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"input": "sound"}, "it takes sound, state, sr"),
        ({"state": "memory"}, "it takes input, memory, sr"),
        ({"width": 300}, "expected float32 (batch, 576)"),
        ({"state_shape": [2, "batch"]}, "its state 'state' has the shape"),
        ({"state_shape": ["n", "batch", 1 << 20]}, "its state 'state' has the shape"),
        ({"without_state": True}, "it takes input, state, sr"),
    ],
)
def test_other_networks_are_named_by_their_inputs(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as error:
        detector(**changes)
    assert says in error.value.what and error.value.where == "vad.onnx" and error.value.hint


def test_a_network_that_gives_nan() -> None:
    sound, _ = talk()
    with pytest.raises(ModelError, match="not a number at 0.99 s"):
        detector(root=True).spans(Samples(sound), 0, len(sound))


def test_a_network_that_gives_other_shapes() -> None:
    with pytest.raises(ModelError, match="probabilities and states"):
        detector(several=True).spans(Samples(silence(1.0)), 0, RATE)


def test_networks_by_name(tmp_path: Path) -> None:
    file = tmp_path / "vad.onnx"
    file.write_bytes(speech_network())
    assert find_network(str(file)) == file and find_network(str(tmp_path)) == file
    module, name = load_network(file)
    assert name == str(file) and [info.name for info in module.inputs] == ["input", "state", "sr"]
    assert load_network(module)[0] is module
    assert load_network(file.read_bytes())[0].outputs[1].name == "stateN"
    assert choose_network(["model.onnx", "a.onnx"], "x") == ["model.onnx"]
    names = ["README.md", "onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_q4.onnx"]
    assert choose_network(names, "x") == names[1:3]
    for names in (["a.onnx", "b.onnx"], ["README.md"]):
        with pytest.raises(ModelNotFoundError):
            choose_network(names, "x")
    for wrong in ("", "no/such/file.onnx", "nothing.onnx", str(tmp_path / "b.onnx")):
        with pytest.raises(ModelNotFoundError):
            find_network(wrong)
    with pytest.raises(FileFormatError, match="not an ONNX model"):
        load_network(Path(__file__))
