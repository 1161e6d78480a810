"""POST /models/NAME for pictures and sounds: the values of pyapp.tasks in the forms of Hugging Face's inference API."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import tasks
from pyapp.audio import read_wav, write_wav
from pyapp.audio.wav import as_pcm
from pyapp.events import Sound
from pyapp.formats.png import encode_png
from pyapp.formats.safetensors import write_safetensors
from pyapp.vision.reading import read_image
from tests.models.page_configs import write_page_folder
from tests.models.picture_configs import CONFIGS
from tests.models.picture_folders import write_picture_folder
from tests.models.sound_configs import recording
from tests.models.test_musics import make as make_music
from tests.models.test_musics import write as write_music
from tests.models.test_pages import golden as golden_pages
from tests.models.test_pictures import make as make_picture_model
from tests.models.test_sound_labels import make as make_listener
from tests.models.test_sound_labels import write as write_listener
from tests.models.test_sound_moments import write as write_moments
from tests.models.test_speakers import write as write_speaker
from tests.serve.in_process import serving
from tests.text.picture_chat_model import photo
from tests.together import collect, values_of
from tests.vision.processor_cases import pictures

pytestmark = pytest.mark.native_only
types = pytest.importorskip("huggingface_hub.inference._generated.types")
PICTURES = (
    "deit",
    "clip",
    "yolos",
    "segformer",
    "depth_anything",
    "blip",
    "owlv2",
    "clipseg",
    "sam",
    "vilt",
    "superpoint",
    "lightglue_whole",
)
PICTURE = encode_png(pictures()[0])
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("PIL")
    pytest.importorskip("tokenizers")
    top = tmp_path_factory.mktemp("looking")
    found = {name: write_picture_folder(top / name, name) for name in PICTURES}
    found |= {"voices": write_speaker(top / "voices", "wavlm"), "reader": "reader"}
    return found | {"sounds": write_listener(top / "sounds", "wav2vec2", dict(make_listener("wav2vec2").state_dict()))}


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Any]:
    """All models by the tasks that their folders say."""

    models = tuple(f"{name}={folder}" for name, folder in folders.items())
    models += (f"vectors=embed-image:{folders['clip']}",)
    with serving(*models) as found:
        yield found


def value_of(stream: Any) -> Any:
    [found] = values_of(stream)
    return found


def coded(data: bytes, **parameters: Any) -> dict[str, Any]:
    """As huggingface_hub sends a file beside parameters."""
    return {"inputs": base64.b64encode(data).decode(), "parameters": parameters}


def test_pictures(server: Any, folders: dict[str, Path]) -> None:
    def found(name: str, **parameters: Any) -> bytes:
        asked: Any = {"json": coded(PICTURE, **parameters)} if parameters else {"content": PICTURE}
        answer = server.post(f"/models/{name}", **asked)
        assert answer.status_code == 200, answer.text
        return bytes(answer.content)

    def wanted(stream: Any, name: str, *arguments: Any, **options: Any) -> Any:
        return value_of(stream([PICTURE], *arguments, model=str(folders[name]), **options))

    labels = wanted(tasks.classify_images, "deit", top=2)["labels"]
    shown = types.ImageClassificationOutputElement.parse_obj_as_list(found("deit", top_k=2))
    assert [{"label": one.label, "score": one.score} for one in shown] == labels
    assert server.post("/", content=PICTURE).json()[:2] == labels  # the first model
    names = ["cat", "dog"]
    labels = wanted(tasks.match_images, "clip", names, template="a {}")["labels"]
    more = {"candidate_labels": names, "hypothesis_template": "a {}"}
    matched = types.ZeroShotImageClassificationOutputElement.parse_obj_as_list(found("clip", **more))
    assert [{"label": one.label, "score": one.score} for one in matched] == labels
    objects = wanted(tasks.detect_objects, "yolos", threshold=0.3)["objects"]
    boxes = types.ObjectDetectionOutputElement.parse_obj_as_list(found("yolos", threshold=0.3))
    assert len(boxes) == len(objects) > 0
    for one, entry in zip(boxes, objects, strict=True):
        assert (one.label, one.score) == (entry["label"], entry["score"])
        box = [one.box.xmin, one.box.ymin, one.box.xmax, one.box.ymax]
        np.testing.assert_allclose(box, entry["box"], atol=0.5)
    areas = wanted(tasks.segment_images, "segformer")
    segments = types.ImageSegmentationOutputElement.parse_obj_as_list(found("segformer"))
    masks = [read_image(base64.b64decode(one.mask), "L").numpy()[:, :, 0] for one in segments]
    assert [one.label for one in segments] == [entry["label"] for entry in areas["segments"]]
    assert [mask.mean() / 255 for mask in masks] == pytest.approx([entry["share"] for entry in areas["segments"]])
    assert (sum(mask.astype(int) for mask in masks) == 255).all()
    names = {"candidate_labels": ["cat", "dog"], "threshold": 0.01}
    objects = wanted(tasks.detect_labels, "owlv2", ["cat", "dog"], threshold=0.01)["objects"]
    given = types.ZeroShotObjectDetectionOutputElement.parse_obj_as_list(found("owlv2", **names))
    assert [(one.label, one.score) for one in given] == [(one["label"], one["score"]) for one in objects] != []
    areas = wanted(tasks.segment_labels, "clipseg", ["cat", "dog"], threshold=0.01)
    segments = types.ImageSegmentationOutputElement.parse_obj_as_list(found("clipseg", **names))
    assert [one.label for one in segments] == [entry["label"] for entry in areas["segments"]] != []
    cut = wanted(tasks.cut_out_objects, "sam", points=[[3, 4]], box=[1, 1, 9, 8])["segments"][0]
    [mask] = types.ImageSegmentationOutputElement.parse_obj_as_list(found("sam", points=[[3, 4]], box=[1, 1, 9, 8]))
    pixels = read_image(base64.b64decode(mask.mask), "L").numpy()
    assert (mask.score, pixels.mean() / 255) == (cut["score"], pytest.approx(cut["share"]))
    depth = wanted(tasks.estimate_depth, "depth_anything")
    answer = server.post("/models/depth_anything", content=PICTURE, headers={"content-type": "image/png"}).json()
    assert answer == {"depth": depth["png"], **{name: depth[name] for name in ("least", "most", "metric")}}
    [text] = types.ImageToTextOutput.parse_obj_as_list(found("blip", max_new_tokens=3))
    assert text.generated_text == wanted(tasks.read_images, "blip", max_new_tokens=3)["text"]


def test_questions_and_points(server: Any, folders: dict[str, Path]) -> None:
    """Questions as huggingface_hub sends them; matches in the form of transformers' pipeline."""
    from huggingface_hub import InferenceClient

    labels = value_of(tasks.answer_images([PICTURE], "the dog ?", model=str(folders["vilt"]), top=2))["labels"]
    sent: list[Any] = []

    def post(asked: Any, **_: Any) -> bytes:
        sent.append(json.loads(asked.data))
        return b'[{"answer": "", "score": 0}]'

    hub = InferenceClient(token="none")
    setattr(hub, "_inner_post", post)  # noqa: B010 (mypy knows its overloads)
    hub.visual_question_answering(PICTURE, "the dog ?", model="http://server/models/vilt", top_k=2)
    picture = base64.b64encode(PICTURE).decode()
    inside = {"inputs": {"image": picture, "question": "the dog ?"}, "parameters": {"top_k": 2}}
    for body in (sent[0], inside):
        answer = server.post("/models/vilt", json=body)
        assert answer.status_code == 200, answer.text
        found = types.VisualQuestionAnsweringOutputElement.parse_obj_as_list(answer.content)
        assert [{"label": one.answer, "score": one.score} for one in found] == labels, answer.text
    known = value_of(tasks.detect_points([PICTURE], model=str(folders["superpoint"]), top=3, descriptors=True))
    points = server.post("/models/superpoint", json=coded(PICTURE, top_k=3, descriptors=True)).json()
    assert [[point["x"], point["y"], point["score"]] for point in points] == known["points"]
    assert [point["descriptor"] for point in points] == known["descriptors"]
    assert [point.keys() for point in server.post("/models/superpoint", content=PICTURE).json()][0] == {
        "x",
        "y",
        "score",
    }
    other = encode_png(pictures()[1])
    matched = value_of(tasks.match_points(PICTURE, [other], model=str(folders["lightglue_whole"])))["matches"]
    both = {"inputs": [picture, base64.b64encode(other).decode()]}
    pairs = server.post("/models/lightglue_whole", json=both).json()
    rows = [[*pair["keypoint_image_0"].values(), *pair["keypoint_image_1"].values(), pair["score"]] for pair in pairs]
    assert rows == matched != []
    for name, param, body in (
        ("vilt", "question", {"inputs": picture}),
        ("vilt", "inputs.question", {"inputs": {"image": picture}}),
        ("vilt", "inputs.image", {"inputs": {"question": "the dog ?"}}),
        ("vilt", "question", {"image": picture, "question": "the dog " * 9}),
        ("lightglue_whole", "inputs", {"inputs": [picture]}),
        ("lightglue_whole", "inputs", {"inputs": picture}),
        ("lightglue_whole", "inputs[1]", {"inputs": [picture, 3]}),
        ("lightglue_whole", "inputs[1]", {"inputs": [picture, ""]}),
    ):
        answer = server.post(f"/models/{name}", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
    answer = server.post("/models/vilt", content=PICTURE)
    assert answer.status_code == 400 and "must be JSON" in answer.json()["error"]["message"]


def test_poses_and_larger_pictures(tmp_path: Path) -> None:

    made: dict[str, tuple[str, str, dict[str, Any]]] = {
        "pose": ("vitpose", "pose-estimation", {"size": {"height": 24, "width": 16}}),
        "upscale": ("swin2sr_light", "image-to-image", {"do_pad": True, "pad_size": 8}),
    }
    processors = {"pose": "VitPoseImageProcessor", "upscale": "Swin2SRImageProcessor"}
    for task, (name, kind, processor) in made.items():
        (tmp_path / task).mkdir()
        (tmp_path / task / "config.json").write_text(json.dumps(CONFIGS[name]))
        (tmp_path / task / "preprocessor_config.json").write_text(
            json.dumps(processor | {"image_processor_type": processors[task]})
        )
        write_safetensors(tmp_path / task / "model.safetensors", make_picture_model(name, kind).state_dict())
    specs = tuple(f"{task}={task}:{tmp_path / task}" for task in made)
    boxes = [[3.0, 2.0, 30.0, 28.0], [0.0, 0.0, 20.0, 30.0]]
    pose = value_of(tasks.estimate_poses([PICTURE], model=str(tmp_path / "pose"), boxes=[boxes]))
    large = value_of(tasks.upscale_images([PICTURE], model=str(tmp_path / "upscale")))
    with serving(*specs) as client:
        persons = client.post("/models/pose", json=coded(PICTURE, boxes=boxes)).json()
        places = [[[point[key] for key in ("x", "y", "score")] for point in person["points"]] for person in persons]
        assert places == [entry["points"] for entry in pose["objects"]]
        assert [list(person["box"].values()) for person in persons] == boxes
        assert [point["label"] for point in persons[0]["points"]] == pose["points"]
        assert len(client.post("/models/pose", content=PICTURE).json()) == 1
        refused = client.post("/models/pose", json=coded(PICTURE, boxes=[[1, 2, 3]]))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "parameters.boxes")
        answer = client.post("/models/upscale", content=PICTURE)
        assert answer.headers["content-type"] == "image/png" and answer.content == base64.b64decode(large["png"])


def test_pages(tmp_path: Path) -> None:
    """/v1/rerank with documents that are pictures, in the form of Jina's multimodal reranker."""

    write_page_folder(tmp_path / "pages", "colpali", golden_pages("colpali")["shapes"])
    pages = [encode_png(photo(*size, 0)) for size in ((30, 40), (44, 28))]
    ask: Any = {"query": "a dog", "documents": [{"image": base64.b64encode(data).decode()} for data in pages]}
    stream = tasks.rank_pages(ask["query"], pages, model=str(tmp_path / "pages"))
    scores = [values["score"] for values in values_of(stream)]
    with serving(f"pages={tmp_path / 'pages'}") as client:
        for path in ("/v1/rerank", "/models/pages"):
            results = client.post(path, json=ask).json()["results"]
            assert {entry["index"]: entry["relevance_score"] for entry in results} == dict(enumerate(scores))
            assert results[0]["relevance_score"] == max(scores)
        for documents, param in (
            ([{"image": "no base64"}], "documents[0].image"),
            ([{"image": ""}], ""),
            ([{"image": ask["documents"][0]["image"]}, "text"], "documents[1].image"),
        ):
            answer = client.post("/v1/rerank", json=ask | {"documents": documents})
            assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(param), answer.text


def test_sounds(server: Any, folders: dict[str, Path], tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", recording(4000)[:, None], 16000)
    data = (tmp_path / "a.wav").read_bytes()
    labels = value_of(tasks.classify_sounds([data], model=str(folders["sounds"]), top=2))["labels"]
    answer = server.post("/models/sounds", json=coded(data, top_k=2))
    heard = types.AudioClassificationOutputElement.parse_obj_as_list(answer.content)
    assert [{"label": one.label, "score": one.score} for one in heard] == labels


def test_moments_of_sounds(tmp_path: Path) -> None:

    write_wav(tmp_path / "a.wav", recording(900)[:, None], 16000)
    data = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "who").mkdir()
    folder = write_moments(tmp_path / "who")
    labels = value_of(tasks.label_moments([data], model=str(folder), threshold=0.01))["labels"]
    with serving(f"who={folder}") as client:
        answer = client.post("/models/who", json=coded(data, threshold=0.01))
        assert answer.json() == labels and labels
        assert client.post("/models/who", json=coded(data, threshold=2)).status_code == 400


def test_vectors(server: Any, folders: dict[str, Path], tmp_path: Path) -> None:
    """Of pictures and recordings, at /models/NAME, and at /v1/embeddings in Jina's form."""
    write_wav(tmp_path / "a.wav", recording(4000)[:, None], 16000)
    sound = (tmp_path / "a.wav").read_bytes()
    seen = PICTURE, tasks.embed_images, "clip", "image"
    given = [("vectors", *seen), ("clip", *seen), ("voices", sound, tasks.embed_sounds, "voices", "audio")]
    for name, data, stream, folder, key in given:
        wanted = value_of(stream([data], model=str(folders[folder])))["embedding"]
        if name != "clip":  # there it labels
            answer = server.post(f"/models/{name}", content=data)
            assert answer.status_code == 200 and answer.json() == wanted, answer.text
        file = {key: base64.b64encode(data).decode()}
        answer = server.post("/v1/embeddings", json={"model": name, "input": [file], "dimensions": len(wanted) - 1})
        [entry] = answer.json()["data"]
        assert answer.json()["model"] == name and answer.json()["usage"]["total_tokens"] == 0
        cut = np.asarray(wanted[:-1])
        np.testing.assert_allclose(entry["embedding"], cut / np.linalg.norm(cut), rtol=1e-6)
    picture = {"image": "data:image/png;base64," + base64.b64encode(PICTURE).decode()}
    stream = tasks.embed_images([PICTURE], ["the cat", "a dog"], model=str(folders["clip"]))
    image, cat, dog = [values["embedding"] for values in values_of(stream)]
    body = {"model": "vectors", "input": ["the cat", picture, {"text": "a dog"}]}
    answer = server.post("/v1/embeddings", json=body).json()
    assert [entry["embedding"] for entry in answer["data"]] == [cat, image, dog] and answer["usage"][
        "prompt_tokens"
    ] > 2
    alone = server.post("/v1/embeddings", json={"model": "vectors", "input": "the cat"}).json()["data"][0]["embedding"]
    np.testing.assert_allclose(alone, cat, rtol=1e-5)
    for name, wrong, param in (
        ("vectors", [picture | {"text": "both"}], "input[0]"), ("vectors", [{"image": "no base64"}], "input[0].image"),
        ("vectors", ["cat", {"image": ""}], "input[1].image"), ("vectors", [], "input"), ("vectors", [""], "input[0]"),
        ("vectors", [{"image": file["audio"]}], "input[0].image"), ("voices", ["a voice"], "input"),
        ("vectors", {"audio": file["audio"]}, "input"), ("vectors", [7], "input[0]"), ("deit", "the cat", "model"),
        ("voices", [{"audio": picture["image"]}], "input[0].audio"),
    ):  # fmt: skip
        answer = server.post("/v1/embeddings", json={"model": name, "input": wrong})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


def test_pages_that_are_read(server: Any) -> None:
    page = read_image((ROOT / "web/models/reader/samples/bill.png").read_bytes(), "L").numpy()[:260]
    data = encode_png(page)
    wanted = value_of(tasks.read([data], model="reader", straighten=False))
    answer = server.post("/models/reader", json=coded(data, straighten=False))
    [found] = types.ImageToTextOutput.parse_obj_as_list(answer.content)
    assert found.generated_text == wanted["text"] and len(wanted["text"]) > 20
    [whole] = answer.json()
    assert json.loads(json.dumps(wanted["regions"])) == whole["regions"] and whole["width"] == page.shape[1]
    answer = server.post("/models/reader", json=coded(data, max_new_tokens=3))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "parameters.max_new_tokens"), answer.text


def test_music(tmp_path: Path) -> None:

    folder = write_music(tmp_path / "music", "musicgen", dict(make_music("musicgen").state_dict()))

    options = {"seconds": 0.1, "seed": 3, "guidance": 2.0}
    events = collect(tasks.compose("aa ab", options, model=str(folder)))
    [sound] = [event for event in events if isinstance(event, Sound)]
    given = {"inputs": "aa ab", "parameters": {"seconds": 0.1, "seed": 3, "guidance_scale": 2}}
    with serving(str(folder)) as client:
        _check_music(client, given, sound)


def _check_music(server: Any, given: Any, sound: Any) -> None:
    answer = server.post("/models/music", json=given)
    assert server.post("/", json=given).content == answer.content
    assert answer.status_code == 200 and answer.headers["content-type"] == "audio/wav", answer.text
    samples, rate = read_wav(answer.content)
    assert (as_pcm(samples[:, 0]), rate) == (sound.pcm, sound.rate)
    assert 'pyapp_composed_seconds_total{model="music"}' in server.get("/metrics").text
    for wrong, param in (
        ({"inputs": " "}, "inputs"), ({"parameters": {}}, "inputs"), ({"seconds": 31}, "parameters.seconds"),
        ({"melody": "no base64"}, "parameters.melody"), ({"melody": "aaaa"}, "parameters.melody"),
        ({"seconds": 20}, "parameters.seconds"), ({"tempo": 1}, "parameters.tempo"),
        ({"response_format": "aac"}, "parameters.response_format"),
    ):  # fmt: skip
        body = wrong if "inputs" in wrong or "parameters" in wrong else {"inputs": "aa", "parameters": wrong}
        answer = server.post("/models/music", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


def test_what_is_refused(server: Any) -> None:
    def refused(name: str, status: int, param: str, **asked: Any) -> None:
        answer = server.post(f"/models/{name}", **asked)
        assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text

    refused("deit", 400, "inputs", content=b"")
    refused("deit", 400, "inputs", content=PICTURE[:60])
    refused("deit", 400, "inputs", json={"inputs": "no base64"})
    refused("deit", 400, "inputs", json={"parameters": {}})
    refused("deit", 400, "parameters.top_k", json=coded(PICTURE, top_k=0))
    refused("deit", 400, "parameters.threshold", json=coded(PICTURE, threshold=0.5))
    refused("clip", 400, "parameters.candidate_labels", content=PICTURE)
    wrong = coded(PICTURE, candidate_labels=["cat"], hypothesis_template="no place")
    refused("clip", 400, "parameters.hypothesis_template", json=wrong)
    refused("yolos", 400, "parameters.threshold", json=coded(PICTURE, threshold=2))
    refused("owlv2", 400, "parameters.candidate_labels", content=PICTURE)
    refused("sam", 400, "parameters.points", content=PICTURE)
    refused("sam", 400, "parameters.labels", json=coded(PICTURE, points=[[1, 2]], labels=[2]))
    refused("sam", 400, "parameters.box", json=coded(PICTURE, box=[1, 2, "a", 4]))
    refused("sounds", 400, "inputs", content=PICTURE)
    refused("nobodys", 404, "model", content=PICTURE)
