"""Models that give vectors of the parts of pages against transformers (make_golden_pages.py): names, vectors of pages
and queries, and scores; other types and devices; names and configurations of files.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError
from pyapp.events import Done, Item
from pyapp.models.loading.pictures import load_image_model
from tests.mirror import device as _device  # noqa: F401 (registers the mirror)
from tests.models.page_configs import CONFIGS, OTHER_DEVICE, PAGES, QUANTISED, QUERY, write_page_folder
from tests.models.seeded import shown
from tests.models.small_models import golden_in
from tests.text.page_library import page_library  # noqa: F401 (for every test)
from tests.text.picture_chat_model import photo
from tests.together import collect

if sys.platform != "emscripten":
    pytest.importorskip("tokenizers")
golden = golden_in("golden_pages")


@cache
def loaded(name: str, folder: Path, **options: Any) -> Any:
    written = write_page_folder(folder / name, name, golden(name)["shapes"])
    return load_image_model(written, "visual-document-retrieval", **options)


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def values(stream: Any) -> list[Any]:
    """The values of the Items, and at last the results of Done."""

    events = collect(stream)
    assert isinstance(events[-1], Done), events[-1]
    return [event.values for event in events if isinstance(event, Item)] + [events[-1].results]


def pages() -> list[pyapp.Tensor]:
    return [pyapp.from_numpy(photo(*size)) for size in PAGES]


@pytest.mark.parametrize("name", CONFIGS)
def test_vectors_and_scores_are_those_of_transformers(top: Path, name: str) -> None:
    model, expected = loaded(name, top), golden(name)
    *found, results = values(tasks.embed_pages(pages(), [QUERY], model=model))
    assert results == {"count": 3, "dimensions": 12}
    vectors = [np.array(item["embeddings"]) for item in found]
    assert [len(x) for x in vectors] == expected["tokens"]
    for x, wanted in zip(vectors, expected["vectors"], strict=True):
        np.testing.assert_allclose(shown(x, 32), wanted, atol=1e-4)
    *scores, results = values(tasks.rank_pages(QUERY, pages(), model=model, top=1))
    np.testing.assert_allclose([item["score"] for item in scores], expected["scores"], rtol=1e-4)
    assert results == {"count": 2, "order": [int(np.argmax(expected["scores"]))]}


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_and_another_device(top: Path, name: str) -> None:
    """The scores stay near, or the same."""
    exact = np.array(golden(name)["scores"])
    for options, least, most in (({"device": "mirror"}, -1, 1e-4), ({"dtype": "q8_0"}, 1e-6, 0.05)):
        *scores, _ = values(tasks.rank_pages(QUERY, pages(), model=loaded(name, top, **options)))
        assert least < np.abs([item["score"] for item in scores] - exact).max() < most * exact.max()
    assert name in OTHER_DEVICE


def test_what_does_not_fit_is_refused(top: Path) -> None:
    model = loaded("colqwen2", top)
    for stream, message in (
        (tasks.rank_pages(" ", pages(), model=model), "is empty"),
        (tasks.rank_pages(QUERY, [pyapp.zeros(10, 3000, 3, dtype="uint8")], model=model), "too narrow"),
        (tasks.rank_pages(QUERY, ["none.png"], model=model), "none.png"),
    ):
        with pytest.raises(AssertionError, match=message):
            values(stream)
    with pytest.raises(ModelError, match="expected a text with 1"):
        model.model.take_prompts({"visual_prompt_prefix": "Describe"})
    module = importlib.import_module("pyapp.models.colpali")
    own = CONFIGS["colpali"]["vlm_config"]
    for change in (
        {"vlm_config": 3}, {"vlm_config": own | {"model_type": "qwen2_vl"}}, {"vlm_config": own | {"model_type": []}},
        {"embedding_dim": 0}, {"embedding_dim": 10**9}, {"embedding_dim": "many"},
    ):  # fmt: skip
        with pytest.raises(ModelError):
            module.Config.from_dict(CONFIGS["colpali"] | change)
    config = module.Config.from_dict(CONFIGS["colpali"])
    assert module.Config.from_dict(config.to_dict()).to_dict() == config.to_dict()


def test_names_of_older_files() -> None:
    renamed = importlib.import_module("pyapp.models.colpali").renamed
    text = "vlm.language_model.model."
    for old, new in (
        ("vlm.language_model.model.layers.0.mlp.up_proj.weight", text + "layers.0.mlp.up_proj.weight"),
        ("vlm.model.embed_tokens.weight", text + "embed_tokens.weight"),
        ("vlm.model.visual.merger.ln_q.weight", "vlm.vision_tower.merger.ln_q.weight"),
        ("vlm.vision_tower.vision_model.post_layernorm.bias", "vlm.vision_tower.post_layernorm.bias"),
        ("embedding_proj_layer.bias", "embedding_proj_layer.bias"),
    ):
        assert renamed(old) == new
