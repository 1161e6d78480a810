"""tasks.chat with pictures, against transformers (tests/text/make_golden_picture_chat.py): prompts, tokens, what is
read again, and what cannot be.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel
from pyapp.formats import write_safetensors
from pyapp.formats.png import encode_png
from pyapp.formats.source import FileSource
from pyapp.models import load_model
from pyapp.models._index import SEEING
from pyapp.tasks.keeper import keeper
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.pictures import PictureSession, pictures_first
from tests.models.picture_text_configs import CONFIGS
from tests.models.seeded import picture_weights
from tests.text.chat_model import write_chat_model
from tests.text.page_library import page_library  # noqa: F401 (for every test)
from tests.text.picture_chat_model import (
    FRAMES,
    IDS,
    MORE,
    SIZE,
    SIZES,
    STAND_IN,
    TEMPLATES,
    VIDEOS,
    byte_tokenizer,
    conversation,
    photo,
    video_conversation,
    write_picture_chat_model,
    write_video_chat_model,
)
from tests.text.picture_chat_model import GOLDEN as MODELS
from tests.together import collect, fewer_in_browser

pytest.importorskip("jinja2")
GOLDEN = json.loads((Path(__file__).parents[1] / "text" / "golden_picture_chat.json").read_text())
GREEDY = {"temperature": 0, "max_new_tokens": 16, "suppress_tokens": list(IDS.values())}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: write_picture_chat_model(folder / kind, kind) for kind in TEMPLATES | MORE}


def run(events: tasks.Events) -> tuple[list[int], Any, list[Any]]:
    """The tokens, the last event, and all events."""

    found = collect(events)
    return [event.id for event in found if event.type == "token" and event.id is not None], found[-1], found


def pictures() -> list[pyapp.Tensor]:
    return [pyapp.from_numpy(photo(*size)) for size in SIZES]


def read_so_far() -> list[int]:
    """The tokens that the session has read."""
    session = keeper._session
    return list(session.plain(session.tokens))


def prompt_of(kind: str) -> list[int]:
    """The golden prompt; the token of a picture, where the model does not write it, is its last one there."""
    return [min(id, keeper._session.vocab_size - 1) for id in GOLDEN[kind]["prompt"]]


def check_what_was_read() -> Any:
    """The session's keys and values are those of one that reads the same text anew; returns the last logits."""
    last = keeper._session
    ids = list(last.tokens)
    found = last.continue_from(ids).numpy().copy()  # reads the last token only
    assert last.tokens == ids
    other = PictureSession(last.model, last.capacity)
    other.known = last.known
    np.testing.assert_allclose(other.continue_from(ids).numpy(), found, atol=1e-4)
    return found


@pytest.mark.parametrize("kind", fewer_in_browser(TEMPLATES | MORE, 2))
def test_answers_are_those_of_transformers(kind: str, folders: dict[str, Path]) -> None:
    tasks.unload()
    expected = GOLDEN[kind]
    found, done, events = run(tasks.chat(folders[kind], conversation(pictures()), GREEDY))
    assert done.type == "done", done
    assert found == expected["written"]
    assert read_so_far()[: len(expected["prompt"])] == prompt_of(kind)
    seen = [(event.done, event.total) for event in events if event.type == "progress" and event.what == "seeing"]
    tiles = seen[-1][1]
    done_so_far = [number for number, total in seen if total == tiles]
    assert len(done_so_far) == len(seen) and tiles >= 2
    assert done_so_far == sorted({*done_so_far}) and (done_so_far[0], done_so_far[-1]) == (0, tiles)
    # As files by name, with pictures in files, and with nothing kept.
    tasks.unload()
    files = {path.name: FileSource(path) for path in folders[kind].iterdir()}
    again = run(tasks.chat(files, conversation(pictures()), GREEDY, key=kind))
    assert again[0] == found and read_so_far()[: len(expected["prompt"])] == prompt_of(kind)


def frames() -> list[pyapp.Tensor]:
    return [pyapp.from_numpy(photo(*FRAMES[1:], seed)) for seed in range(FRAMES[0])]


@pytest.mark.parametrize("kind", fewer_in_browser(VIDEOS, 2))
def test_answers_about_videos_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    tasks.unload()
    expected, folder = GOLDEN["videos"][kind], write_video_chat_model(tmp_path, kind)
    found, done, events = run(tasks.chat(folder, video_conversation(frames(), VIDEOS[kind]), GREEDY))
    assert done.type == "done", done
    told = [IDS["<|image_pad|>"] if id == IDS[STAND_IN] else id for id in expected["prompt"]]  # places of vectors
    assert read_so_far()[: len(told)] == told
    assert found == expected["written"]
    assert [event for event in events if event.type == "progress" and event.what == "seeing"]
    check_what_was_read()
    for number, frame in enumerate(frames(), 8):  # names that are in this order as numbers only
        (tmp_path / f"{number}.png").write_bytes(encode_png(frame.numpy()))
    tasks.unload()
    again = run(tasks.chat(folder, video_conversation(str(tmp_path), VIDEOS[kind]), GREEDY))
    assert again[0] == found


def test_a_prompt_with_pictures(folders: dict[str, Path]) -> None:
    """tasks.generate continues what the chat template makes of a conversation as tasks.chat does."""
    for kind in fewer_in_browser(TEMPLATES):
        tasks.unload()
        shown = pictures()
        content = [{"type": "image", "image": own} for own in shown] + [{"type": "text", "text": "A fox?"}]
        expected, _, _ = run(tasks.chat(folders[kind], [{"role": "user", "content": content}], GREEDY))
        loaded = load_model(folders[kind])
        plain = [{"type": "image"}, {"type": "image"}, {"type": "text", "text": "A fox?"}]
        prompt = ChatTemplate(loaded.tokenizer).render([{"role": "user", "content": plain}])
        assert prompt.count(loaded.model.placeholder) == 2  # type: ignore[attr-defined]
        prompt = prompt.removeprefix("<s>")  # what the tokenizer puts before a text
        found, done, events = run(tasks.generate(loaded, prompt, GREEDY, pictures=shown))
        assert found == expected and len(found) == 16, (kind, done)
        seen = [(event.done, event.total) for event in events if event.type == "progress" and event.what == "seeing"]
        total = seen[-1][0]  # tiles
        assert seen == [(count, total) for count in sorted({count for count, _ in seen})] and seen[0][0] == 0 < total
        # Without a placeholder, pictures come first.
        before, after = loaded.model.around  # type: ignore[attr-defined]
        place = before + loaded.model.placeholder + after  # type: ignore[attr-defined]
        first = run(tasks.generate(loaded, f"{place}{place}A fox?", GREEDY, pictures=shown))
        assert run(tasks.generate(loaded, "A fox?", GREEDY, pictures=shown))[0] == first[0]


def test_kosmos_writes_about_a_picture(tmp_path: Path) -> None:
    """The tokens around pictures are ordinary words in its files."""
    more = {"</chunk>": SIZE, "</image>": SIZE + 1}
    config = CONFIGS["kosmos2"] | {"image_token_id": SIZE}
    config["text_config"] = config["text_config"] | {"vocab_size": SIZE + 2, "pad_token_id": 1}
    stored = json.loads((MODELS / "kosmos2.json").read_text())["parameters"]
    words = ("embed_tokens.weight", "lm_head.weight")
    shapes = {name: (SIZE + 2, shape[1]) if name.endswith(words) else shape for name, (shape, _) in stored.items()}
    tensors = {name: np.ascontiguousarray(picture_weights(name, tuple(shape))) for name, shape in shapes.items()}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    document = byte_tokenizer(True, more)
    for entry in document["added_tokens"]:
        entry["special"] = entry["content"] not in ("<image>", *more)
    prepares = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16},
                "crop_size": {"height": 16, "width": 16}}  # fmt: skip
    for name, value in (("config", config), ("tokenizer", document), ("preprocessor_config", prepares)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    found, done, _ = run(tasks.generate(str(tmp_path), "A fox?", GREEDY, pictures=pictures()[:1]))
    assert done.type == "done" and found, done
    around = [IDS["<s>"], IDS["<image>"], *[SIZE] * 5, SIZE + 1]
    assert done.results["prompt_tokens"] == len(around) + len("A fox?")


def test_prompts_that_cannot_be(folders: dict[str, Path], tmp_path: Path) -> None:
    shown = pictures()
    folder = folders["llava"]
    for prompt, options, more, message in (
        ("<image> a <image>", {}, {}, "it has 2 times '<image>', and 1 pictures are given"),
        ("a", {"context": 10}, {}, "there is room for 10"),
        ("a" * 30, {"context": 40}, {}, "tokens with its pictures"),
        ("a", {"samples": 2}, {}, "excludes several samples"),
        ("a", {}, {"pictures": [tmp_path / "none.png"]}, "no such file"),
    ):
        found = run(tasks.generate(folder, prompt, GREEDY | options, **({"pictures": shown[:1]} | more)))[1]
        assert found.type == "error" and message in found.what, found
    write_chat_model(tmp_path / "text", dim=32)
    found = run(tasks.generate(tmp_path / "text", "a", GREEDY, pictures=shown))[1]
    assert found.type == "error" and "reads no pictures" in found.what


def test_a_turn_reads_only_what_is_new(folders: dict[str, Path]) -> None:
    for kind in fewer_in_browser(TEMPLATES):
        tasks.unload()
        shown = pictures()
        messages: list[dict[str, Any]] = conversation(shown)[:1]
        _, done, _ = run(tasks.chat(folders[kind], messages, GREEDY))
        messages += [{"role": "assistant", "content": done.results["text"]}, {"role": "user", "content": "And now?"}]
        _, after, _ = run(tasks.chat(folders[kind], messages, GREEDY))
        assert after.results["reused_tokens"] >= done.results["prompt_tokens"] - 2, kind
        seen = check_what_was_read()
        # Another picture of the same size: what comes before it is kept.
        other = pyapp.from_numpy(photo(*SIZES[0], seed=1))
        changed = [conversation([other, shown[1]])[0], *messages[1:]]
        _, third, _ = run(tasks.chat(folders[kind], changed, GREEDY))
        assert 0 < third.results["reused_tokens"] < 60
        assert np.abs(check_what_was_read() - seen).max() > 1e-3


def test_a_later_picture(folders: dict[str, Path]) -> None:
    """It moves the rotary positions of all that Qwen's models have read; other models go on."""
    for kind in fewer_in_browser(TEMPLATES):
        tasks.unload()
        messages: list[dict[str, Any]] = conversation(pictures())[:1]
        _, done, _ = run(tasks.chat(folders[kind], messages, GREEDY))
        later = {"type": "image", "image": pyapp.from_numpy(photo(50, 20))}
        messages += [
            {"role": "assistant", "content": done.results["text"]},
            {"role": "user", "content": [later, {"type": "text", "text": "And this one?"}]},
        ]
        _, second, _ = run(tasks.chat(folders[kind], messages, GREEDY))
        reused = second.results.get("reused_tokens", 0)
        assert reused == 0 if kind.startswith("qwen") else reused > done.results["prompt_tokens"] - 2
        check_what_was_read()


def test_a_prompt_that_attends_to_all_of_it(folders: dict[str, Path]) -> None:
    """What follows a prompt changes all of it; the same prompt again needs its last token only."""
    tasks.unload()
    messages: list[dict[str, Any]] = conversation(pictures())[:1]
    first, done, _ = run(tasks.chat(folders["paligemma"], messages, GREEDY))
    longer = [
        *messages,
        {"role": "assistant", "content": done.results["text"]},
        {"role": "user", "content": "And now?"},
    ]
    found, after, _ = run(tasks.chat(folders["paligemma"], longer, GREEDY))
    assert "reused_tokens" not in after.results
    again, same, _ = run(tasks.chat(folders["paligemma"], longer, GREEDY))
    assert again == found and same.results["reused_tokens"] == same.results["prompt_tokens"] - 1
    shorter, back, _ = run(tasks.chat(folders["paligemma"], messages, GREEDY))
    assert shorter == first and "reused_tokens" not in back.results


def test_pictures_that_tokens_before_them_see(folders: dict[str, Path]) -> None:
    """A text goes on while its pictures stay the same, and is read anew where one is added or changes."""
    tasks.unload()
    shown, folder = pictures(), folders["mllama"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "A fox?"}]
    plain, _, _ = run(tasks.chat(folder, messages, GREEDY))
    messages = conversation(shown)[:1]
    _, done, _ = run(tasks.chat(folder, messages, GREEDY))
    check_what_was_read()
    messages += [{"role": "assistant", "content": done.results["text"]}, {"role": "user", "content": "And now?"}]
    _, after, _ = run(tasks.chat(folder, messages, GREEDY))
    assert after.results["reused_tokens"] >= done.results["prompt_tokens"] - 2
    seen = check_what_was_read()
    later = [{"type": "image", "image": own} for own in shown] + [{"type": "text", "text": "And both?"}]
    for changed in (
        [*messages[:2], {"role": "user", "content": later}],
        [conversation(shown[::-1])[0], *messages[1:]],
    ):
        _, third, _ = run(tasks.chat(folder, changed, GREEDY))
        assert third.type == "done" and "reused_tokens" not in third.results
        assert np.abs(check_what_was_read() - seen).max() > 1e-3
    assert run(tasks.chat(folder, [{"role": "user", "content": "A fox?"}], GREEDY))[0] == plain
    many = [{"role": "user", "content": [{"type": "image", "image": shown[0]}] * 8}]
    done = run(tasks.chat(folder, many, GREEDY | {"context": 200}))[1]
    assert done.type == "error" and "side by side take 272 places: there is room for 200" in done.what, done


def test_pictures_before_the_beginning_of_a_text(folders: dict[str, Path]) -> None:
    """And in several places of a prompt, as transformers has them."""
    loaded = load_model(folders["mllama"])
    shown, first = pictures(), IDS["<s>"]
    assert loaded.tokenizer.bos_id == first and loaded.tokenizer.encode("", eos=False) == []
    for prompt, expected in GOLDEN["prompts"]["mllama"]:
        found, done, _ = run(
            tasks.generate(loaded, prompt, GREEDY, pictures=[*shown, shown[0]][: prompt.count("|image|")])
        )
        assert found == expected, (prompt, done)
    assert pictures_first([1, first, 2], first, 1) == [1, first, 2] and pictures_first([1, 2], None, 1) == [1, 2]


class Counting(Cancel):
    """Set at the check after `left` others."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.set()
        super().check()


def test_stop_while_pictures_are_seen(folders: dict[str, Path]) -> None:
    """Within a tile, and between two. The next answer goes on there."""

    async def stopped(kind: str, cancel: Cancel) -> list[Any]:
        found = []
        async for event in tasks.chat(folders[kind], conversation(pictures()), GREEDY, cancel=cancel):
            found.append(event)
            if event.type == "progress" and event.what == "seeing" and event.done:
                cancel.set()
        return found

    def seeing(events: list[Any]) -> list[int]:
        return [event.done for event in events if event.type == "progress" and event.what == "seeing"]

    for kind in fewer_in_browser(TEMPLATES):
        tasks.unload()
        whole, _, events = run(tasks.chat(folders[kind], conversation(pictures()), GREEDY))
        looks = len(seeing(events)) - 1
        tasks.unload()
        run(tasks.chat(folders[kind], [{"role": "user", "content": "Hello"}], GREEDY))  # loads the model
        for cancel, seen in ((Counting(3), 1), (Cancel(), 2)):
            events = asyncio.run(stopped(kind, cancel))
            assert (events[-1].type, events[-1].reason) == ("done", "cancelled") and len(seeing(events)) == seen, kind
        found, _, events = run(tasks.chat(folders[kind], conversation(pictures()), GREEDY))
        assert found == whole and len(seeing(events)) - 1 == looks - 1, kind


def test_settings_that_read_prompts(folders: dict[str, Path]) -> None:
    """Penalties count a picture's tokens as its placeholder; guesses do not change the text."""
    messages = conversation(pictures())
    plain = run(tasks.chat(folders["llava"], messages, GREEDY))[0]
    guessed, done, _ = run(tasks.chat(folders["llava"], messages, GREEDY | {"lookup": 4}))
    assert guessed == plain and "passes" in done.results
    drafted, done, _ = run(tasks.chat(folders["llava"], messages, GREEDY, draft=load_model(folders["llava"])))
    assert drafted == plain and done.results["guessed_tokens"] > 0
    for kind in fewer_in_browser(TEMPLATES):  # pictures are cut at both ends
        for keep in (0, 25, 40):
            rolling = GREEDY | {"context": 90, "rolling": True, "keep": keep, "max_new_tokens": 60}
            told = run(tasks.chat(folders[kind], conversation([*pictures()][::-1] if keep else pictures()), rolling))
            assert told[1].type == "done" and len(told[0]) == 60, (kind, keep, told[1])
    punished, done, _ = run(tasks.chat(folders["llava"], messages, GREEDY | {"repetition_penalty": 1.5}))
    assert done.type == "done" and punished != plain
    text, done, _ = run(tasks.generate(folders["llava"], "A text without pictures", {"max_new_tokens": 4, "seed": 1}))
    assert done.type == "done" and len(text) == 4


def test_answers_without_pictures(folders: dict[str, Path]) -> None:
    said = {"role": "user", "content": "Hello"}
    for kind in fewer_in_browser(TEMPLATES):  # also by a template that reads lists of parts
        as_text = run(tasks.chat(folders[kind], [said], GREEDY))
        as_parts = run(tasks.chat(folders[kind], [said | {"content": [{"type": "text", "text": "Hello"}]}], GREEDY))
        assert as_text[0] == as_parts[0] and as_text[1].type == "done"
        prompt = bytes(token for token in read_so_far() if token < 256)
        assert b"Hello" in prompt


def test_pictures_as_addresses(folders: dict[str, Path]) -> None:
    """As OpenAI's interface has them."""
    if sys.platform == "emscripten":
        pytest.skip("a browser decodes pictures only where Python may wait")
    shown = pictures()
    [message] = conversation(shown)[:1]
    expected = run(tasks.chat(folders["llava"], [message], GREEDY))[0]
    for i, picture in ((0, shown[0]), (2, shown[1])):
        url = "data:image/png;base64," + base64.b64encode(encode_png(picture.numpy())).decode()
        message["content"][i] = {"type": "image_url", "image_url": {"url": url}}
    assert run(tasks.chat(folders["llava"], [message], GREEDY))[0] == expected


def test_what_cannot_be_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    def refusal(folder: Path, content: Any, **options: Any) -> str:
        done = run(tasks.chat(folder, [{"role": "user", "content": content}], GREEDY | options))[1]
        assert done.type == "error", done
        return f"{done.where}: {done.what}. {done.hint}"

    def picture(source: Any) -> dict[str, Any]:
        return {"type": "image", "image": source}

    shown = pictures()[0]
    text = {"type": "text", "text": "What is it?"}
    write_chat_model(tmp_path / "text")
    assert "reads no pictures" in refusal(tmp_path / "text", [picture(shown), text])
    assert "content[0]: the picture is missing" in refusal(folders["llava"], [picture(None), text])
    assert "type 'movie' is not known" in refusal(folders["llava"], [{"type": "movie"}])
    moving = {"type": "video", "video": frames()}
    assert "reads no videos" in refusal(folders["llava"], [moving])
    assert "fps is -1" in refusal(folders["qwen2_vl"], [moving | {"fps": -1}])
    assert "the video is missing" in refusal(folders["qwen2_vl"], [{"type": "video", "video": 3}])
    assert "no folder of frames" in refusal(folders["qwen2_vl"], [{"type": "video", "video": "clip.mp4"}])
    assert "is no picture" in refusal(folders["qwen2_vl"], [{"type": "video", "video": [None]}])
    assert "not float32" in refusal(folders["qwen2_vl"], [moving | {"video": [pyapp.zeros(40, 40, 3)]}])
    assert "several sizes" in refusal(folders["qwen2_vl"], [{"type": "video", "video": pictures()}])
    assert "is room for" in refusal(folders["qwen2_vl"], [moving | {"video": frames() * 100}])
    assert "no such file" in refusal(folders["llava"], [picture(str(tmp_path / "none.png")), text])
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    if sys.platform != "emscripten":
        assert "broken.png" in refusal(folders["llava"], [picture(tmp_path / "broken.png"), text])
    assert "uint8 (height, width, 3)" in refusal(folders["llava"], [picture(shown.float()), text])
    narrow = pyapp.zeros(1, 1 << 20, 3, dtype="uint8")
    for kind in ("qwen2_vl", "llava"):
        told = refusal(folders[kind], [picture(narrow), text])
        assert told.startswith("messages: ") and "too narrow" in told and "Crop it" in told, told
    for url in ("https://example.org/a.png", "data:image/png,abc", "file:///etc/passwd", 3, None):
        assert "data: URLs" in refusal(folders["llava"], [{"type": "image_url", "image_url": {"url": url}}])
    bad = {"type": "image_url", "image_url": "data:image/png;base64,a+*"}
    assert "not base64" in refusal(folders["llava"], [bad])
    many = refusal(folders["llava"], [picture(shown)] * 70)
    assert "70 pictures take 1,120 tokens" in many and "room for 1,024" in many
    tiles = refusal(folders["idefics3"], [picture(shown)] * 30, context=1000)
    assert "a picture of 41 x 30 pixels takes 40 tokens: there is room for 0" in tiles
    large = pyapp.zeros(4000, 4000, 3, dtype="uint8")
    settings = json.loads((folders["qwen2_vl"] / "preprocessor_config.json").read_text())
    vast = write_picture_chat_model(tmp_path / "vast", "qwen2_vl")
    (vast / "preprocessor_config.json").write_text(json.dumps(settings | {"max_pixels": 1 << 26}))
    assert "takes 250,000 tokens: there is room for 1,024" in refusal(vast, [picture(large), text])
    whole = refusal(folders["llava"], [picture(shown), {"type": "text", "text": "a" * 100}], context=64)
    assert "the conversation has 135 tokens" in whole
    for lacking in ("preprocessor_config.json", "chat_template.json"):
        there = write_picture_chat_model(tmp_path / lacking, "llava")
        (there / lacking).unlink()
        name = "its preprocessor_config.json is missing" if lacking[0] == "p" else "no chat template"
        assert name in refusal(there, [picture(shown), text])
    other = write_picture_chat_model(tmp_path / "other", "gemma3")
    settings = json.loads((other / "preprocessor_config.json").read_text())
    (other / "preprocessor_config.json").write_text(json.dumps(settings | {"size": {"height": 16, "width": 24}}))
    assert "(16, 24)" in refusal(other, [text])
    template = "{% for message in messages %}{{ message.role }}{% endfor %}"
    (other / "preprocessor_config.json").write_text(json.dumps(settings))
    (other / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert "places for 0 of 1 pictures" in refusal(other, [picture(shown), text])


def test_what_reads_a_language_model_alone(folders: dict[str, Path], tmp_path: Path) -> None:
    """Training and several processes: Gemma 3 without its tower, the others not at all."""
    loaded = load_model(folders["gemma3"], pictures=False)
    assert not hasattr(loaded.model, "picture_tokens") and loaded.processor is None
    seeing = load_model(folders["gemma3"])
    assert seeing.model.picture_tokens == 9 and seeing.processor.fixed_size == (24, 24)
    ids = pyapp.tensor([[3, 7, 1, 40, 2]])
    with pyapp.no_grad():
        np.testing.assert_array_equal(loaded.model(ids).numpy(), seeing.model(ids).numpy())  # type: ignore[operator]
    alone = write_picture_chat_model(tmp_path / "alone", "gemma3")
    (alone / "preprocessor_config.json").unlink()
    assert not hasattr(load_model(alone).model, "picture_tokens")  # its tower would see nothing
    for kind in ("llava", "idefics3"):
        with pytest.raises(ModelError, match="image-text-to-text"):
            load_model(folders[kind], pictures=False)
        with pytest.raises(OptionError, match="adapter"):
            load_model(folders[kind], adapter=tmp_path)
    with pytest.raises(ModelError, match="tower 'vivit'"):
        write_picture_chat_model(tmp_path, "llava")
        config = json.loads((tmp_path / "config.json").read_text())
        config["vision_config"]["model_type"] = "vivit"
        (tmp_path / "config.json").write_text(json.dumps(config))
        load_model(tmp_path)


LLAVA: dict[str, Any] = {
    "model_type": "llava", "image_token_index": 32000, "vision_feature_layer": -2,
    "text_config": {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "patch_size": 14,
                      "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24},
}  # fmt: skip


def configured(*objects: dict[str, Any]) -> list[Any]:
    """The configurations of language models that see pictures."""
    modules = [importlib.import_module(f"pyapp.models.{SEEING[one['model_type']]}") for one in objects]
    return [module.Config.from_dict(one) for module, one in zip(modules, objects, strict=True)]


def test_published_configurations() -> None:
    """Those of SmolVLM-256M, LLaVA 1.5 7B and Gemma 3 4B, which leave out much."""
    smol = {
        "model_type": "idefics3", "image_token_id": 49190, "scale_factor": 4, "tie_word_embeddings": False,
        "text_config": {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49280,
                        "num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30,
                        "max_position_embeddings": 8192, "rope_theta": 100000},
        "vision_config": {"model_type": "idefics3", "hidden_size": 768, "image_size": 512, "patch_size": 16,
                          "num_attention_heads": 12, "size": {"longest_edge": 2048}},
    }  # fmt: skip
    gemma = {
        "model_type": "gemma3", "image_token_index": 262144, "mm_tokens_per_image": 256,
        "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                        "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                        "sliding_window": 1024},
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896, "patch_size": 14,
                          "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 27,
                          "vision_use_head": False},
    }  # fmt: skip
    read = configured(smol, LLAVA, gemma)
    assert read[0].vision_config.grid == (32, 32) and read[0].vision_config.num_hidden_layers == 12
    assert read[1].counts == [23] and read[1].text_config.hidden_size == 4096 and read[1].without_first
    assert read[2].side == 16 and read[2].vision_config.grid == (64, 64) and read[2].text_config.vocab_size == 262208


def test_published_configurations_of_qwens() -> None:
    qwen: dict[str, Any] = {
        "model_type": "qwen2_vl", "image_token_id": 151655, "hidden_size": 1536, "intermediate_size": 8960,
        "max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 12, "num_hidden_layers": 28,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
        "use_sliding_window": False, "vocab_size": 151936, "tie_word_embeddings": True,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3,
                          "hidden_size": 1536, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2},
    }  # fmt: skip
    tower = {"depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
             "in_chans": 3, "out_hidden_size": 1536, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112,
             "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2}  # fmt: skip
    for kind, vision in (("qwen2_vl", qwen["vision_config"]), ("qwen2_5_vl", tower)):
        made = configured(qwen | {"model_type": kind, "vision_config": vision})[0]
        text = made.text_config
        assert text.rope_parameters["rope_theta"] == 1e6 and text.tie_word_embeddings and made.vocab_size == 151936
        assert text.rope_parameters["rope_type"] == "default"
        assert list(made.sections) == [16, 24, 24] and made.vision_config.window == (8 if vision is tower else None)
    long = {"type": "yarn", "mrope_section": [16, 24, 24], "factor": 4.0, "original_max_position_embeddings": 32768}
    made = configured(qwen | {"rope_scaling": long})[0]
    assert made.text_config.rope_parameters["rope_type"] == "yarn" and made.max_seq_len == 131072
    deep = {
        "model_type": "qwen3_vl", "image_token_id": 151655, "tie_word_embeddings": True,
        "text_config": {"model_type": "qwen3_vl_text", "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144,
                        "max_position_embeddings": 262144, "num_attention_heads": 16, "num_hidden_layers": 28,
                        "num_key_value_heads": 8, "rope_theta": 5000000, "vocab_size": 151936, "rope_scaling": {
                            "mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}},
        "vision_config": {"model_type": "qwen3_vl", "deepstack_visual_indexes": [5, 11, 17], "depth": 24,
                          "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1024, "intermediate_size": 4096,
                          "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 2048, "patch_size": 16,
                          "in_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2},
    }  # fmt: skip
    made = configured(deep)[0]
    assert made.sections == (1,) * 60 + (4,) and made.text_config.rope_parameters["rope_theta"] == 5e6
    assert made.text_config.tie_word_embeddings and made.vision_config.learned == 48 and made.max_seq_len == 262144


def test_published_configurations_of_newer_models() -> None:
    """PaliGemma 2, Mistral Small 3.1, LLaVA-NeXT, InternVL 3 and Llama 3.2."""
    sees = {
        "hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_vision_model", "patch_size": 14,
        "num_attention_heads": 16, "num_hidden_layers": 27, "projection_dim": 2048, "vision_use_head": False,
    }  # fmt: skip
    pali = {
        "model_type": "paligemma", "image_token_index": 257152, "hidden_size": 2048, "projection_dim": 2048,
        "text_config": {"hidden_size": 2304, "intermediate_size": 9216, "model_type": "gemma2", "vocab_size": 257216,
                        "num_hidden_layers": 26, "num_image_tokens": 256, "num_key_value_heads": 4},
        "vision_config": sees,
    }  # fmt: skip
    mistral = {
        "model_type": "mistral3", "image_token_index": 10, "spatial_merge_size": 2, "vision_feature_layer": -1,
        "multimodal_projector_bias": False, "projector_hidden_act": "gelu",
        "text_config": {"model_type": "mistral", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 32768,
                        "num_hidden_layers": 40, "rope_theta": 1e9, "sliding_window": None, "vocab_size": 131072},
        "vision_config": {"model_type": "pixtral", "head_dim": 64, "hidden_act": "silu", "hidden_size": 1024,
                          "image_size": 1540, "intermediate_size": 4096, "num_attention_heads": 16, "patch_size": 14,
                          "num_hidden_layers": 24, "rope_theta": 10000.0},
    }  # fmt: skip
    following = {
        "model_type": "llava_next", "image_token_index": 32000, "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default", "vision_config": LLAVA["vision_config"],
        "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
        "text_config": {"model_type": "mistral", "max_position_embeddings": 32768, "vocab_size": 32064},
    }  # fmt: skip
    intern = {
        "model_type": "internvl", "image_token_id": 151667, "downsample_ratio": 0.5, "vision_feature_layer": -1,
        "vision_feature_select_strategy": "default", "text_config": {"model_type": "qwen2", "vocab_size": 151674},
        "vision_config": {"model_type": "internvl_vision", "attention_bias": True, "image_size": [448, 448],
                          "patch_size": [14, 14], "norm_type": "layer_norm", "use_qk_norm": False},
    }  # fmt: skip
    crossing = {
        "model_type": "mllama", "image_token_index": 128256,
        "text_config": {"model_type": "mllama_text_model", "max_position_embeddings": 131072, "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3",
            "original_max_position_embeddings": 8192}},
        "vision_config": {"model_type": "mllama_vision_model", "image_size": 560},
    }  # fmt: skip
    new = configured(pali, mistral, following, intern, crossing)
    assert new[0].vision_config.patches == 256 and new[0].text_config.num_attention_heads == 8
    assert new[1].counts == [24] and new[1].text_config.head_dim == 128 and new[1].vision_config.grid == (110, 110)
    assert new[2].counts == [23] and new[2].text_config.hidden_size == 4096 and len(new[2].pinpoints) == 5
    assert new[3].merged == 2 and new[3].vision_config.patches == 1024 and new[3].text_config.hidden_size == 4096
    assert new[4].vision_config.vectors == 1601 and new[4].tokens_read == 128264 and new[4].usual_seq_len == 131072
    assert new[4].text_config.cross_attention_layers == [3, 8, 13, 18, 23, 28, 33, 38]
