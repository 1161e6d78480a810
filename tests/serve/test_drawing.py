"""/v1/images: pictures of texts, changed pictures, what is refused, and clients that leave."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import tasks
from pyapp.events import Item
from pyapp.formats.png import encode_png
from pyapp.vision.reading import read_image
from tests.models.diffusion_cases import start_picture
from tests.models.test_joint import write_joint_model
from tests.serve.in_process import serving

pytestmark = pytest.mark.native_only

MAKE, EDIT = "/v1/images/generations", "/v1/images/edits"
ASK = {"model": "painter", "prompt": "a red cat", "size": "16x24", "steps": 2}


def drawn(answer: Any) -> list[bytes]:
    assert answer.status_code == 200, answer.text
    return [base64.b64decode(entry["b64_json"]) for entry in answer.json()["data"]]


def own(folder: Path, prompts: list[str], **options: Any) -> list[bytes]:
    """The pictures of the task."""

    async def run() -> list[bytes]:
        events = [event async for event in tasks.imagine(prompts, model=str(folder), **options)]
        return [base64.b64decode(event.values["png"]) for event in events if isinstance(event, Item)]

    return asyncio.run(run())


def test_pictures_are_those_of_the_task(client: Any, model_folders: dict[str, Path]) -> None:
    answer = client.post(MAKE, json=ASK | {"n": 2, "seed": 3, "negative_prompt": "cat", "schedule": "dpm++-karras"})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert {name: found[name] for name in ("size", "output_format", "background")} == {
        "size": "16x24", "output_format": "png", "background": "opaque"}  # fmt: skip
    options = {"steps": 2, "seed": 3, "width": 16, "height": 24, "negative_prompt": "cat", "schedule": "dpm++-karras"}
    assert drawn(answer) == own(model_folders["painter"], ["a red cat"] * 2, **options)
    assert 'pyapp_drawn_pictures_total{model="painter"} ' in client.get("/metrics").text
    lines = client.post(MAKE, json=ASK | {"stream": True}).text.split("\n\n")
    [event] = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data")]
    assert event["type"] == "image_generation.completed"
    assert base64.b64decode(event["b64_json"]) == drawn(client.post(MAKE, json=ASK))[0]


def test_changed_pictures(client: Any, model_folders: dict[str, Path]) -> None:
    """Without a mask all is changed by the strength; else what is transparent, in the mask or in the picture."""
    picture, mask = start_picture()
    plain = encode_png(picture)
    masked = encode_png(np.concatenate([picture, 255 - mask[..., None]], 2))
    form = {"model": "painter", "prompt": "a red cat", "steps": "4", "strength": "0.5"}

    def ask(**files: bytes) -> list[bytes]:
        return drawn(client.post(EDIT, data=form, files={name: (name, data) for name, data in files.items()}))

    folder, options = model_folders["painter"], {"steps": 4, "strength": 0.5, "image": plain}
    assert ask(image=plain) == own(folder, ["a red cat"], **options)
    for image in (plain, masked):  # what is transparent is white before
        filled = own(folder, ["a red cat"], mask=encode_png(mask[..., None]), **options | {"image": image})
        assert ask(image=image, mask=masked) == filled
    assert ask(image=masked) == ask(**{"image[]": masked}) == filled
    assert read_image(filled[0]).shape == (20, 18, 3)


def test_what_is_refused(client: Any) -> None:
    for fields, param in (
        ({"prompt": None}, "prompt"), ({"prompt": 5}, "prompt"), ({"n": 11}, "n"), ({"n": 0}, "n"),
        ({"size": "16"}, "size"), ({"size": "5000x8"}, "size"), ({"size": "17x16"}, "size"), ({"steps": 0}, "steps"),
        ({"steps": 1000, "schedule": "lcm"}, "steps"), ({"schedule": "fast"}, "schedule"),
        ({"response_format": "url"}, "response_format"), ({"output_format": "gif"}, "output_format"),
        ({"background": "transparent"}, "background"), ({"seed": -1}, "seed"), ({"strength": 0.5}, "strength"),
        ({"model": "chat"}, "model"), ({"model": "nobody"}, "model"), ({"more": 1}, "more"),
    ):  # fmt: skip
        answer = client.post(MAKE, json=ASK | fields)
        assert 400 <= answer.status_code < 500 and answer.json()["error"]["param"] == param, answer.text
    plain = encode_png(start_picture()[0])
    for files, fields, param in (
        ({}, {}, "image"), ({"image": b"no picture"}, {}, "image"), ({"image": plain, "mask": b"no"}, {}, "mask"),
        ({"image": plain}, {"n": "two"}, "n"), ({"image": plain}, {"strength": "2"}, "strength"),
        ({"image": plain}, {"steps": "2", "strength": "0.1"}, "strength"), ({"image": plain}, {"more": "1"}, "more"),
        ({"image": plain, "image[]": plain}, {}, "image"),
    ):  # fmt: skip
        answer = client.post(
            EDIT, data={"prompt": "a", **fields}, files={name: ("a.png", data) for name, data in files.items()} or None
        )
        error = answer.json()["error"]
        assert 400 <= answer.status_code < 500 and (error["param"] == param or not files), answer.text
    assert client.context.in_flight == 0
    assert client.get("/health").status_code == 200


def test_flux_draws(tmp_path: Path) -> None:

    folder = write_joint_model(tmp_path / "flux", "dev")
    with serving(str(folder)) as client:
        ask = ASK | {"model": "flux"}
        assert drawn(client.post(MAKE, json=ask | {"guidance": 2, "seed": 4})) == own(
            folder, ["a red cat"], steps=2, width=16, height=24, guidance=2, seed=4
        )
        for fields, param in (({"negative_prompt": "cat"}, "negative_prompt"), ({"schedule": "ddim"}, "schedule")):
            answer = client.post(MAKE, json=ask | fields)
            assert answer.status_code == 400 and answer.json()["error"]["param"] == param, answer.text
        picture = {"image": ("a.png", encode_png(start_picture()[0]))}
        form = {"model": "flux", "prompt": "a red cat", "steps": "2", "strength": "0.5"}
        assert read_image(drawn(client.post(EDIT, data=form, files=picture))[0]).shape == (20, 16, 3)


def test_hugging_faces_form(client: Any) -> None:
    asked: Any = {"width": 16, "height": 24, "num_inference_steps": 1, "seed": 3, "guidance_scale": 2}
    answer = client.post("/models/painter", json={"inputs": "a red cat", "parameters": asked})
    assert answer.headers["content-type"] == "image/png"
    same = {"prompt": "a red cat", "size": "16x24", "steps": 1, "seed": 3, "guidance": 2}
    [picture] = client.post("/v1/images/generations", json=same).json()["data"]
    assert answer.content == base64.b64decode(picture["b64_json"])
    refused = client.post("/models/painter", json={"inputs": "a", "parameters": {"width": 0}}).json()["error"]
    assert refused["param"] == "parameters.width"
