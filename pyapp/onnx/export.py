"""`export`: writes what a module computes of example inputs as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.export import ExportedProgram
from pyapp.formats.sink import AnySink

from .exporting.blocks import keep_blocks
from .exporting.calls import Call, named_parameters, written_graph
from .exporting.model_file import checked_opset, write_model
from .module import load
from .verifying import check_file, has_blocks, removed_if_wrong

# torch's other arguments: the values of them that say what is done here.
_OF_TORCH: dict[str, tuple[Any, ...]] = {
    "export_params": (True,), "keep_initializers_as_inputs": (None, False), "verbose": (None, False),
    "do_constant_folding": (True, False), "dynamo": (True, False), "optimize": (True, False), "training": (None,),
    "report": (False,), "profile": (False,), "fallback": (False,),
    "autograd_inlining": (True,),
}  # fmt: skip


_running: list[None] = []


def is_in_onnx_export() -> bool:
    """Whether `export` is calling a module, which may then avoid what has no form in ONNX."""
    return bool(_running)


@contextmanager
def _noted() -> Iterator[None]:
    _running.append(None)
    try:
        yield
    finally:
        _running.pop()


def export(
    module: Any = None, inputs: Any = None, file: AnySink | None = None, *, kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamic_axes: Mapping[str, Any] | None = None, dynamic_shapes: Any = None,
    external_data: bool | None = None, verify: bool = False, blocks: bool = False, **of_torch: Any,
) -> None:  # fmt: skip
    """Writes a module, a function of tensors or an ExportedProgram as an ONNX file, by torch.onnx.export's names: the
    first three arguments are `model`, `args` and `f`, too.

    inputs: an example: a tensor or a sequence of arguments, of which a dict at the end and `kwargs` are those by name.
    Sizes are those of the example, except those that `dynamic_axes` ({"input_0": {0: "batch"}}, by `input_names`) or
    `dynamic_shapes` (as in pyapp.export) name: then the module is called with four sets of sizes, and the file computes
    what all of them have in common.

    Parameters keep their names; block-quantised weights become float32. With `blocks`, those in q8_0 and q4_0 of linear
    layers and embeddings stay as they are, for onnxruntime's MatMulNBits and GatherBlockQuantized: a weight W has the
    tensors W_blocks and W_scales. What Python decides by the values of tensors is decided as for the example. What is
    written in place becomes a new tensor. `opset_version`: 17 to 23, 20 by default.
    `external_data`: the tensors are in a file of their own, FILE.data; by default those of a model above 2 GB.
    `verify`: the file at this path is run beside the module, with the example and with sizes of 1 and far above the
    example's; where it gives other numbers, it is removed.
    ModelError: an op has no form in ONNX, or the module computes something else for other sizes. Modules should be in
    evaluation mode: dropout would be a constant mask.
    """
    module, inputs, file = of_torch.pop("model", module), of_torch.pop("args", inputs), of_torch.pop("f", file)
    if module is None or file is None:
        raise TypeError("export: takes a module, an example of its inputs and a file")
    for name, value in of_torch.items():
        if name not in _OF_TORCH:
            raise TypeError(f"export: got an unexpected keyword argument {name!r}")
        if value not in _OF_TORCH[name]:
            raise NotImplementedError(f"export: {name}={value!r:.60} does nothing here: leave it out")
    opset = checked_opset(opset_version)
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs or ())
    if args and isinstance(args[-1], dict) and kwargs is None and not isinstance(module, ExportedProgram):
        args, kwargs = args[:-1], args[-1]
    call = Call(module, args, kwargs or {})
    call.name(input_names)
    call.inputs.vary(dynamic_shapes)
    call.vary(dynamic_axes or {}, output_names)
    if verify and not isinstance(file, (str, os.PathLike)):
        raise ValueError("export: verify=True needs the path of a file")
    with named_parameters(call.module, call.names) as parameters, no_grad(), _noted():
        written = written_graph(call, parameters, opset, output_names)
        in_blocks = has_blocks(written.graph.tensors.values())
        if blocks:
            keep_blocks([written.graph], written.graph.tensors)
        write_model(written, file, external_data)
        if verify and isinstance(file, (str, os.PathLike)):
            with removed_if_wrong(file):
                check_file(
                    load(file, device="cpu"), call, [name for name, _, _ in written.outputs], in_blocks=in_blocks
                )
