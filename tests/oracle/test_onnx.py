"""ONNX beside the packages onnx and onnxruntime: the cases of the suite that are too large for the golden file, and
exported modules. Run it with these installed: pytest tests/oracle/test_onnx.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import no_grad
from pyapp.onnx import load
from tests.models.decoder_configs import CONFIGS
from tests.onnx import suite
from tests.onnx.steps import small_model, step_difference
from tests.onnx.test_export import flat, modules, sized, sized_file, sized_inputs, written
from tests.together import check_each

pytest.importorskip("onnx")


def test_the_large_cases_of_the_suite() -> None:
    from tests.onnx.make_golden_suite import collected

    left_out = {name for _, name in suite.stored()[0]["left_out"]}
    chosen = [case for case in collected() if case["name"] in left_out]
    assert len(chosen) == len(left_out) > 20

    def check(name: str, case: dict[str, Any]) -> None:
        rtol, atol = case["rtol"], case["atol"]
        suite.run(suite.Case(case["kind"], name, case["model"], case["sets"], rtol, atol, lambda data: data))

    check_each(check, [(case["name"], case) for case in chosen])


def test_networks_with_weights_that_the_file_computes() -> None:
    """The nine "light" networks of the suite (AlexNet, DenseNet …), on the pictures of its runner."""
    from onnx import TensorProto, numpy_helper

    from tests.onnx.make_golden_suite import DATA

    def check(name: str, path: Any) -> None:
        wanted = TensorProto()
        wanted.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
        model = load(path)
        (info,) = model.inputs
        count = int(np.prod(info.type.shape))
        x = (np.arange(count) / count).astype(np.float32).reshape(info.type.shape)
        with no_grad():
            found = model(x)
        np.testing.assert_allclose(found.numpy(), numpy_helper.to_array(wanted), rtol=2e-3, atol=1e-6)

    files = sorted((DATA / "light").glob("*.onnx"))
    assert len(files) == 9
    check_each(check, [(path.stem, path) for path in files])


def test_onnxruntime_runs_what_is_exported() -> None:
    runtime = pytest.importorskip("onnxruntime")

    def check(name: str, module: Any, *inputs: Any) -> None:
        session = runtime.InferenceSession(written(module, inputs), providers=["CPUExecutionProvider"])
        names = [info.name for info in session.get_inputs()]
        found = session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})
        with no_grad():
            wanted = module(*inputs)
        wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
        for own, other in zip(found, wanted, strict=True):
            assert own.dtype.name == other.dtype.name
            np.testing.assert_allclose(own, other.numpy(), rtol=1e-4, atol=1e-5)

    check_each(check, modules())


def test_onnxruntime_runs_what_is_exported_with_other_sizes() -> None:
    runtime = pytest.importorskip("onnxruntime")

    def check(name: str, module: Any, shapes: Any, tries: Any) -> None:
        for opset in (17, 23):
            file = sized_file(module, shapes, opset_version=opset)
            session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
            for sizes in tries:
                inputs = sized_inputs(shapes, sizes)
                names = [info.name for info in session.get_inputs()]
                found = session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})
                with no_grad():
                    wanted = flat(module(*inputs))
                for own, other in zip(found, wanted, strict=True):
                    assert own.dtype.name == other.dtype.name
                    np.testing.assert_allclose(own, other.numpy(), rtol=1e-4, atol=1e-5)

    check_each(check, sized())


def test_onnxruntime_runs_exported_models() -> None:
    """Models of pyapp.models with random weights."""
    runtime = pytest.importorskip("onnxruntime")
    import pyapp
    from pyapp.models import bert, gpt2, llama

    pyapp.manual_seed(0)
    small = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    tokens = pyapp.tensor(np.random.RandomState(0).randint(0, 64, (2, 7)))
    made = {
        "bert": bert.TASKS["masked-lm"](
            bert.Config.from_dict({**small, "model_type": "bert", "max_position_embeddings": 32, "type_vocab_size": 2})
        ),
        "llama": llama.TASKS["causal-lm"](
            llama.Config.from_dict(
                {**small, "model_type": "llama", "num_key_value_heads": 2, "max_position_embeddings": 32}
            )
        ),
        "gpt2": gpt2.TASKS["causal-lm"](
            gpt2.Config.from_dict(
                {"model_type": "gpt2", "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
            )
        ),
    }

    def check(name: str, model: Any) -> None:
        model.eval()
        file = written(model, tokens, dynamic_axes={"input_0": {0: "batch", 1: "tokens"}})
        session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
        for batch, count in ((2, 7), (1, 12), (3, 1)):
            ids = pyapp.tensor(np.random.RandomState(1).randint(0, 64, (batch, count)))
            with no_grad():
                wanted = model(ids)
            np.testing.assert_allclose(session.run(None, {"input_0": ids.numpy()})[0], wanted.numpy(), atol=1e-4)

    check_each(check, made.items())


def test_onnxruntime_goes_on_with_texts(tmp_path: Path) -> None:
    """Every small decoder, a token at a time: its keys, values and states are inputs and outputs."""
    runtime = pytest.importorskip("onnxruntime")

    def opened(file: Path) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        names = [info.name for info in session.get_inputs()]
        return lambda given: list(session.run(None, {name: given[name] for name in names}))

    def check(name: str) -> None:
        found = step_difference(small_model(name), tmp_path, opened)
        assert found is None or found < 1e-3

    # Whether "phi3-long" takes its long factors depends on the text so far, which is shorter than the whole one.
    check_each(check, [(name,) for name in CONFIGS if name != "phi3-long"])
