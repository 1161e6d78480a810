"""Models of an encoder and a decoder that are other architectures, which config.json names, with a projection between
them if their widths differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.errors import ModelError
from pyapp.nn import Linear
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence

from .._index import MODEL_TYPES as MODULES
from .._index import TASKS as TASKS_OF
from .architectures import architecture, architecture_for
from .config import require

# Buffers of older files, and layers that nothing reads.
IGNORED = r"encoder\.pooler\..*|.*\.(attn|crossattention)\.(masked_)?bias|.*\.position_ids"


@dataclass(frozen=True)
class PartsConfig:
    """The configurations of both parts, and the whole object of config.json. `parts`: what each part must be for."""

    model_type: ClassVar[str]
    parts: ClassVar[Mapping[str, str]]

    encoder: Any
    decoder: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From the object of a config.json. ModelError for parts that are not known."""
        parts = {}
        for name, task in cls.parts.items():
            own = values.get(name)
            require(isinstance(own, dict), f"{name} is {own!r:.60}, expected the configuration of the {name}")
            kind = own.get("model_type")  # type: ignore[union-attr]
            module = architecture_for(kind, task)
            if module is None:
                known = sorted(name for name, found in MODULES.items() if task in TASKS_OF[found])
                raise ModelError(f"the {name} {kind!r:.50} is not known for {task}", hint=f"Known: {', '.join(known)}")
            parts[name] = module.Config.from_dict(own)
        return cls(parts["encoder"], parts["decoder"], dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": self.model_type, "encoder": self.encoder.to_dict(), "decoder": self.decoder.to_dict()}
        return {**self.values, **own}

    def part(self, name: str) -> Any:
        """The module of a part."""
        config = getattr(self, name)
        return architecture(config.to_dict()["model_type"]).TASKS[self.parts[name]](config)

    @property
    def vocab_size(self) -> int:
        """The tokens of the decoder."""
        found: int = self.decoder.vocab_size
        return found

    @property
    def pad_token_id(self) -> int | None:
        """The token of padding."""
        found = self.values.get("pad_token_id")
        return found if type(found) is int else getattr(self.decoder, "pad_token_id", None)


class TwoParts(SequenceToSequence):
    """Both parts, and a projection between them if their widths differ."""

    def __init__(self, config: PartsConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = config.part("encoder")
        self.encoder.pooler = None
        self.decoder = config.part("decoder")
        self.most = self.decoder.most
        widths = config.encoder.hidden_size, config.decoder.width
        self.enc_to_dec_proj: Linear | None = None
        if widths[0] != widths[1] and config.decoder.source_width is None:
            self.enc_to_dec_proj = Linear(*widths)

    @property
    def device(self) -> Device:
        found: Device = self.encoder.device
        return found

    def projected(self, x: Tensor) -> Tensor:
        """The encoder's hidden states (B, S, D) as the decoder reads them."""
        return x if self.enc_to_dec_proj is None else self.enc_to_dec_proj(x)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        found: Tensor = self.decoder(tokens, memory)
        return found
