"""The blocks of code of the README and the guides run as they are printed; their commands have the options they use.

Pages whose results are compared elsewhere are not run again: training.md, lightning.md and keras.md
(data/test_guide.py), porting.md (test_porting_page.py). Those of cuda.md and webgpu.md need a card.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import pyapp
from pyapp.cli import cli
from pyapp.engine import quant
from tests.models import test_voices as voices
from tests.models.picture_folders import write_picture_folder
from tests.models.test_diffusion import write_model as write_painter
from tests.models.test_forecasters import write as write_forecaster
from tests.models.test_sentences import write_folder as write_sentences
from tests.serve.conftest import Process
from tests.text.chat_model import write_chat_model
from tests.text.embedder import write_classifier, write_embedder
from tests.text.picture_chat_model import write_picture_chat_model
from tests.together import check_each

pytestmark = pytest.mark.native_only
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELLS = ("", "sh", "bash", "console")


def blocks(page: Path, *languages: str) -> list[str]:
    """The blocks of code of a page in one of the languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


def run(page: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs a page's Python in order, as one program that may await, and returns its names."""
    for number, code in enumerate(blocks(ROOT / page, "python", "py")):
        compiled = compile(code, f"{page}, block {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waits = eval(compiled, names)
        if asyncio.iscoroutine(waits):
            asyncio.run(waits)
    return names


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where files are that the pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pyapp.manual_seed(0)
    return tmp_path


def write_voice(folder: Path) -> None:
    """A voice of seeded weights."""
    folder.mkdir(parents=True, exist_ok=True)
    voices.write(folder, "vits", dict(voices.make("vits").state_dict()))


def test_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    """A net is trained, quantised and written."""
    run("README.md", {})
    (loss,) = capsys.readouterr().out.splitlines()
    assert float(loss) < 1.0  # the target's variance is 8
    assert "q8_0" in {info.dtype for info in pyapp.formats.open_checkpoint("model.gguf").tensors.values()}


def test_speech(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be transcribed is told; a voice speaks."""
    write_voice(place / "facebook" / "mms-tts-eng")
    names = run("docs/speech.md", {"pyapp": pyapp})
    assert "talk.mp3" in capsys.readouterr().out
    assert names["rate"] == 16_000 and names["samples"].ndim == 1 and np.abs(names["samples"]).max() <= 1


def test_the_contracts_of_the_architecture() -> None:
    model = pyapp.models.load_model("stories").model
    blocks_of_zeros = quant.to_blocks(quant.quantize(pyapp.zeros(2, 32), "q8_0")).data
    names: dict[str, Any] = {"data": bytes(8), "shape": (2,), "dtype": "float32", "n": 2, "k": 32, "group": 32}
    names |= {"raw": blocks_of_zeros, "quants": bytes(64), "scales": bytes(8), "t": pyapp.zeros(2, 32), "model": model}
    names |= {"tokens": pyapp.tensor([[1]], dtype="int32"), "position": pyapp.tensor([0], dtype="int32")}
    first, second, third = blocks(ROOT / "docs/architecture.md", "python")
    exec(first, dict(names))
    exec(second, dict(names))
    whole, cached = third.splitlines()[0], third.splitlines()[1:]
    exec(whole, names)
    together = names["logits"][0].numpy()
    exec("\n".join(cached), names | {"tokens": names["tokens"][0]})
    assert together.shape == (1, model.config.vocab_size)


def test_ops_of_ones_own(place: Path) -> None:
    """The page's op has the values and gradients of its definition, by its kernel too."""
    for language, name in (("c", "rms_norm.c"), ("cuda", "rms_norm.cu")):
        (source,) = blocks(ROOT / "docs/custom_ops.md", language)
        (place / name).write_text(source)
    names: dict[str, Any] = {"__name__": "custom_ops"}
    made = blocks(ROOT / "docs/custom_ops.md", "python")
    exec(made[0] + made[1], names)
    op = names["add_rms_norm"]
    x, residual, weight = (pyapp.randn(*shape, dtype=pyapp.float64) for shape in ((2, 3, 5), (2, 3, 5), (5,)))
    assert pyapp.autograd.gradcheck(op, [t.requires_grad_() for t in (x, residual, weight)])
    exec("".join(made[2:]), names)
    given = [t.detach().to("float32") for t in (x, residual, weight)]
    np.testing.assert_allclose(op(*given).numpy(), op.definition(*given).numpy(), rtol=1e-5)
    assert names["fits"](*given)


def test_a_script_of_a_training_and_adapters(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("docs/finetuning.md", {})
    assert (place / "adapter" / "adapter_model.safetensors").is_file()


def test_events_of_generation(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL.Image").new("RGB", (40, 30), "red").save("street.jpg")
    write_chat_model(place / "model")
    write_picture_chat_model(place / "HuggingFaceTB" / "SmolVLM-256M-Instruct", "idefics3")
    run("docs/generation.md", {})
    told = capsys.readouterr().out
    assert told.count("Done(") == 3 and "Error(" not in told, told


def test_what_cells_of_the_lab_show(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyapp import keras, lab

    async def install(name: str) -> None:
        assert name.endswith(".whl")

    monkeypatch.setattr(lab, "install", install)  # outside the page it says to use pip
    (place / "my-stories").mkdir()
    (place / "my-stories" / "adapter_config.json").write_text("{}")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    write_voice(place)
    curve = list(range(8))
    names = {"pixels": pyapp.rand(4, 4), "step": 1, "then": print, "xs": curve, "y1": curve, "y2": curve}
    names["samples"] = pyapp.rand(160)
    run("docs/lab.md", names | {"model": model, "x": pyapp.randn(8, 3), "y": pyapp.randn(8, 1)})
    told = capsys.readouterr().out
    assert "dense" in told and "650" in told


def test_onnx(place: Path) -> None:
    class Masked(pyapp.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return x * mask

    x, mask = pyapp.randn(2, 3), pyapp.ones(2, 3)
    pyapp.onnx.export(Masked(), [x, mask], "model.onnx", input_names=["x", "mask"])
    names = run("docs/onnx.md", {"x": x, "mask": mask, "module": pyapp.nn.Linear(3, 2)})
    np.testing.assert_array_equal(names["y"].numpy(), x.numpy())
    assert pyapp.onnx.load("model.onnx")(x).shape == (2, 2)


def test_events_of_the_reader(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL.Image").new("L", (60, 40), "white").save("scan.png")
    run("docs/reader.md", {})
    assert "'type': 'done'" in capsys.readouterr().out


def test_vectors_forecasts_and_drawn_pictures(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers")
    write_embedder(place / "intfloat" / "e5-small-v2")
    write_sentences(place / "colbert-ir" / "colbertv2.0", "stanford")
    write_classifier(place / "FOLDER")
    config = place / "FOLDER" / "config.json"
    config.write_text(config.read_text().replace("ForSequenceClassification", "ForMultipleChoice"))
    names = run("docs/embeddings.md", {"texts": ["the cat", "a boat"], "batches": [(["the cat"], ["a boat"])]})
    assert len(names["scores"]) == len(names["tokens"]) == 2 and (place / "adapter").is_dir()
    (place / "amazon").mkdir()
    write_forecaster(place / "amazon" / "chronos-bolt-small", "chronos_bolt")
    run("docs/forecasting.md", {"prices": [3.0, 5, 4, 6, 5, 7]})
    pytest.importorskip("PIL.Image").new("RGB", (16, 16), "red").save("start.png")
    painter = write_painter(place / "painter", "one")
    (place / "style.safetensors").touch()
    names = run("docs/pictures.md", {"MODEL": painter})
    assert "style.safetensors" in capsys.readouterr().out  # that the empty file is no LoRA


def test_servers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks in order, with the clients that are installed."""
    for name in ("openai", "websockets"):
        pytest.importorskip(name)
    write_chat_model(place / "chat")
    write_voice(place / "voice")
    write_picture_folder(place / "objects", "yolos")
    write_picture_folder(place / "clip", "clip")
    write_painter(place / "painter", "one")
    pytest.importorskip("PIL.Image").new("RGB", (40, 30), "red").save("street.jpg")
    of_hub = {"facebook/mms-tts-eng": "voice", "stable-diffusion-v1-5/stable-diffusion-v1-5": "painter"}
    specs = [str(place / name) for name in ("voice", "objects", "clip", "painter")]
    with Process(f"small={place / 'chat'}", *specs, "--output-limit", "40", "--no-preload", ready=False) as server:
        names: dict[str, Any] = {}
        for number, code in enumerate(blocks(ROOT / "docs/serving.md", "python")):
            code = code.replace("localhost:8000", f"localhost:{server.port}").replace(
                'size="512x512"', 'size="16x16", extra_body={"steps": 1, "guidance": 1}'
            )
            for name, folder in of_hub.items():
                code = code.replace(f'"{name}"', f'"{folder}"')
            if "from anthropic" in code and importlib.util.find_spec("anthropic") is None:
                continue
            if "realtime" in code:  # tests/serve/test_clients.py talks so: a connection has no end of its own
                continue
            compiled = compile(code, f"serving.md, block {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waits = eval(compiled, names)
            if asyncio.iscoroutine(waits):
                asyncio.run(waits)
    assert (place / "hello.wav").is_file() and (place / "cat.png").is_file() and len(names["found"].data) == 1


def test_several_processes(place: Path) -> None:
    """One process by itself runs the first two programs of the page, four processes the others."""
    pytest.importorskip("mpi4py")
    write_chat_model(place / "path" / "to" / "model")
    first, second, trained, planned, shared, staged, saved = blocks(ROOT / "docs/distributed.md", "python")
    (place / "script.py").write_text(f"{first}\ndist.destroy_process_group()\n{second}")
    (place / "four.py").write_text(
        f"{first}\nfrom pyapp.models import load_model\nmodel = load_model('path/to/model').model\n"
        f"model.requires_grad_(True)\n{trained}\n"
        "model(pyapp.tensor([[1, 2, 3]])).sum().backward()\noptimizer.step()\n"
        f"{saved}\nassert state['step'] == 100\n"
        "model = nn.Module()\nblock = nn.Module()\nmodel.layers = nn.ModuleList([block])\n"
        f"block.w1, block.w2 = nn.Linear(4, 6), nn.Linear(6, 4)\n{planned}\nassert block.w1.weight.shape == (3, 4)\n"
        f"{shared}\nassert part.shape == (8, 3) and pyapp.allclose(whole.sum(), total.full_tensor(), atol=1e-3)\n"
        "class Layers(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(8)])\n"
        "    def forward(self, x):\n        for layer in self.layers:\n            x = layer(x)\n        return x\n"
        "model, x, target, losses = Layers(), pyapp.ones(16, 4), pyapp.zeros(16, dtype='int64'), []\n"
        f"{staged}\nassert len(losses) == 8 * (dist.get_rank() == 3)\n"
    )
    started = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in (["script.py"], ["-m", "pyapp", "run", "-n", "4", "four.py"]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=started, timeout=120)
        assert done.returncode == 0, done.stderr


# -- links

LINKED = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "third_party/README.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's titles, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        bare = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", bare.strip().lower()).replace(" ", "-")
        found.add(anchor if anchor not in found else f"{anchor}-1")
    return found


def check_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(place), f"{page.name} links to {target}: no title has this anchor"


def test_the_links_between_the_pages_have_targets() -> None:
    check_each(check_links, [(page,) for page in LINKED])


def test_the_names_of_pyapp_on_the_pages_are_there() -> None:
    """`pyapp.nn.Linear` and the like, outside of blocks of code; deploy/ has a file that looks like one."""

    def check_names(page: Path) -> None:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for name in sorted(set(re.findall(r"`(pyapp(?:\.\w+)+)(?:\(|`)", text))):
            if not (ROOT / "deploy" / name).exists():
                assert pkgutil.resolve_name(name) is not None, name

    check_each(check_names, [(page,) for page in PAGES])


# -- commands


def commands(page: Path) -> list[str]:
    """The calls of pyapp in a page's blocks for the shell."""
    lines = [line.split("   #")[0] for block in blocks(page, *SHELLS) for line in block.splitlines()]
    found = [re.search(r"(?:^|\| |&& )(pyapp .*)$", line.split(" # ")[0].rstrip()) for line in lines]
    return [match[1] for match in found if match]


def check_command(line: str) -> None:
    """Whether click takes the arguments; files need not be there."""
    words = [word for word in shlex.split(re.sub(r"[<>]\s*\S+|\|.*", "", line)) if word not in ("\\", "…")][1:]
    command: Any = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{line}: there is no command {name}"
        command = found
        context = click.Context(command, parent=context, info_name=name)
    if "--help" in words:
        return
    try:
        command.make_context(context.info_name, words, parent=context.parent)
    except click.BadParameter as error:
        assert re.search("does not exist|no device 'cuda'", error.message), f"{line}: {error.message}"


def test_the_commands_of_the_pages_have_their_options() -> None:
    lines = [line for page in [*PAGES, ROOT / "CONTRIBUTING.md"] for line in commands(page)]
    assert len(lines) > 40
    check_each(check_command, [(line,) for line in lines])


def test_the_page_of_commands_has_an_example_of_each() -> None:
    shown = {shlex.split(line)[1] for line in commands(ROOT / "docs/commands.md")}
    assert shown == set(cli.list_commands(click.Context(cli)))
