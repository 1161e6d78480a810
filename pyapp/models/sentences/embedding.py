"""Sentence embeddings: an encoder and what a folder of sentence-transformers puts after it (Reimers and Gurevych 2019,
arXiv 1908.10084; https://sbert.net): pooling, linear layers, norms, normalising.

`modules.json` lists the parts, `1_Pooling/config.json` says how tokens become one vector,
`config_sentence_transformers.json` has the prompts, `sentence_bert_config.json` the largest number of tokens
(models/loading/sentence_folders.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, Parameter
from pyapp.nn.encoders.encoders import Encoder, last_token
from pyapp.nn.layers import activation as activations

# The modes of pooling, in the order in which their vectors are joined, by the field of 1_Pooling/config.json.
POOLING_FIELDS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
MODULES = "modules.json"  # the list of a folder's parts
PROMPT_LIMIT = 1 << 16  # characters
LARGEST = 1 << 20  # features of a vector


def pooling_modes(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The modes of a 1_Pooling/config.json, `pooling_mode` as a name or a list, or a field for each. ModelError for
    unknown ones.
    """
    named = config.get("pooling_mode")
    if named is not None:
        chosen = tuple(named) if isinstance(named, list) else (named,)
    else:
        chosen = tuple(mode for key, mode in POOLING_FIELDS.items() if config.get(key))
        more = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
        chosen += tuple(key for key in more if key not in POOLING_FIELDS)
    known = tuple(POOLING_FIELDS.values())
    unknown = [mode for mode in chosen if mode not in known]
    if unknown or not chosen:
        raise ModelError(
            f"the pooling {str(unknown[0])[:60]!r} is not known" if unknown else "no mode of pooling is chosen",
            where="1_Pooling/config.json", hint=f"Known: {', '.join(known)}",
        )  # fmt: skip
    return chosen


class Pooling(Module):
    """One vector for each text: (B, T, D) and the mask (B, T) → (B, D * modes)."""

    def __init__(self, modes: Sequence[str] = ("mean",), include_prompt: bool = True) -> None:
        super().__init__()
        self.modes, self.include_prompt = tuple(modes), include_prompt

    def forward(self, x: Tensor, mask: Tensor, total: Tensor | None = None) -> Tensor:
        """total (B,): what means divide by, if it is not the number of tokens."""
        weight = mask.to("float32").unsqueeze(-1)  # (B, T, 1)
        found = [_pooled(mode, x, weight, total) for mode in self.modes]  # (B, D) each
        return found[0] if len(found) == 1 else ops.cat(found, -1)

    def extra_repr(self) -> str:
        return ", ".join(self.modes)


def _pooled(mode: str, x: Tensor, weight: Tensor, total: Tensor | None) -> Tensor:
    """x (B, T, D), weight (B, T, 1), 1 for tokens that count → (B, D)."""
    if mode == "cls":
        first = weight.argmax(1)  # (B, 1): texts may be padded at their start
        return _rows(x, first)
    if mode == "lasttoken":
        return last_token(x, weight.squeeze(-1))
    if mode == "max":
        return ops.where(weight > 0, x, float("-inf")).amax(1)
    if mode == "weightedmean":
        weight = weight * ops.arange(1, x.shape[1] + 1, dtype="float32", device=x.device).reshape(1, -1, 1)
    count = ops.clamp(weight.sum(1) if total is None else total.unsqueeze(-1), 1e-9)  # (B, 1)
    y = (x * weight).sum(1)  # (B, D)
    return y / (count.sqrt() if mode == "mean_sqrt_len_tokens" else count)


def _rows(x: Tensor, places: Tensor) -> Tensor:
    """x (B, T, D), places (B, 1) → the chosen token of each text (B, D)."""
    index = places.to("int64").unsqueeze(-1).expand(x.shape[0], 1, x.shape[2])  # (B, 1, D)
    return ops.gather(x, 1, index).squeeze(1)


def activation_of(path: Any, where: str) -> Callable[[Tensor], Tensor]:
    """The activation that a path of torch's names ("torch.nn.modules.activation.Tanh"). ModelError for another one."""
    name = str(path).rpartition(".")[2]
    found = getattr(activations, name, None) if name in activations.__all__ else None
    if name == "Identity":
        return lambda x: x
    try:
        return found()  # type: ignore[misc]
    except TypeError:  # no class, or one that needs arguments
        raise ModelError(
            f"the activation {name!r:.60} is not known", where=where,
            hint="Known: those of torch.nn that take no arguments, such as Tanh, GELU and Identity",
        ) from None  # fmt: skip


def size_of(config: Mapping[str, Any], name: str, where: str) -> int:
    """A number of features. ModelError if it is none."""
    size = config.get(name)
    if type(size) is not int or not 1 <= size <= LARGEST:
        raise ModelError(f"{name} is {size!r:.40}, expected a number from 1 to {LARGEST:,}", where=where)
    return size


class Dense(Module):
    """A linear layer and an activation over vectors, with their input added if `use_residual` says so."""

    def __init__(self, config: Mapping[str, Any], where: str = "2_Dense/config.json") -> None:
        super().__init__()
        inputs, outputs = size_of(config, "in_features", where), size_of(config, "out_features", where)
        path = config.get("activation_function", "Tanh")
        self.activation_function = activation_of(path, where)
        self.is_linear = str(path).endswith("Identity")
        self.linear = Linear(inputs, outputs, bias=bool(config.get("bias", True)))
        self.adds = bool(config.get("use_residual", False))
        self.residual = Linear(inputs, outputs, bias=False) if self.adds and inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in_features) → (..., out_features)."""
        y = self.activation_function(self.linear(x))
        if not self.adds:
            return y
        return y + (x if self.residual is None else self.residual(x))


class Norm(Module):
    """A layer norm of vectors (Ba et al. 2016, arXiv 1607.06450)."""

    def __init__(self, config: Mapping[str, Any], where: str = "2_LayerNorm/config.json") -> None:
        super().__init__()
        self.norm = LayerNorm(size_of(config, "dimension", where))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.norm(x)


class Normalize(Module):
    """Vectors of length 1."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return normalized(x)


def normalized(x: Tensor) -> Tensor:
    """x (..., D) divided by its Euclidean length, as torch.nn.functional.normalize."""
    return x / ops.clamp(x.square().sum(-1, True).sqrt(), 1e-12)


class TokenPart(Module):
    """A part before the pooling that reads more than the vectors of the tokens."""

    def tokens(self, x: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """x (B, T, D), ids and mask (B, T) → (B, T, E), and what means divide by (B,), if that changes."""
        raise NotImplementedError


@dataclass(frozen=True)
class SentenceSettings:
    """Prompts by name, the one that is used without a choice, the largest number of tokens, the measure of similarity
    ("cosine", "dot", "euclidean", "manhattan", "maxsim", "meanmaxsim"), whether texts become small letters before they
    are split into tokens, and the activation of scores by its path in torch.
    """

    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    max_length: int | None = None
    similarity: str = "cosine"
    lower: bool = False
    activation: str | None = None

    @classmethod
    def from_files(cls, config: Mapping[str, Any], limits: Mapping[str, Any]) -> SentenceSettings:
        """From config_sentence_transformers.json and sentence_bert_config.json. ModelError for prompts that are no
        texts.
        """
        prompts = config.get("prompts") or {}
        if not isinstance(prompts, dict) or any(
            not isinstance(text, str) or len(text) > PROMPT_LIMIT for text in prompts.values()
        ):
            raise ModelError("prompts are not texts by name", where="config_sentence_transformers.json")
        default = config.get("default_prompt_name")
        if default is not None and (not isinstance(default, str) or default not in prompts):
            raise ModelError(
                f"default_prompt_name {default!r:.60} is none of the prompts", where="config_sentence_transformers.json"
            )
        length = limits.get("max_seq_length")
        similarity, activation = config.get("similarity_fn_name"), config.get("activation_fn")
        return cls(
            prompts, default, length if type(length) is int and length > 0 else None,
            similarity.lower() if isinstance(similarity, str) else "cosine", limits.get("do_lower_case") is True,
            activation if isinstance(activation, str) else None,
        )  # fmt: skip


class TextEmbedder(Module):
    """Base of an encoder and the parts after it."""

    def __init__(self, encoder: Encoder, settings: SentenceSettings) -> None:
        super().__init__()
        self.config = encoder.config
        self.encoder = encoder
        self.settings = settings

    @property
    def most(self) -> int:
        """The largest number of tokens of a text."""
        return min(self.encoder.most, self.settings.max_length or self.encoder.most)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.encoder.device


class SentenceEmbedder(TextEmbedder):
    """An encoder and the parts after it: texts become vectors."""

    def __init__(self, encoder: Encoder, parts: Sequence[Module], settings: SentenceSettings) -> None:
        super().__init__(encoder, settings)
        places = [place for place, part in enumerate(parts) if isinstance(part, Pooling)]
        split = places[0] if places else max((i + 1 for i, part in enumerate(parts) if isinstance(part, TokenPart)),
                                             default=0)  # fmt: skip
        self.before = ModuleList(parts[:split])
        self.pooling = parts[split] if places else Pooling((encoder.pooling,))
        self.parts = ModuleList(part for part in parts[split:] if not isinstance(part, Pooling))

    def forward(
        self, ids: Tensor, attention_mask: Tensor, type_ids: Tensor | None = None, prompt_tokens: int = 0
    ) -> Tensor:
        """ids (B, T) → vectors (B, D). The first `prompt_tokens` tokens are left out of the pooling if the model's
        configuration says so.
        """
        x = self.encoder(ids, attention_mask, type_ids)  # (B, T, D)
        return self.pooled(x, ids, attention_mask, prompt_tokens)

    def pooled(self, x: Tensor, ids: Tensor, attention_mask: Tensor, prompt_tokens: int = 0) -> Tensor:
        """x (B, T, D), what the encoder gives for ids (B, T) → vectors (B, D)."""
        total = None
        for part in self.before:
            if isinstance(part, TokenPart):
                x, changed = part.tokens(x, ids, attention_mask)
                total = total if changed is None else changed
            else:
                x = part(x)
        if prompt_tokens and not self.pooling.include_prompt:
            places = ops.arange(ids.shape[1], device=ids.device)
            attention_mask = attention_mask * (places >= prompt_tokens).to(attention_mask.dtype)
        y: Tensor = self.pooling(x, attention_mask, total)
        for part in self.parts:
            y = part(y)
        return y


# -- GGUF. llama.cpp's key is POOLING; it leaves normalising and prompts to its callers. Keys below MORE are pyapp's.

POOLING = "pooling_type"  # after the architecture's name
POOLING_TYPES = {1: "mean", 2: "cls", 3: "lasttoken"}
MORE = "sentence_transformers."
PROMPT = f"{MORE}prompts."
WITH_DENSE = ("gemma-embedding",)  # architectures whose files have linear layers after the pooling
DENSE = "dense_2", "dense_3"  # their names


def dense_tensors(architecture: str, parts: Sequence[Module]) -> dict[str, Tensor]:
    """The weights of linear layers after the pooling, by the names of the architectures' files that have some."""
    layers = [part for part in parts if isinstance(part, Dense)]
    names = DENSE if architecture in WITH_DENSE else ()
    plain = all(layer.linear.bias is None and not layer.adds and layer.is_linear for layer in layers)
    if len(layers) > len(names) or not plain:
        raise ModelError("GGUF has no form for the part Dense", where=MODULES, hint="Write a .safetensors file")
    return {f"{name}.weight": layer.linear.weight for name, layer in zip(names, layers, strict=False)}


def gguf_keys(architecture: str, parts: Sequence[Module], settings: SentenceSettings) -> dict[str, Any]:
    """The metadata of a GGUF file that say how tokens become one vector. ModelError for parts and modes of pooling that
    GGUF has no form for.
    """
    pooling = next((part for part in parts if isinstance(part, Pooling)), None) or Pooling()
    other = [type(part).__name__ for part in parts if not isinstance(part, Pooling | Normalize | Dense)]
    number = next((key for key, mode in POOLING_TYPES.items() if pooling.modes == (mode,)), None)
    if number is None or other:
        what = f"the pooling {', '.join(pooling.modes)!r}" if number is None else f"the part {other[0]}"
        raise ModelError(f"GGUF has no form for {what}", where=MODULES, hint="Write a .safetensors file")
    values: dict[str, Any] = {
        f"{architecture}.attention.causal": False, f"{architecture}.{POOLING}": number,
        f"{MORE}normalize": any(isinstance(part, Normalize) for part in parts),
        f"{MORE}similarity_fn_name": settings.similarity,
    }  # fmt: skip
    for name, weight in dense_tensors(architecture, parts).items():
        key = f"{architecture}.{name.removesuffix('.weight')}_feat"
        values |= {f"{key}_out": weight.shape[0], f"{key}_in": weight.shape[1]}
    if not pooling.include_prompt:
        values[f"{MORE}include_prompt"] = False
    if settings.max_length is not None:
        values[f"{MORE}max_seq_length"] = settings.max_length
    if settings.default_prompt is not None:
        values[f"{MORE}default_prompt_name"] = settings.default_prompt
    return values | {PROMPT + name: text for name, text in settings.prompts.items()}


def from_gguf_keys(
    values: Mapping[str, Any], usual: str = "mean", dense: Sequence[Tensor] = ()
) -> tuple[list[Module], SentenceSettings]:  # fmt: skip
    """The parts and settings of a GGUF file; `usual` is the pooling of one that says none, `dense` are the matrices of
    linear layers after the pooling. Vectors are normalised unless the file says no, as llama.cpp's tools do. ModelError
    for a kind of pooling that is not known.
    """
    kinds = {mode: number for number, mode in POOLING_TYPES.items()}
    number = values.get(f"{values['general.architecture']}.{POOLING}", kinds[usual])
    if type(number) is not int or number not in POOLING_TYPES:
        raise ModelError(
            f"pooling_type is {number!r:.40}", where=POOLING,
            hint=f"Known: {', '.join(f'{key} ({mode})' for key, mode in POOLING_TYPES.items())}",
        )  # fmt: skip
    parts: list[Module] = [Pooling((POOLING_TYPES[number],), values.get(f"{MORE}include_prompt") is not False)]
    for matrix in dense:
        sizes = {"in_features": matrix.shape[1], "out_features": matrix.shape[0], "bias": False}
        layer = Dense(sizes | {"activation_function": "Identity"})
        layer.linear.weight = Parameter(matrix, requires_grad=False)
        parts.append(layer)
    if values.get(f"{MORE}normalize") is not False:
        parts.append(Normalize())
    own = {key.removeprefix(MORE): value for key, value in values.items() if key.startswith(MORE)}
    prompts = {key.removeprefix(PROMPT): value for key, value in values.items() if key.startswith(PROMPT)}
    return parts, SentenceSettings.from_files(own | {"prompts": prompts}, own)
