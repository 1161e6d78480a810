"""Pictures: what the view finds is what the commands find; cut-outs by clicks and keys; saving; what is kept."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, FilePayload, Page, expect

import pyapp
from e2e.fake_hub import FakeHub
from e2e.page import ViewPage
from e2e.pdf_files import pdf
from pyapp.events import Item
from pyapp.formats import open_checkpoint
from pyapp.tasks.pictures import LOOKS
from scripts.serve import SiteServer
from tests.models.picture_folders import write_picture_folder
from tests.models.test_yolos import pickled
from tests.models.yolo_configs import LABELS as YOLO_LABELS

# By the task of each model: the name that the view offers first, and the folder that stands for it.
MODELS = {
    "detect": ("hustvl/yolos-tiny", "yolos"),
    "cut-out": ("Zigeng/SlimSAM-uniform-77", "sam"),
    "segment": ("nvidia/segformer-b0-finetuned-ade-512-512", "segformer"),
    "depth": ("depth-anything/Depth-Anything-V2-Small-hf", "depth_anything"),
    "classify-image": ("facebook/deit-tiny-patch16-224", "deit"),
    "match-image": ("openai/clip-vit-base-patch32", "clip"),
    "image-to-text": ("Salesforce/blip-image-captioning-base", "blip"),
}
WORDS = ["cat", "a green dog"]
WIDTH, HEIGHT = 400, 300

# Counts the layers that models report.
COUNT_LAYERS = """() => {
  const { engine } = pyappPage.pictures;
  const call = engine.call;
  globalThis.layers = [];
  engine.call = (name, params, options) => call.call(engine, name, params, { ...options, onEvent: (event) => {
    options?.onEvent?.(event);
    if (event.what === "seeing") globalThis.layers.push(event.done);
  } });
  globalThis.countNoMore = () => void (engine.call = call);
}"""
# Presses Stop when the work has been begun.
STOP_AT_ONCE = """() => {
  const { pictures } = pyappPage;
  const call = pictures.engine.call;
  pictures.engine.call = (name, ...rest) => {
    if (name === "look") {
      pictures.engine.call = call;
      queueMicrotask(() => pictures.button.stop());
      globalThis.stopped = true;
    }
    return call.call(pictures.engine, name, ...rest);
  };
}"""
# As a hand drops a file.
DROP = """([bytes, name, type]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(bytes)], name, { type }));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
  }
}"""
SEVERAL = """() => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>';
  return pyappPage.pictures.drop(["a.svg", "b.svg"].map((name) => new File([svg], name, { type: "image/svg+xml" })));
}"""
PASTE = """([bytes, name, type]) => {
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([Uint8Array.from(bytes)], name, { type }));
  document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
}"""


class PicturesPage(ViewPage):
    """The view in one tab."""

    view = "pictures"
    anew = "await view.begin()"
    parts = "look"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.name = page.locator("#look-name")
        self.button = page.locator("#look-start")
        self.rows = page.locator(".look-row")
        self.said = page.locator("#look-announcer")

    def reset(self) -> None:
        super().reset()
        expect(self.page.locator("#look-sheet")).to_have_attribute("data-state", "empty")

    def choose(self, task: str) -> None:
        self.page.locator(f"#look-choices input[value='{task}']").check(force=True)

    def use(self, task: str, folder: Path) -> None:
        """Chooses the files of a model, which is loaded, for a task."""
        self.choose(task)
        before = self.page.evaluate(f"pyappPage.app.choices['{task}'].model?.id")
        self.page.locator(f"#look-model-{task} > button:last-of-type").click()
        expect(self.page.locator("#model-dialog[open]")).to_be_visible()
        self.page.locator("#pick-files").set_input_files(sorted(folder.iterdir()))
        self.until(f"pyappPage.app.choices['{task}'].model?.id !== {json.dumps(before)}")
        expect(self.page.locator("dialog[open]")).to_have_count(0)

    def give(self, *files: FilePayload) -> None:
        self.page.locator("#look-files").set_input_files(list(files)[:1])
        expect(self.name).to_have_text(files[0]["name"])

    def found(self, task: str) -> dict[str, Any]:
        """What is found, when the work is over."""
        self.until(f"!pyappPage.pictures.button.running && pyappPage.pictures.results.has('{task}')", timeout=60)
        values: dict[str, Any] = self.state(f"results.get('{task}').values")
        return values

    def click(self, x: float, y: float, **options: Any) -> None:
        """Clicks into the picture, at parts of its sides."""
        box = self.page.locator("#look-stage > canvas").bounding_box()
        assert box is not None
        self.page.locator("#look-stage > canvas").click(
            position={"x": x * box["width"], "y": y * box["height"]}, **options
        )

    def points(self) -> list[list[int]]:
        """Where the points are, in pixels."""
        return [[point["x"], point["y"]] for point in self.state("points")]

    def saved(self, form: str) -> tuple[str, bytes]:
        """The name and the bytes of what is saved."""
        download = self.download(f"#look-formats [data-format={form}]")
        return download.suggested_filename, Path(download.path()).read_bytes()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("models")
    return {task: write_picture_folder(top / name, name) for task, (_, name) in MODELS.items()}


@pytest.fixture(scope="module")
def tab(browser: BrowserContext, site: SiteServer) -> Iterator[PicturesPage]:
    yield (page := PicturesPage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def pictures(tab: PicturesPage) -> Iterator[PicturesPage]:
    tab.reset()
    yield tab
    assert tab.unexpected_errors() == []


def payload(name: str = "blocks.png", seed: int = 0) -> FilePayload:
    """A picture of coloured blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.kron(blocks, np.ones((50, 50, 1), np.uint8))).save(file, "PNG")
    return {"name": name, "mimeType": "image/png", "buffer": file.getvalue()}


def native(task: str, folder: Path, **options: Any) -> dict[str, Any]:
    """What the command finds in the picture."""

    async def collect() -> dict[str, Any]:
        events = [event async for event in LOOKS[task]([payload()["buffer"]], model=str(folder), **options)]
        assert events[-1].type == "done", events[-1]
        return next(dict(event.values) for event in events if isinstance(event, Item))

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, collect()).result()


def mask_of(values: dict[str, Any]) -> np.ndarray:
    """(H, W) numbers."""
    numbers, lengths = np.array(values["runs"]).T
    return np.repeat(numbers, lengths).reshape(values["size"])


def grey_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)), np.float64)


def alike(task: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The page's kernels and the native ones round differently: pixels between two areas may be in either."""
    if "runs" in wanted:
        assert found["size"] == wanted["size"] == [HEIGHT, WIDTH]
        assert (mask_of(found) != mask_of(wanted)).mean() < 0.01
    elif task == "depth":
        assert np.abs(grey_of(base64.b64decode(found["png"])) - grey_of(base64.b64decode(wanted["png"]))).max() < 660
        assert found["metric"] == wanted["metric"] and found["most"] == pytest.approx(wanted["most"], rel=0.01)
    elif task == "detect":
        assert [one["label"] for one in found["objects"]] == [one["label"] for one in wanted["objects"]]
        for mine, theirs in zip(found["objects"], wanted["objects"], strict=True):
            assert mine["score"] == pytest.approx(theirs["score"], abs=0.01)
            assert mine["box"] == pytest.approx(theirs["box"], abs=4)
    elif "labels" in wanted:
        assert [one["label"] for one in found["labels"]] == [one["label"] for one in wanted["labels"]]
        assert [one["score"] for one in found["labels"]] == pytest.approx(
            [one["score"] for one in wanted["labels"]], abs=0.01
        )
    else:
        assert found["text"] == wanted["text"] != ""


@pytest.mark.parametrize("task", MODELS)
def test_what_is_found_is_what_the_command_finds(
    pictures: PicturesPage, hub: FakeHub, folders: dict[str, Path], task: str, tmp_path: Path
) -> None:
    """A model by the name that is offered, with its size; then everything that the view saves."""
    page, (repo, _) = pictures.page, MODELS[task]
    for path in folders[task].iterdir():
        data, name = path.read_bytes(), path.name
        if task == "depth" and name == "model.safetensors":  # the only weights are PyTorch's, of no usual name
            with open_checkpoint(path) as file:
                pyapp.save({name: file.read(name) for name in file.tensors}, tmp_path / "last.ckpt")
            data, name = (tmp_path / "last.ckpt").read_bytes(), "last.ckpt"
        hub.add(repo, name, data)
    pictures.set_hub(hub.url)
    pictures.choose(task)
    pictures.give(payload())
    if task == "cut-out":
        pictures.click(0.25, 0.5)
    else:
        if task == "match-image":
            page.locator("#look-words").fill("\n".join(WORDS))
        pictures.button.click()
    expect(pictures.error).to_contain_text("no model for this yet")
    card = page.locator(f"#look-model-{task}")
    expect(card.locator(".offer-row").first).to_contain_text("MB")
    card.locator(".offer-row").first.click()
    row = page.locator("#hub-found .model-row")
    expect(row).to_contain_text("kB")
    row.get_by_role("button", name="Download").click()
    expect(card.locator(".model-name")).to_have_text(repo.split("/")[1])
    expect(card.locator(".offer")).to_be_hidden()
    pictures.button.click()
    values = pictures.found(task)
    options: dict[str, Any] = {
        "detect": {"threshold": 0.05}, "match-image": {"labels": WORDS}, "classify-image": {"top": 10},
        "cut-out": {"points": pictures.points()},
    }.get(task, {})  # fmt: skip
    wanted = native(task, folders[task], **options)
    alike(task, values, wanted)
    expect(pictures.error).to_have_count(0)
    expect(pictures.said).not_to_be_empty()
    expect(page.locator("#look-ending")).to_contain_text(repo.split("/")[1])

    name, data = pictures.saved("json")
    saved = json.loads(data)
    assert name == "blocks.json" and saved["picture"] == "blocks.png"
    assert saved["results"][0]["task"] == task and saved["results"][0].items() >= values.items()
    if task in ("classify-image", "match-image", "image-to-text"):
        name, data = pictures.saved("txt")
        assert name == "blocks.txt" and (values.get("text") or values["labels"][0]["label"]) in data.decode()
        return
    name, data = pictures.saved("png")
    picture = Image.open(io.BytesIO(data))
    if task == "depth":
        assert data == base64.b64decode(values["png"]) and picture.mode.startswith("I;16")
        name, data = pictures.saved("map")
        assert name == "blocks depth in colours.png" and len(Image.open(io.BytesIO(data)).getcolors(1 << 20)) > 10
    elif task == "detect":
        assert name == "blocks objects.png" and picture.size == (WIDTH, HEIGHT)
    elif task == "segment":
        pixels, numbers = np.asarray(picture.convert("RGB")), mask_of(values)
        colours = {number: {tuple(pixel) for pixel in pixels[numbers == number]} for number in set(numbers.flat)}
        assert all(len(one) == 1 for one in colours.values()) and len(set.union(*colours.values())) == len(colours)
    else:
        check_cut_out(picture, mask_of(values))


def check_cut_out(picture: Image.Image, inside: np.ndarray) -> None:
    """The picture within the mask, transparent around it, without empty margins."""
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    pixels = np.asarray(picture)
    assert pixels.shape[:2] == inside[part].shape
    assert np.array_equal(pixels[:, :, 3], inside[part].astype(bool) * 255)
    original = np.asarray(Image.open(io.BytesIO(payload()["buffer"])))[part]
    assert np.array_equal(pixels[:, :, :3][inside[part] > 0], original[inside[part] > 0])


def test_the_model_looks_once_and_answers_each_click(pictures: PicturesPage, folders: dict[str, Path]) -> None:
    """By clicks, by keys, points that leave out, undo; the model does not look at the picture again."""
    page, folder = pictures.page, folders["cut-out"]
    pictures.use("cut-out", folder)
    pictures.give(payload())
    expect(page.locator("#look-nothing")).to_contain_text("Click a thing")
    pictures.button.click()
    expect(pictures.error).to_contain_text("Click a thing in the picture first")
    page.evaluate(COUNT_LAYERS)
    pictures.click(0.25, 0.5)
    alike("cut-out", pictures.found("cut-out"), native("cut-out", folder, points=pictures.points()))
    assert pictures.points()[0] == pytest.approx([100, 150], abs=1)
    assert page.evaluate("layers") == [1, 2]
    pictures.click(0.75, 0.25, modifiers=["Shift"])
    pictures.until("pyappPage.pictures.results.get('cut-out').points.length === 2")
    both = native("cut-out", folder, points=pictures.points(), labels=[1, 0])
    alike("cut-out", pictures.found("cut-out"), both)
    expect(page.locator(".look-mark")).to_have_text(["+", "−"])
    page.locator("#look-box").focus()
    page.keyboard.press("ArrowLeft")
    expect(pictures.said).to_have_text("73 % across, 25 % down")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    pictures.until("pyappPage.pictures.results.get('cut-out').points.length === 3")
    page.keyboard.press("-")
    pictures.until("pyappPage.pictures.results.get('cut-out').points.length === 4")
    points = pictures.state("points")
    assert [point["label"] for point in points] == [1, 0, 1, 0] and points[2] == {**points[3], "label": 1}
    assert points[2]["y"] - points[1]["y"] == pytest.approx(HEIGHT / 10, abs=1)
    page.keyboard.press("Backspace")
    pictures.until("pyappPage.pictures.results.get('cut-out').points.length === 3")
    page.locator("#look-minus").click()
    pictures.click(0.1, 0.1)
    pictures.until("pyappPage.pictures.results.get('cut-out').points.length === 4")
    assert pictures.state("points")[3]["label"] == 0
    assert page.evaluate("layers") == [1, 2], "the model looked again"
    page.locator("#look-unpoint-all").click()
    expect(page.locator(".look-mark")).to_have_count(0)
    expect(page.locator("#look-foot")).to_be_hidden()
    pictures.give(payload("other.png", seed=1))
    pictures.click(0.5, 0.5)
    pictures.found("cut-out")
    assert page.evaluate("layers") == [1, 2, 1, 2]
    page.evaluate("countNoMore()")


def test_stop_and_again(pictures: PicturesPage, folders: dict[str, Path]) -> None:
    """Stop ends the work; what is clicked while other work runs is cut out after it."""
    page = pictures.page
    pictures.use("cut-out", folders["cut-out"])
    pictures.use("depth", folders["depth"])
    pictures.choose("cut-out")
    pictures.give(payload())
    page.evaluate(STOP_AT_ONCE)
    pictures.click(0.5, 0.5)
    pictures.until("globalThis.stopped && !pyappPage.pictures.button.running")
    assert pictures.state("results.size") == 0
    expect(pictures.error).to_have_count(0)
    expect(pictures.button).to_have_text("Cut out")
    pictures.button.click()
    pictures.found("cut-out")
    page.evaluate(
        "() => { const { pictures } = pyappPage; pictures.choose('depth'); pictures.run(); pictures.choose('cut-out');"
        " pictures.setPoints([{ x: 1, y: 2, label: 1 }]); }"
    )
    pictures.until("pyappPage.pictures.results.get('cut-out').points[0].y === 2")
    assert pictures.found("depth")["size"] == [HEIGHT, WIDTH]


def test_objects_are_chosen_by_their_probability_and_marked(pictures: PicturesPage, folders: dict[str, Path]) -> None:
    page = pictures.page
    pictures.use("detect", folders["detect"])
    pictures.give(payload())  # a model is there: it begins by itself
    scores = [one["score"] for one in pictures.found("detect")["objects"]]
    slider = page.locator("#look-threshold")
    for least in ("0.05", "0.4", "0.95"):
        slider.fill(least)
        expect(pictures.rows).to_have_count(sum(score >= float(least) for score in scores))
        expect(page.locator(".look-found")).to_have_count(sum(score >= float(least) for score in scores))
    expect(page.locator("#look-found")).to_contain_text("Nothing is as probable as that")
    slider.fill("0.05")
    pictures.rows.first.focus()
    page.keyboard.press("Enter")
    expect(pictures.rows.first).to_have_attribute("aria-pressed", "true")
    expect(pictures.rows.first).to_be_focused()
    expect(page.locator(".look-found.marked")).to_have_count(1)
    slider.fill("0.5")


def test_what_is_kept(pictures: PicturesPage, folders: dict[str, Path], tmp_path: Path) -> None:
    """A reload shows it again, the list brings it back, a deletion is undone; turning makes another one."""
    page = pictures.page
    pictures.use("detect", folders["detect"])
    pictures.give(payload("kept.png"))
    before = pictures.found("detect")
    pictures.use("cut-out", folders["cut-out"])
    pictures.click(0.25, 0.5)
    mask = mask_of(pictures.found("cut-out"))
    page.locator("#history-picture > summary").click()
    row = page.locator("#history-picture .history-row", has_text="kept.png")
    expect(row).to_contain_text("cut-out of")
    page.reload()
    pictures.wait_ready()
    expect(pictures.name).to_have_text("kept.png")
    assert np.array_equal(mask_of(pictures.found("cut-out")), mask)
    expect(page.locator(".look-mark")).to_have_count(1)
    pictures.choose("detect")
    assert pictures.found("detect") == before
    page.locator("#history-picture > summary").click()
    row.get_by_role("button", name="Delete kept.png").click()
    expect(page.locator("#look-sheet")).to_have_attribute("data-state", "empty")
    page.locator("#history-picture .history-note button").click()
    row.locator(".history-open").click()
    expect(pictures.name).to_have_text("kept.png")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all (ZIP)").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        names = {name.split("/")[1] for name in archive.namelist() if "kept" in name}
        assert names == {"kept.png", "kept.json"}
    page.locator("#look-turn").click()
    pictures.until("pyappPage.pictures.picture.canvas.width === 300")
    assert pictures.state("results.size") == 0 and pictures.state("points.length") == 0
    page.locator("#history-picture > summary").click()


def test_where_files_go(pictures: PicturesPage, folders: dict[str, Path]) -> None:
    """A picture stays here while this is shown; PDFs are read; a model goes to its work; others say what is wrong."""
    page, given = pictures.page, payload("dropped.png")
    for script, name in ((DROP, "dropped.png"), (PASTE, "pasted.png")):
        page.evaluate(script, [list(given["buffer"]), name, "image/png"])
        expect(pictures.name).to_have_text(name)
    assert page.evaluate("location.hash") == "#pictures"
    page.evaluate(DROP, [list(b"no picture"), "none.png", "image/png"])
    expect(pictures.error).to_contain_text("cannot be decoded")
    expect(pictures.name).to_have_text("pasted.png")
    page.evaluate(SEVERAL)
    expect(pictures.error).to_contain_text("One picture at a time")
    expect(pictures.name).to_have_text("a.svg")
    page.evaluate(DROP, [list(pdf("A page")), "page.pdf", "application/pdf"])
    page.wait_for_function("() => location.hash === '#read'")
    page.evaluate("location.hash = '#story'")
    page.evaluate(DROP, [list(given["buffer"]), "elsewhere.png", "image/png"])
    page.wait_for_function("() => location.hash === '#read'")
    page.evaluate("location.hash = '#pictures'")
    pictures.choose("detect")
    files = [{"name": path.name, "bytes": list(path.read_bytes())} for path in sorted(folders["segment"].iterdir())]
    page.evaluate(
        "(files) => pyappPage.router.take(files.map(({ name, bytes }) => new File([Uint8Array.from(bytes)], name)))",
        files,
    )
    expect(page.locator("#look-model-segment .model-name")).to_have_text("model.safetensors")
    expect(page.locator("#look-choices input:checked")).to_have_value("segment")
    page.locator("#look-model-segment > button:last-of-type").click()
    page.locator("#pick-files").set_input_files(sorted(folders["detect"].iterdir()))
    expect(page.locator("#model-dialog .error-box")).to_contain_text("not for semantic-segmentation")
    page.locator("#model-dialog [data-close]").click()


def test_a_file_of_ultralytics_is_a_model_by_itself(pictures: PicturesPage) -> None:
    """YOLO's .pt has no config.json; dropped anywhere, it is for objects."""
    page = pictures.page
    page.evaluate(DROP, [list(pickled("yolov8_pose")), "yolov8n-pose.pt", ""])
    expect(page.locator("#look-model-detect .model-name")).to_have_text("yolov8n-pose.pt")
    pictures.choose("detect")
    pictures.give(payload())
    found = pictures.found("detect")["objects"]
    assert found and all(len(one["points"]) == 5 and one["label"] in YOLO_LABELS for one in found)
    # Boxes with corners are drawn turned: they reach as far as their corners.
    corners = [[50, 20], [130, 60], [110, 100], [30, 60]]
    drawn = page.evaluate(
        """([object, width, height]) => {
          pyappPage.pictures.stage.showBoxes([object], "");
          const box = document.querySelector(".look-found");
          const [own, all] = [box, box.parentElement].map((one) => one.getBoundingClientRect());
          const scales = [width / all.width, height / all.height];
          const sides = [own.left - all.left, own.top - all.top, own.right - all.left, own.bottom - all.top];
          return sides.map((at, i) => at * scales[i % 2]);
        }""",
        [{"label": "ship", "score": 0.9, "box": [0, 0, 1, 1], "corners": corners}, WIDTH, HEIGHT],
    )
    assert drawn == pytest.approx([30, 20, 130, 100], abs=1)


def test_examples_and_the_camera(pictures: PicturesPage) -> None:
    page = pictures.page
    for index, name in enumerate(("table.svg", "street.svg")):
        page.locator("#look-examples button").nth(index).click()
        expect(pictures.name).to_have_text(name)
        assert page.evaluate("new Set(pyappPage.pictures.picture.pixels.data).size") > 100
    page.context.grant_permissions(["camera"])
    page.locator("#look-camera").click()
    page.wait_for_function("() => pyappPage.pictures.camera.video.videoWidth > 0")
    page.locator("#look-take").click()
    expect(pictures.name).to_have_text("photo 1.jpg")
    expect(page.locator("#look-camera-panel")).to_be_hidden()
    page.context.clear_permissions()
