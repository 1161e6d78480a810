"""Programs of modules, by torch.export's names: what a module computes with inputs of given shapes, as a graph.

    batch = pyapp.export.Dim("batch")
    program = pyapp.export.export(model.eval(), (pyapp.rand(2, 4),), dynamic_shapes={"x": {0: batch}})
    program.module()(pyapp.rand(7, 4))
    pyapp.export.save(program, "model.pt2")
    program = pyapp.export.load("model.pt2")  # runs no code of the file

The graph is that of pyapp.fx: functions, methods and layers as they are called, with tensors of the inputs as its
placeholders, and all other arguments, conditions and the mode of the module as they were. Sizes of the example hold for
all calls, unless `dynamic_shapes` says otherwise. The program runs once with the example, and where sizes may differ
once more beside it, with other ones: conditions and loops may be those of sizes, dtypes and settings that both agree
in, not of elements.
"""

from .dims import Dim, UserError, dims
from .files import load, save
from .program import (
    ExportedProgram,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
    export,
)

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
    "TensorArgument", "UserError", "dims", "export", "load", "save",
]  # fmt: skip
