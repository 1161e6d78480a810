"""Models of sound whose parts are other architectures: what reads texts, and the codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import TensorInfo

from .architectures import architecture, architecture_for
from .config import object_of, require
from .stored import Stored

TEXT, CODEC = "text_encoder", "audio_encoder"
MOST_CODEBOOKS, MOST_POSITIONS = 64, 1 << 20
PARTS = {TEXT: "features", CODEC: "audio-codec"}  # what each part must be for


@dataclass(frozen=True)
class CodesConfig:
    """The configurations of the parts of a model that writes codes, and `values`, the whole object of the
    config.json.
    """

    model_type: ClassVar[str]

    text_encoder: Any
    audio_encoder: Any
    decoder: Any
    values: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": self.model_type}


def codec_of(values: Mapping[str, Any]) -> Any:
    """The configuration of a codec from its object, by default Mimi's. ModelError for one that is not known."""
    kind = values.get("model_type", "mimi")
    module = architecture_for(kind, PARTS[CODEC])
    if module is None:
        raise ModelError(f"the codec {kind!r:.50} is not known")
    return module.Config.from_dict(values)


def check_code_decoder(config: Any) -> None:
    """ModelError for sizes of a decoder of codes that cannot be."""
    heads, width, positions = config.num_attention_heads, config.hidden_size, config.max_position_embeddings
    require(
        width % heads == 0 and width % 2 == 0 and width > 2,
        f"{heads} heads do not divide hidden_size {width}, or it is odd or 2",
    )
    require(config.num_codebooks <= MOST_CODEBOOKS, f"num_codebooks is {config.num_codebooks}")
    require(positions <= MOST_POSITIONS, f"max_position_embeddings is {positions}")


def part_config(values: Mapping[str, Any], name: str) -> Any:
    """The configuration of a part. ModelError for an architecture that is not known."""
    own, task = object_of(values, name), PARTS[name]
    kind = own.get("model_type")
    module = architecture_for(kind, task)
    if module is None:
        raise ModelError(f"the {name} {kind!r:.50} is not known for {task}")
    found = module.Config.from_dict(own)
    require(name != TEXT or hasattr(found, "d_model"), f"the {name} {kind!r:.50} is not a T5, which reads texts here")
    return found


def part_of(config: Any, name: str) -> Any:
    """The module of a part."""
    return module_of_part(config).TASKS[PARTS[name]](config)


def stored_codec(config: Any, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How a file stores the codec of a model."""
    before = f"{CODEC}."
    own = {name.removeprefix(before): info for name, info in tensors.items() if name.startswith(before)}
    found: Mapping[str, Stored] = module_of_part(config).stored(config, own)
    return {
        f"{before}{name}": replace(plan, names=tuple(f"{before}{part}" for part in plan.names))
        for name, plan in found.items()
    }


def module_of_part(config: Any) -> Any:
    """The module of the architecture that a configuration belongs to."""
    return architecture(config.to_dict()["model_type"])
