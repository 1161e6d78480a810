"""Models that several processes compute together, here as threads: the same logits and tokens as one, from parts of the
files; what cannot be divided is named.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, optim
from pyapp.distributed.checkpoint.files import boxes
from pyapp.distributed.checkpoint.state_dict import get_state_dict
from pyapp.distributed.fsdp import full_state_dict, fully_shard, load_full_state_dict
from pyapp.distributed.leading import Leader, OutOfStep, follow
from pyapp.engine import capture, quant
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import ModelError, OptionError, ProcessError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.formats.source import FileSource
from pyapp.formats.tensor_slices import read_part
from pyapp.models.load import SEES, LoadedModel, build
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.models.whisper.files import build_whisper
from pyapp.nn.part import Part
from pyapp.nn.tensor_parallel import divide, parallelize
from pyapp.text.generation.generate import Session
from tests.distributed.thread_ranks import in_grid, in_ranks
from tests.models import test_picture_texts
from tests.models.decoder_configs import CONFIGS, SMALL
from tests.models.test_decoders import TEXT, make, numbers
from tests.models.whisper_model import DEEP
from tests.models.whisper_model import weights as whisper_weights
from tests.together import check_each

pytestmark = pytest.mark.native_only
REFUSED = {
    "olmo2": "q_norm, k_norm",
    "olmoe": "q_norm, k_norm",
    "flex_olmo": "q_norm, k_norm",
    "minimax_m2": "q_norm, k_norm",
    "olmo3": "q_norm, k_norm",
    "cohere-norms": "q_norm, k_norm",
    "stablelm-parallel": "q_layernorm, k_layernorm",
    "jetmoe": "bias",
    "olmo_hybrid": "q_norm, k_norm",
    "olmo_hybrid-bare": "q_norm, k_norm",
} | dict.fromkeys(
    [
        "mamba",
        "mamba-biases",
        "mamba-gelu",
        "falcon_mamba",
        "mamba2",
        "falcon_h1",
        "falcon_h1-norm",
        "zamba",
        "zamba2",
        "xlstm",
        "dory",
        "qwen3_5",
        "rwkv",
        "rwkv5",
        "rwkv6",
        "rwkv7",
        "bitnet",
        "based",
    ],
    "most of its parameters",
)
WIDE = SMALL | {
    "model_type": "llama", "vocab_size": 300, "hidden_size": 512, "intermediate_size": 768, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 128,
}  # fmt: skip


MIXTURE = WIDE | {
    "model_type": "mixtral", "hidden_size": 256, "num_local_experts": 3, "num_experts_per_tok": 2,
}  # fmt: skip


def written(model: Any, steps: int = 6) -> tuple[list[int], np.ndarray]:
    """Greedy tokens, by a Graph, and the logits of each step."""
    session = Session(model, capacity=len(TEXT) + steps)
    logits, tokens, every = session.feed(TEXT), [], []
    for _ in range(steps):
        every.append(numbers(logits))
        tokens.append(int(every[-1].argmax()))
        logits = session.step(tokens[-1])
    return tokens, np.stack([*every, numbers(logits)])


def one_and_parts(name: str, size: int, **changed: Any) -> Any:
    model = make(name, 1, **changed)
    model.requires_grad_(False)
    alone = written(model)
    with pyapp.no_grad():
        whole = numbers(model(pyapp.tensor([TEXT], dtype="int32")))

    def run(group: ProcessGroup) -> Any:
        own = make(name, 1, **changed)
        own.requires_grad_(False)
        parallelize(own, group)
        with pyapp.no_grad():
            logits = numbers(own(pyapp.tensor([TEXT], dtype="int32")))
        return written(own), logits, sum(p.numel() for p in own.parameters())

    for (tokens, steps), logits, _ in (found := in_ranks(size, run)):
        assert tokens == alone[0]
        close = 1e-5 * max(1.0, np.abs(whole).max())
        assert np.abs(steps - alone[1]).max() < close and np.abs(logits - whole).max() < close
    return [count / sum(p.numel() for p in model.parameters()) for *_, count in found]


def test_every_decoder_computes_as_one_process_or_says_why_not() -> None:
    def check(name: str) -> None:
        if name in REFUSED:
            with pytest.raises(ModelError, match=rf"ForCausalLM cannot be divided.*{REFUSED[name]}"):
                one_and_parts(name, 2)
        else:
            # The linear attention of Qwen3-Next, DeepSeek V4's compressed one, and the layer before ModernBERT's logits
            # are in every process.
            mostly = name.startswith(("qwen3_next", "qwen3_5", "modernbert", "deepseek_v4"))
            assert max(one_and_parts(name, 2)) < (0.75 if mostly else 0.7)

    check_each(check, [(name,) for name in CONFIGS])


def trained(model: Any) -> tuple[float, dict[str, Any]]:
    """The loss of a text's next tokens, and the gradients by their parameters' names."""
    ids = pyapp.tensor([TEXT, TEXT[::-1]])
    logits = model(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def check_gradients(name: str, size: int, **changed: Any) -> None:
    loss, gradients = trained(make(name, 1, **changed))

    def run(group: ProcessGroup) -> Any:
        own = parallelize(make(name, 1, **changed), group, training=True)
        return *trained(own), dict(own.named_parameters())

    for own_loss, own, parameters in in_ranks(size, run):
        assert abs(own_loss - loss) < 1e-5 * max(1.0, abs(loss)) and own.keys() == gradients.keys()
        for key, gradient in gradients.items():
            part = parameters[key].part
            wanted = numbers(gradient if part is None else part.of(gradient))
            largest = max(1e-3, float(np.abs(numbers(gradient)).max()))
            assert np.abs(numbers(own[key]) - wanted).max() < 1e-4 * largest, key


def test_gradients_of_every_decoder_are_those_of_one_process_or_it_says_why_not() -> None:
    def check(name: str) -> None:
        try:
            check_gradients(name, 2)
        except ModelError as error:
            if name not in REFUSED:
                assert "heads of keys" in str(error) or "experts" in str(error), name

    check_each(check, [(name,) for name in CONFIGS])


@pytest.mark.parametrize("name", ["llama-tied", "mixtral"])
def test_what_is_divided_by_tensors_is_sharded_too(name: str, tmp_path: Path) -> None:
    """Four ranks: two halves of a model, each of which two ranks shard, who have a part of the batch each. Their
    steps, norms, whole states and checkpoints are those of one process.
    """
    ids = pyapp.tensor([TEXT, TEXT[::-1]])

    def steps(model: Any, rows: slice) -> tuple[list[float], Any]:
        optimizer, told = optim.AdamW(model.parameters(), lr=0.01), []
        for _ in range(2):
            optimizer.zero_grad()
            logits = model(ids[rows, :-1])
            loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[rows, 1:].flatten())
            loss.backward()
            told += [loss.item(), nn.utils.clip_grad_norm_(model.parameters(), 0.5).item()]
            optimizer.step()
        return told, optimizer

    whole = make(name, 1)
    wanted = steps(whole, slice(2))[0]
    expected = {key: numbers(x) for key, x in whole.state_dict().items()}

    def divided(across: ProcessGroup, down: ProcessGroup) -> Any:
        own = parallelize(make(name, 1), across, training=True)
        for layer in own.model.layers:
            fully_shard(layer, process_group=down)
        return fully_shard(own, process_group=down)

    def run(down: ProcessGroup, across: ProcessGroup) -> Any:
        own = divided(across, down)
        told, optimizer = steps(own, slice(down.rank(), down.rank() + 1))
        sizes = sum(p.numel() for p in own.parameters())
        state = {key: numbers(x) for key, x in full_state_dict(own).items()}
        pieces = {key: [(box, numbers(piece)) for box, piece in boxes(key, x)]
                  for key, x in get_state_dict(own, optimizer)[0].items()}  # fmt: skip
        anew = divided(across, down)
        load_full_state_dict(anew, {key: pyapp.tensor(x) for key, x in expected.items()})
        again = steps(anew, slice(down.rank(), down.rank() + 1))[0]
        return told, sizes, state, pieces, again

    found = in_grid(2, 2, run)
    later = steps(whole, slice(2))[0]
    assert max(size for _, size, *_ in found) < 0.4 * sum(p.numel() for p in whole.parameters())
    for told, limit in ((0, wanted), (4, later)):
        losses = np.array([one[told] for one in found])
        assert np.abs(losses[:2] / 2 + losses[2:] / 2 - limit)[:, ::2].max() < 1e-4
        assert np.abs(losses - limit)[:, 1::2].max() < 1e-4 * max(limit)
    for key, x in expected.items():
        covered = np.zeros(x.shape, int)
        for _, _, state, pieces, _ in found:
            assert np.abs(state[key] - x).max() < 2e-4, key
            for box, piece in pieces[key]:
                place = tuple(slice(a, a + n) for a, n in zip(box.offsets, box.sizes, strict=True))
                assert np.abs(x[place] - piece).max() < 2e-4, key
                covered[place] += 1
        assert covered.min() >= 1, key


def test_uneven_heads_and_few_keys() -> None:
    """Three groups of heads for two processes; one head of keys for two, and two for four; an odd vocabulary."""
    shares = one_and_parts("llama", 2, num_attention_heads=6, num_key_value_heads=3, head_dim=8, vocab_size=101)
    assert 0.35 < min(shares) < max(shares) < 0.7
    one_and_parts("llama", 2, num_key_value_heads=1)
    one_and_parts("qwen2", 4, num_attention_heads=8, num_key_value_heads=2, hidden_size=64)
    one_and_parts("llama-tied", 3, num_attention_heads=3, num_key_value_heads=3, head_dim=8, vocab_size=77)


def test_models_that_see() -> None:
    """The language model is divided; every process has the whole tower."""

    def outputs(model: Any) -> np.ndarray:
        ids, pictures, mask = test_picture_texts.inputs(name, model)
        with pyapp.no_grad():
            return numbers(model(ids, mask, pictures) * mask.unsqueeze(-1))

    def run(group: ProcessGroup) -> np.ndarray:
        own = test_picture_texts.make(name).requires_grad_(False)
        return outputs(parallelize(own, group))

    for name in ("llava", "smolvlm", "qwen2_5_vl", "gemma3"):
        alone = outputs(test_picture_texts.make(name).requires_grad_(False))
        for found in in_ranks(2, run):
            assert np.abs(found - alone).max() < 5e-5, name


def test_files_of_models_that_see_are_refused_by_name(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"x": pyapp.ones(2)})
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        settings = test_picture_texts.CONFIGS["llava"]
        with pytest.raises(ModelError, match="llava sees pictures.*parallelize"):
            build(checkpoint, lambda _: None, Cancel(), settings, None, None, SEES, Ranks(0, 2))  # type: ignore[arg-type]


def test_a_group_of_one_is_one_process() -> None:
    assert one_and_parts("llama", 1) == [1.0]


class Ranks:
    """The numbers of a group, for what is only divided."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = (lambda: rank), (lambda: size)


def test_what_cannot_be_divided_is_named() -> None:
    for size, block, told in (
        (3, 1, "4 heads of queries and 2 of keys of LlamaForCausalLM, of 8 features in blocks of 1, cannot be divided"),
        (2, 32, "in blocks of 32"), (64, 1, "cannot be divided among 64 processes"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            divide(make("llama", 1), Ranks(0, size), lambda _: block)  # type: ignore[arg-type, return-value]  # noqa: B023
    with pytest.raises(ModelError, match=r"FalconForCausalLM cannot.* 4 processes.* more than its heads of keys"):
        divide(make("falcon-new", 1), Ranks(0, 4), lambda _: 1)  # type: ignore[arg-type]
    with pytest.raises(ProcessError, match="no group of processes.*init_process_group"):
        parallelize(make("llama", 1))
    with pytest.raises(OptionError, match="group: is 2, expected a group of processes"):
        parallelize(make("llama", 1), 2)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="without gradients"):
        in_ranks(2, lambda group: parallelize(make("llama", 1), group)(pyapp.tensor([TEXT])))


# -- from files


class Counted(FileSource):
    """A file that counts the bytes that are read, and maps nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, mapping=False)
        self.bytes_read = 0

    def read_into(self, offset: int, view: memoryview) -> None:
        self.bytes_read += len(view)
        super().read_into(offset, view)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model as float16 safetensors, and as GGUF in blocks of 32 and of 256."""
    folder = tmp_path_factory.mktemp("models")
    module = __import__("pyapp.models.llama", fromlist=["llama"])
    model = module.LlamaForCausalLM(module.Config.from_dict(WIDE))
    pyapp.manual_seed(4)
    state = {name: pyapp.randn(*p.shape) * p.shape[-1] ** -0.5 for name, p in model.named_parameters()}
    found = {"safetensors": folder / "model.safetensors"}
    write_safetensors(found["safetensors"], {name: value.half() for name, value in state.items()})
    (folder / "config.json").write_text(json.dumps(WIDE))
    for kind in ("q8_0", "Q4_K_M"):
        found[kind] = folder / f"{kind}.gguf"
        quantize_file(found["safetensors"], found[kind], kind, view=gguf_view(found["safetensors"]))
    return found


def reading(path: Path, settings: Any, dtype: str | None) -> tuple[Any, int, Callable[[ProcessGroup], Any]]:
    """The whole model of a file, the bytes of its tensors, and what a rank does: it loads its part of the model, and
    returns it, the bytes that it has read, and what it writes.
    """

    def load(source: Any, group: ProcessGroup | None = None) -> Any:
        with open_checkpoint(source) as checkpoint:
            return build(checkpoint, lambda event: None, Cancel(), settings, dtype, group=group)

    def run(group: ProcessGroup) -> Any:
        source = Counted(path)
        model = load(source, group)
        return model, source.bytes_read, written(model)

    return load(path), sum(info.nbytes for info in open_checkpoint(path).tensors.values()), run


@pytest.mark.parametrize(
    "kind, dtype", [("safetensors", None), ("safetensors", "q8_0"), ("q8_0", None), ("Q4_K_M", None)]
)
def test_each_process_reads_its_parts(files: dict[str, Path], kind: str, dtype: str | None) -> None:
    path = files[kind]
    settings = WIDE if kind == "safetensors" else None

    whole, stored, run = reading(path, settings, dtype)

    results = in_ranks(2, run)
    names = dict(whole.named_parameters())
    for rank, (model, read, _) in enumerate(results):
        assert 0.4 * stored < read < 0.65 * stored, (rank, read, stored)  # three blocks of 256 are one and two
        for name, parameter in model.named_parameters():
            part = model.divided.get(name)
            expected = names[name] if part is None else part.of(names[name].detach()) if part.dim == 0 else None
            if expected is None:  # columns, at the borders of blocks
                dense = quant.dequantize(names[name].detach())
                expected = part.of(dense)
            assert parameter.shape == expected.shape, name
            a, b = (numbers(quant.dequantize(x.detach())) for x in (parameter, expected))
            np.testing.assert_array_equal(a, b, err_msg=name)
            assert parameter.dtype is names[name].dtype, name
    tokens, logits = written(whole)
    for _, _, (own, steps) in results:
        assert own == tokens
        # Activations become int8 for weights in blocks: a difference in the last bit can change one of them.
        assert np.abs(steps - logits).max() < (1e-5 if kind == "safetensors" and dtype is None else 0.1)
    assert sum(p.nbytes for p in results[0][0].parameters()) < 0.53 * sum(p.nbytes for p in whole.parameters())


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A mixture of experts: each matrix by itself, as published; in stacks; and as GGUF, in blocks of 32 and of 256."""
    folder = tmp_path_factory.mktemp("mixtures")
    module = __import__("pyapp.models.mixtral", fromlist=["mixtral"])
    model = module.MixtralForCausalLM(module.Config.from_dict(MIXTURE))
    pyapp.manual_seed(6)
    state = {name: (pyapp.randn(*p.shape) * p.shape[-1] ** -0.5).half() for name, p in model.named_parameters()}
    found = {"stacks": folder / "stacks" / "model.safetensors", "apart": folder / "apart" / "model.safetensors"}
    apart: dict[str, pyapp.Tensor] = {}
    for name, value in state.items():
        before, experts, stack = name.partition(".mlp.experts.")
        for i in range(value.shape[0] if experts else 0):
            names = ("w1", "w3") if stack == "gate_up_proj" else ("w2",)
            for part, matrix in zip(names, value[i].chunk(len(names)), strict=True):
                apart[f"{before}.block_sparse_moe.experts.{i}.{part}.weight"] = matrix.contiguous()
        if not experts:
            apart[name.replace(".mlp.gate.", ".block_sparse_moe.gate.")] = value
    for path, tensors in ((found["stacks"], state), (found["apart"], apart)):
        path.parent.mkdir()
        write_safetensors(path, tensors)
        (path.parent / "config.json").write_text(json.dumps(MIXTURE))
    for kind in ("q8_0", "Q4_K_M"):
        found[kind] = folder / f"{kind}.gguf"
        quantize_file(found["apart"], found[kind], kind, view=gguf_view(found["apart"]))
    return found


@pytest.mark.parametrize(
    "kind, dtype", [("apart", None), ("apart", "q8_0"), ("stacks", None), ("q8_0", None), ("Q4_K_M", None)]
)
def test_each_process_reads_its_part_of_every_expert(mixtures: dict[str, Path], kind: str, dtype: str | None) -> None:
    path = mixtures[kind]
    settings = MIXTURE if path.suffix == ".safetensors" else None

    whole, stored, run = reading(path, settings, dtype)
    tokens, logits = written(whole)
    experts = whole.model.layers[0].mlp.experts

    widths = []
    for model, read, (own, steps) in in_ranks(2, run):
        assert 0.3 * stored < read < 0.7 * stored, (read, stored)  # three blocks of 256 are one and two
        part = model.model.layers[0].mlp.experts
        widths.append(part.intermediate_size)
        for name in part.STACKS:
            share = model.divided[f"model.layers.0.mlp.experts.{name}"]
            expected = quant.dequantize(getattr(experts, name).detach())
            expected = share.of(expected.reshape(share.shape)).reshape(-1)
            ours = getattr(part, name).detach()
            assert ours.dtype is getattr(experts, name).dtype
            np.testing.assert_array_equal(numbers(quant.dequantize(ours).reshape(-1)), numbers(expected))
        assert own == tokens
        assert np.abs(steps - logits).max() < (1e-4 if path.suffix == ".safetensors" and dtype is None else 0.15)
    assert sum(widths) == 768 and widths[0] == (256 if kind == "Q4_K_M" else 384)


@pytest.mark.parametrize("kind", ["safetensors", "q8_0", "mxfp4"])
def test_experts_with_biases_and_scores_of_no_token(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpt-oss: each process has the biases and the sinks of its part; the first adds the biases of the outputs."""
    monkeypatch.setattr("pyapp.models.load.EXACT_TEXT_BYTES", 0)  # small models stay in their blocks, too
    settings = CONFIGS["gpt_oss"] | {
        "hidden_size": 64,
        "intermediate_size": 128,
        "head_dim": 32,
        "num_hidden_layers": 2,
    }
    settings |= {"layer_types": ["sliding_attention", "full_attention"]}
    module = __import__("pyapp.models.gpt_oss", fromlist=["gpt_oss"])
    model = module.GptOssForCausalLM(module.Config.from_dict(settings))
    pyapp.manual_seed(3)
    state = model.exported({name: pyapp.randn(*p.shape) * p.shape[-1] ** -0.5 for name, p in model.named_parameters()})
    if kind == "mxfp4":  # as it is published
        for name in [name for name in state if name.endswith(("gate_up_proj", "down_proj"))]:
            experts, columns, rows = state.pop(name).shape
            state[f"{name}_blocks"] = pyapp.randint(0, 256, (experts, rows, columns // 32, 16)).to("uint8")
            state[f"{name}_scales"] = pyapp.randint(121, 124, (experts, rows, columns // 32)).to("uint8")
    path = tmp_path / "model.safetensors"
    write_safetensors(path, state)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    if kind == "q8_0":
        quantize_file(path, path := tmp_path / "model.gguf", kind, view=gguf_view(tmp_path / "model.safetensors"))

    def load(group: ProcessGroup | None = None) -> Any:
        with open_checkpoint(path) as checkpoint:
            given = None if kind == "q8_0" else settings
            return build(checkpoint, lambda event: None, Cancel(), given, None, group=group)

    def run(group: ProcessGroup) -> Any:
        model = load(group)
        return model, written(model)

    tokens, logits = written(whole := load())
    for own, (again, steps) in in_ranks(2, run):
        assert again == tokens and np.abs(steps - logits).max() < (1e-5 if kind == "safetensors" else 0.1)
        assert own.model.layers[0].self_attn.sinks.shape == (2,)
        experts = own.model.layers[1].mlp.experts
        assert experts.gate_up_proj_bias.shape == (4, 128)
        kinds = {getattr(experts, name).dtype.name for name in experts.STACKS}
        assert kinds == {"float32" if kind == "safetensors" else kind}
        assert sum(p.numel() for p in own.parameters()) < 0.6 * sum(p.numel() for p in whole.parameters())


def test_stacks_in_blocks_that_are_in_memory() -> None:
    """`parallelize` divides them as well, by rows and by columns, in their blocks."""

    def quantised() -> Any:
        model = make("mixtral", 1, intermediate_size=64).requires_grad_(False)
        for module in model.modules():
            if isinstance(module, nn.Experts):
                for name in module.STACKS:
                    stack = getattr(module, name).detach()
                    packed = quant.quantize(stack.reshape(-1, stack.shape[-1]), "q8_0")
                    setattr(module, name, nn.Parameter(packed, requires_grad=False))
        return model

    alone = written(quantised())
    for model, (tokens, logits) in in_ranks(
        2, lambda group: (lambda own: (own, written(own)))(parallelize(quantised(), group))
    ):
        experts = model.model.layers[0].mlp.experts
        assert {getattr(experts, name).dtype.name for name in experts.STACKS} == {"q8_0"}
        assert experts.gate_up_proj.shape == (4 * 64, 32) and experts.down_proj.shape == (4 * 32, 32)
        assert tokens == alone[0] and np.abs(logits - alone[1]).max() < 0.1


@pytest.mark.parametrize("kind", ["q8_0", "q4_K", "mxfp4"])
def test_columns_of_blocks(kind: str) -> None:
    """Whole blocks are cut out as they are, bands as well; of others come floats."""
    whole = quant.quantize(pyapp.randn(12, 768), kind)
    dense = quant.dequantize(whole).numpy()
    for ranges, kept in ((((256, 256),), kind), (((512, 256), (0, 256)), kind), (((16, 32), (8, 8)), "float32")):
        part = Part((12, 768), 1, ranges).of(whole)
        assert part.dtype.name == kept
        expected = np.concatenate([dense[:, first : first + count] for first, count in ranges], 1)
        np.testing.assert_array_equal(quant.dequantize(part).numpy(), expected)


def test_parts_of_tensors(files: dict[str, Path]) -> None:
    with open_checkpoint(files["safetensors"]) as checkpoint:
        name = "model.layers.0.mlp.down_proj.weight"
        whole = checkpoint.read(name).numpy()
        part = read_part(checkpoint, name, [(500, 2), (3, 4)], (5, 7)).numpy()
        np.testing.assert_array_equal(part, np.concatenate([whole[500:502], whole[3:7]])[:, 5:12])
        norm = checkpoint.read("model.norm.weight").numpy()
        np.testing.assert_array_equal(read_part(checkpoint, "model.norm.weight", [(9, 3)]).numpy(), norm[9:12])
        for rows, columns in (([(511, 2)], None), ([(0, 1)], (760, 9)), ([], None), ([(0, 0)], None)):
            with pytest.raises(ValueError, match="has no rows"):
                read_part(checkpoint, name, rows, columns)
        with pytest.raises(KeyError):
            read_part(checkpoint, "nothing", [(0, 1)])
    with open_checkpoint(files["Q4_K_M"]) as checkpoint:  # columns within a block: from the whole tensor, as float32
        name = "blk.0.ffn_down.weight"
        part = read_part(checkpoint, name, [(8, 2)], (100, 60))
        np.testing.assert_array_equal(part.numpy(), quant.dequantize(checkpoint.read(name)).numpy()[8:10, 100:160])
        assert read_part(checkpoint, name, [(8, 2)], (256, 512)).dtype is checkpoint.read(name).dtype


# -- Whisper


@pytest.mark.parametrize("dtype, close", [(None, 1e-5), ("q8_0", 0.05)])
def test_whisper_in_two_processes(tmp_path: Path, dtype: str | None, close: float) -> None:
    """Three heads of audio and six of text; greedy steps of two rows by a Graph, and the scores of all heads."""
    config = dataclasses.replace(DEEP, n_audio_state=192, n_text_state=192)
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {name: pyapp.tensor(value) for name, value in whisper_weights(config).items()})
    mel = pyapp.from_numpy(np.random.default_rng(3).standard_normal((1, config.n_mels, 60), "f4"))

    def results(group: ProcessGroup | None = None) -> tuple[Any, list[np.ndarray]]:
        source = Counted(path)
        with open_checkpoint(source) as checkpoint, pyapp.no_grad():
            checkpoint.config = config.to_dict() | {"model_type": "whisper"}
            model = build_whisper(checkpoint, dtype=dtype, group=group)
            audio = model.encode(mel)
            found = [numbers(audio), numbers(model.decode(pyapp.tensor([[1, 7, 9]]), audio))]
            with model.new_session(audio, rows=2) as session:
                found.append(session.feed([1, 7, 9]))
                for tokens in ([4, 9], [11, 3], [60, 2]):
                    found.append(np.array(session.step(tokens)))
                    session.reorder([1, 0])
            found += model.cross_attention([1, 7, 9, 20], audio)
        return model, found

    whole, alone = results()
    for model, found in in_ranks(2, results):
        for a, b in zip(found, alone, strict=True):
            assert a.shape == b.shape and np.abs(a - b).max() < close * max(1.0, np.abs(b).max())
        own, every = (sum(p.nbytes for p in m.parameters()) for m in (model, whole))
        assert own < 0.66 * every  # three heads are one and two


# -- one process leads


def loader(name: str, log: list[Any] | None = None) -> Any:
    def load(salt: int, *, tensor_parallel: ProcessGroup, report: Any = None, cancel: Any = None) -> LoadedModel:
        if salt < 0:
            raise ModelError(f"rank {tensor_parallel.rank()} has no such file")
        model = parallelize(make(name, salt), tensor_parallel)
        if log is not None:
            log.append(weakref.ref(model))
        return LoadedModel(name, model, None, {})  # type: ignore[arg-type]

    return load


def led(name: str, work: Callable[[Leader], Any], size: int = 2, log: list[Any] | None = None) -> Any:
    """The result of `work(leader)`, which the other ranks follow."""
    load = loader(name, log)

    def run(group: ProcessGroup) -> Any:
        if group.rank():
            return follow(group, load)
        leader = Leader(group, load)
        try:
            return work(leader)
        finally:
            leader.end()

    return in_ranks(size, run)[0]


def test_the_others_follow_sessions_and_caches_of_several_texts() -> None:
    alone = make("llama", 1)

    def work(leader: Leader) -> None:
        model = leader.load(1).model
        assert model.config is not None and model.device.type == "cpu"
        tokens, logits = written(model)
        expected, close = written(alone)
        assert tokens == expected and np.abs(logits - close).max() < 1e-5
        session = Session(model, 40, eager=True)
        session.feed(TEXT)
        session.rewind(4)
        assert np.abs(numbers(session.feed(TEXT[4:])) - close[0]).max() < 1e-5
        with pytest.raises(ModelError, match="outside the model's vocabulary"):
            session.feed([96])
        several(model, alone)

    led("llama", work)


def several(*models: Any) -> None:
    """Texts in one cache that is copied and put in another order, and in one in blocks: the same for each model."""

    def results_of(model: Any) -> np.ndarray:
        with pyapp.no_grad():
            cache = model.new_cache(16, texts=4)
            for i, text in enumerate(([7, 8, 40], [5, 9, 3])):
                model.forward_cached(
                    int32_tensor(text, model.device), int32_tensor([0], model.device), cache.text(i), True
                )
            cache.copy(0, 2, 3)
            cache.reorder([2, 0, 1, 3], 3)
            inputs = int32_tensor([11, 12, 13, 3, 3, 3], model.device)
            tokens, places = inputs.narrow(0, 0, 3).reshape(3, 1), inputs.narrow(0, 3, 3)
            first = cache.first(3)
            graph = capture(lambda: model.forward_cached(tokens, places, first, last_only=False))
            results = [numbers(graph.outputs)]
            inputs.assign([21, 22, 23, 4, 4, 2])
            results.append(numbers(graph.replay()))
            pages = cache.paged(3, 6, 2, 16)
            for text, blocks in enumerate(([3, 1], [2, 5], [4])):
                pages.place(text, 0, blocks)
            for place in range(2):
                words = int32_tensor([7, 8, 40], model.device).reshape(3, 1)
                position = int32_tensor([place] * 3, model.device)
                results.append(numbers(model.forward_cached(words, position, pages, last_only=False)))
        return np.stack(results)

    found = [results_of(model) for model in models]
    assert np.abs(found[0] - found[1]).max() < 1e-5


def test_models_that_are_not_used_any_more_are_free() -> None:
    log: list[Any] = []

    def work(leader: Leader) -> None:
        for salt in (1, 2):
            written(leader.load(salt).model)
        last = leader.load(3)  # the message has the keys of what is gone
        gc.collect()
        assert [model() is None for model in log] == [True] * 4 + [False] * 2 and last.model

    led("llama", work, log=log)


def test_errors_of_one_process() -> None:
    def missing(leader: Leader) -> None:
        with pytest.raises(ModelError, match="rank 0 has no such file"):
            leader.load(-1)
        assert written(leader.load(1).model)[0]  # they go on

    led("llama", missing)

    def out_of_step(leader: Leader) -> None:
        model = leader.load(1).model
        cache = model.new_cache(4)
        with pytest.raises(OutOfStep, match="a call failed in one process only"):
            model.forward_cached(int32_tensor([1], model.device), int32_tensor([4], model.device), cache)
        with pytest.raises(OutOfStep):
            model.new_cache(4)

    with pytest.raises(IndexError):
        led("llama", out_of_step)
