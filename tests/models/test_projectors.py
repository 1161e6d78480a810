"""Language models that see pictures in llama.cpp's two GGUF files, against the same models in a folder of Hugging
Face's (make_golden_projectors.py wrote the files of what sees, with the gguf package).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError, OptionError
from pyapp.events import Notice
from pyapp.formats.source import FileSource
from pyapp.hub.resolver import choose_files, choose_model
from pyapp.models import load_model
from pyapp.models.load import LoadedModel
from pyapp.models.picked_files import load_files
from tests.models.picture_text_configs import GRIDS
from tests.models.projector_files import KINDS, MORE, PROJECTOR, rewritten, write_both
from tests.models.seeded import picture
from tests.text.page_library import page_library  # noqa: F401 (for every test)
from tests.text.picture_chat_model import IDS, SIZES, conversation, photo
from tests.together import collect, fewer_in_browser

GREEDY = {"temperature": 0, "max_new_tokens": 16, "suppress_tokens": list(IDS.values())}


@pytest.fixture(scope="module", params=fewer_in_browser(KINDS, 2))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """(kind, the folder of Hugging Face's, a folder with both GGUF files)."""
    return request.param, *write_both(tmp_path_factory.mktemp(request.param), request.param)


def logits(kind: str, loaded: Any) -> np.ndarray:
    """Of a text with a picture."""
    model = loaded.model
    grid = GRIDS.get(kind, (0, 0))
    size = model.pixels or tuple(8 * n for n in grid)
    row = [5, 6, 7, *[model.config.image_token_id] * model.tokens_in(*grid), 8, 9]
    with pyapp.no_grad():
        found = model(pyapp.tensor([row], dtype="int32"), None, pyapp.from_numpy(picture(1, *size)))
    result: np.ndarray = found.numpy()
    return result


def test_logits_are_those_of_the_folder(case: Any) -> None:
    kind, folder, both = case
    found, expected = load_model(both), load_model(folder)
    assert found.model.config.image_token_id == expected.model.config.image_token_id  # type: ignore[attr-defined]
    np.testing.assert_allclose(logits(kind, found), logits(kind, expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "q8_0", "Q4_K_M"])
def test_other_types(case: Any, dtype: str) -> None:
    kind, folder, both = case
    found, expected = load_model(both, dtype=dtype), load_model(folder)
    kinds = {parameter.dtype.name for parameter in found.model.vision_tower.parameters()}  # type: ignore[attr-defined]
    assert kinds >= {"float32"} and kinds & {"float16", "q8_0", "float32"} == kinds
    right = logits(kind, expected)
    assert np.abs(logits(kind, found) - right).mean() < 0.3 * np.abs(right).mean()


def answers(model: Any, **more: Any) -> tuple[list[int], Any]:
    """The tokens that answer a conversation about two pictures, and the last event."""
    tasks.unload()
    shown = [pyapp.from_numpy(photo(*size)) for size in SIZES]

    events = collect(tasks.chat(model, conversation(shown), GREEDY, **more))
    return [event.id for event in events if event.type == "token" and event.id is not None], events[-1]


def test_answers_are_those_of_the_folder(case: Any, tmp_path: Path) -> None:
    """With the image processor that the file of what sees describes; LLaVA's folder has another one."""
    pytest.importorskip("jinja2")
    kind, folder, both = case
    if kind == "llava":
        both = tmp_path / "both"
        shutil.copytree(case[2], both)
        shutil.copy(folder / "preprocessor_config.json", both)
    found, done = answers(both)
    expected, other = answers(folder)
    assert found == expected and len(found) == 16, (done, other)


def test_the_image_processor_of_the_file(case: Any) -> None:
    kind, folder, both = case
    loaded, other = load_model(both), load_model(folder)
    shown = [pyapp.from_numpy(photo(30, 41))]
    found, expected = (own.processor(shown).pixel_values.numpy() for own in (loaded, other))
    if kind == "llava":  # a square with the whole picture, instead of its middle
        assert found.shape == expected.shape == (1, 3, 16, 16)
        top = found[0, :, 0].mean(1)  # the colour in which the picture lies
        np.testing.assert_allclose(top, 0.0, atol=0.02)
    else:
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", MORE)
def test_further_projectors(kind: str, tmp_path: Path) -> None:
    """Logits, prepared pictures and answers are those of the folder."""
    pytest.importorskip("jinja2")
    folder, both = write_both(tmp_path, kind)
    loaded, other = load_model(both), load_model(folder)
    np.testing.assert_allclose(logits(kind, loaded), logits(kind, other), rtol=1e-4, atol=1e-4)
    shown = [pyapp.from_numpy(photo(30, 41))]
    found, expected = (own.processor(shown).pixel_values.numpy() for own in (loaded, other))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert answers(both)[0] == answers(folder)[0]


def notices(both: Path, **more: Any) -> tuple[LoadedModel, list[Any]]:
    told: list[Any] = []
    return load_model(both, report=told.append, **more), [event for event in told if isinstance(event, Notice)]


def test_which_file_sees(case: Any, tmp_path: Path) -> None:
    """One that is given, or lies beside the model and belongs to it."""
    kind, folder, both = case
    text = tmp_path / "text.gguf"
    shutil.copy(both / "model.gguf", text)
    assert not hasattr(load_model(text).model, "picture_tokens")
    given = load_model(text, projector=both / PROJECTOR)
    assert hasattr(given.model, "picture_tokens") and given.processor is not None
    np.testing.assert_allclose(logits(kind, given), logits(kind, load_model(both)), atol=1e-6)
    assert not hasattr(load_model(both, pictures=False).model, "picture_tokens")
    with pytest.raises(ModelError, match="GGUF file of the architecture"):
        load_model(text, projector=text)
    with pytest.raises(ModelError, match="no GGUF file"):
        load_model(text, projector=folder / "model.safetensors")
    with pytest.raises(OptionError, match="language model in a GGUF file"):
        load_model(folder, projector=both / PROJECTOR)
    with pytest.raises(ModelError, match="not its language model"):
        load_model(both / PROJECTOR)
    with pytest.raises(FileNotFoundError):
        load_model(text, projector=tmp_path / "none.gguf")


def damaged(case: Any, folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """A folder with both files, of which the one that sees is changed."""
    shutil.copytree(case[2], folder)
    rewritten(folder / PROJECTOR, change)
    return folder


def test_files_that_cannot_be(case: Any, tmp_path: Path) -> None:
    """They are refused with a ModelError that names the file, and beside a model left out with a Notice."""
    kind = case[0]
    last = {"gemma3": "mm.input_projection.weight", "idefics3": "mm.model.fc.weight"}.get(kind, "mm.2.weight")

    def wider(values: dict[str, Any], tensors: dict[str, Any]) -> None:
        axis = 1 if kind == "gemma3" else 0
        tensors[last] = pyapp.cat([tensors[last]] * 2, axis)

    def without(key: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda values, tensors: values.pop(key)

    def with_value(key: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda values, tensors: values.__setitem__(key, value)

    cases = {
        "other width": (wider, "makes vectors of 64 numbers, the language model has 32"),
        "other projector": (with_value("clip.projector_type", "ldpv2"), "its projector 'ldpv2' is not known"),
        "no picture size": (without("clip.vision.patch_size"), "clip.vision.patch_size is None"),
        "a text as a size": (with_value("clip.vision.embedding_length", "24"), "embedding_length is '24'"),
        "no tensor": (lambda values, tensors: tensors.pop(last), f"the tensor '{last}' is missing"),
    }
    for number, (name, (change, message)) in enumerate(cases.items()):
        both = damaged(case, tmp_path / str(number), change)
        with pytest.raises(ModelError, match=message) as caught:
            load_model(both / "model.gguf", projector=both / PROJECTOR)
        assert PROJECTOR in str(caught.value), name
        loaded, told = notices(both)
        assert not hasattr(loaded.model, "picture_tokens") and len(told) == 1 and PROJECTOR in str(told[0].where), name
    both = damaged(case, tmp_path / "left", lambda values, tensors: tensors.__setitem__("v.more", pyapp.zeros(3)))
    with pytest.raises(ModelError, match="left over: v.more"):
        load_model(both)


def test_a_vocabulary_without_the_token(case: Any, tmp_path: Path) -> None:
    """An unused token takes its place, and the answers stay the same."""
    pytest.importorskip("jinja2")
    kind, folder, both = case
    loaded = load_model(both)
    token = loaded.model.config.image_token_id  # type: ignore[attr-defined]

    def rename(values: dict[str, Any], tensors: dict[str, Any]) -> None:
        values["tokenizer.ggml.tokens"][token] = "<unused7>"

    shutil.copytree(both, tmp_path / "both")
    rewritten(tmp_path / "both" / "model.gguf", rename)
    if kind == "llava":
        shutil.copy(folder / "preprocessor_config.json", tmp_path / "both")
    found = load_model(tmp_path / "both")
    assert found.model.config.image_token_id == token  # type: ignore[attr-defined]
    assert answers(tmp_path / "both")[0] == answers(folder)[0]


def test_names_of_files() -> None:
    def found(*names: str, model: str | None = None) -> str | None:
        chosen = choose_files(names, model or choose_model(names, "here"))
        return chosen.get("projector")

    assert found("VLM-Q8_0.gguf", "mmproj-VLM-f16.gguf", "mmproj-VLM-Q8_0.gguf") == "mmproj-VLM-f16.gguf"
    assert found("gemma-3-4b-it-Q4_K_M.gguf", "mmproj-google_gemma-3-4b-it-bf16.gguf") is not None
    assert found("model.gguf", "mmproj-model-f32.gguf") == "mmproj-model-f32.gguf"
    both = "a-7b-q4_0.gguf", "b-3b-q4_0.gguf", "a-7b-mmproj-f16.gguf", "b-3b.mmproj.gguf"
    assert found(*both, model="a-7b-q4_0.gguf") == "a-7b-mmproj-f16.gguf"
    assert found(*both, model="b-3b-q4_0.gguf") == "b-3b.mmproj.gguf"
    assert found(*both, "c.gguf", model="c.gguf") is None
    assert found("model.safetensors", "mmproj-f16.gguf") is None
    assert choose_model(["x.gguf", "mmproj-x.gguf"], "here") == "x.gguf"


def test_files_by_name(case: Any) -> None:
    """As the page gives them: the file of what sees comes first, and has no tokenizer."""
    kind, folder, both = case
    loaded = load_files({path.name: FileSource(path) for path in sorted(both.iterdir())})
    assert loaded.name == "model.gguf"
    np.testing.assert_allclose(logits(kind, loaded), logits(kind, load_model(folder)), rtol=1e-4, atol=1e-4)
