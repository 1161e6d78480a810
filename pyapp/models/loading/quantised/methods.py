"""Which methods of quantising weights can be read, and the view of a checkpoint that reads them.

`quantization_config` of a config.json names the method; the tensors of the file say which matrices it applies to, so
that lists of modules that were left out (`modules_to_not_convert`, `ignore`) need no reading.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyapp.errors import ModelError
from pyapp.events import Notice

if TYPE_CHECKING:
    from pyapp.formats import Checkpoint

# The module that reads a method's tensors; "": the architecture that is published so (gpt-oss) reads its experts.
METHODS = {
    "fp8": "float8", "fbgemm_fp8": "float8", "awq": "awq", "gptq": "gptq", "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed_tensors", "modelopt": "modelopt", "hqq": "hqq", "bitnet": "ternary",
    "mxfp4": "",
}  # fmt: skip
GROWTH = 1.4  # times the file's size, of which users are told
PLACES = ("quantization_config", "compression_config")  # the second in files of 2024
PACKED_AS = {"auto_gptq": "gptq", "gptq": "gptq", "auto_awq": "awq", "awq": "awq"}  # packing_format of AutoRound


def quantization_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that says how a model's weights are quantised, with its `quant_method`; empty where they are not."""
    text = settings.get("text_config")
    for part in (settings, text if isinstance(text, Mapping) else {}):
        for place in PLACES:
            found = part.get(place)
            if isinstance(found, Mapping) and found:
                return {**found, "quant_method": _method(found)}
    return {}


def has_own_types(checkpoint: Checkpoint) -> bool:
    """Whether a GGUF file has tensors of types that are not ggml's."""
    return any(info.dtype.startswith("ggml_type_") for info in checkpoint.tensors.values())


def unquantised(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without what says how weights are quantised."""
    found = {key: value for key, value in settings.items() if key not in PLACES}
    text = found.get("text_config")
    return found | ({"text_config": unquantised(text)} if isinstance(text, Mapping) else {})


def _method(given: Mapping[str, Any]) -> str:
    """The name of the method, also where the file says it in another way."""
    method = given.get("quant_method")
    if method is None and (given.get("load_in_4bit") or given.get("load_in_8bit")):
        return "bitsandbytes"  # as transformers takes files without the name
    if method is None and "config_groups" in given:
        return "compressed-tensors"
    if method in ("auto-round", "intel/auto-round"):
        packing = str(given.get("packing_format", "")).removeprefix("auto_round:")
        return PACKED_AS.get(packing, f"auto-round, packed as {packing or 'unknown'}")
    return str(method)


def check_method(settings: Mapping[str, Any], where: str) -> None:
    """ModelError for weights that are quantised in a way that is not read."""
    given = quantization_of(settings)
    if not given:
        return
    method = given["quant_method"]
    if method not in METHODS:
        raise ModelError(
            f"its weights are quantised by {method!r:.50}, which pyapp does not read", where=where,
            hint=f"It reads GGUF files, and {', '.join(METHODS)}: take the model in one of these forms, or in floating "
            "point",
        )  # fmt: skip
    if METHODS[method]:
        problem = _module(method).problem(given)
        if problem is not None:
            raise ModelError(
                f"its weights are quantised by {method}, and {problem}", where=where,
                hint="Take the model in another form: GGUF, or floating point",
            )  # fmt: skip


def _module(method: str) -> Any:
    return importlib.import_module(f"{__package__}.{METHODS[method]}")


def as_floats(checkpoint: Checkpoint, settings: Mapping[str, Any]) -> Checkpoint:
    """A view of a checkpoint in which the matrices that a library quantised are tensors under their usual names; the
    checkpoint itself where none are. In GGUF files these are the matrices of bitnet.cpp's type. ModelError as
    check_method's, and for tensors that do not fit one another.
    """
    given = quantization_of(settings)
    if has_own_types(checkpoint):
        from .checkpoint import QuantisedCheckpoint
        from .i2_s import weights

        found = weights(checkpoint)
        return QuantisedCheckpoint(checkpoint, found) if found else checkpoint
    if not given or not METHODS.get(given["quant_method"]):
        return checkpoint
    check_method(settings, checkpoint.source.name)
    from .checkpoint import QuantisedCheckpoint

    text = settings.get("text_config")
    sources = (settings, text if isinstance(text, Mapping) else {})
    names = (part.get(field) for part in sources for field in ("dtype", "torch_dtype"))
    dtype = next((name for name in names if name in ("float16", "bfloat16")), "bfloat16")
    quantised, unread = _module(given["quant_method"]).weights(checkpoint, given, dtype)
    return QuantisedCheckpoint(checkpoint, quantised, unread) if quantised or unread else checkpoint


def growth(checkpoint: Checkpoint, nbytes: int) -> Iterator[Notice]:
    """What to tell about a model whose weights take `nbytes` in memory, if that is far more than in the file."""
    stored = sum(info.nbytes for info in checkpoint.tensors.values())
    if nbytes > GROWTH * stored:
        yield Notice(
            f"its weights take {nbytes / 1e6:,.0f} MB in memory, {stored / 1e6:,.0f} MB in the file, in the types that "
            "hold each of their numbers", where=checkpoint.source.name,
            hint="Another type makes them smaller: --type q8_0 or Q4_K_M, in Python dtype=",
        )  # fmt: skip


def described(settings: Mapping[str, Any]) -> str:
    """How a model's weights are quantised, in words such as "awq, 4 bits, groups of 128"; "" where they are not."""
    given = quantization_of(settings)
    if not given:
        return ""
    method = given["quant_method"]
    return ", ".join([method, *(_module(method).details(given) if METHODS.get(method) else ())])
