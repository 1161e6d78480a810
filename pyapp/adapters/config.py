"""The settings of LoRA adapters, by the names of peft's adapter_config.json."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from math import sqrt
from sys import float_info
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError, OptionError

ALL_LINEAR = "all-linear"
BIASES = ("none", "all", "lora_only")
SIZE_LIMIT = 1 << 16  # of a rank
PATTERN_LIMIT = 200  # characters of a pattern in a file

# Keys of adapter_config.json that do not change what a stored adapter computes.
_WITHOUT_EFFECT = {
    "auto_mapping", "corda_config", "ensure_weight_tying", "eva_config", "fan_in_fan_out", "inference_mode",
    "loftq_config", "lora_ga_config", "megatron_core", "peft_type", "peft_version", "qalora_group_size", "revision",
}  # fmt: skip
# Initial values that change the base model's weights, which the adapter's file then does not fit.
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
# Parts of regular expressions that can take exponential time: a repeated group, and counted repetitions; and, where
# there are many of them, parts that may be absent.
_COSTLY = re.compile(r"\)[*+?{]|\{")
_OPTIONAL = re.compile(r"(?<!\()\?")
OPTIONAL_LIMIT = 8


@dataclass
class LoraConfig:
    """How an adapter changes a model: each layer that it adapts computes W x + scaling B A x, where A (r, in) and B
    (out, r) are trained (Hu et al. 2021, arXiv 2106.09685).

    r: the rank. lora_alpha: scaling is lora_alpha / r, or with `use_rslora` lora_alpha / sqrt(r) (Kalajdzievski 2023,
    arXiv 2312.03732). lora_dropout: of the layers' inputs. use_dora: the rows of W + scaling B A get trained lengths
    (Liu et al. 2024, arXiv 2402.09353). lora_bias: B has a bias.

    target_modules: the adapted layers (Linear, Embedding): names that their paths end in, one regular expression of
    whole paths, or "all-linear", all Linear layers but the head. exclude_modules: names or one expression of layers
    that are left out. layers_to_transform: numbers of blocks, to which the names of target_modules are limited;
    layers_pattern: the name of the list of blocks. rank_pattern and alpha_pattern: other ranks and alphas by the end of
    paths (regular expressions).

    target_parameters: ends of the paths of stacks of experts ("mlp.experts.gate_up_proj"), each expert of which gets
    matrices of its own; without target_modules they alone are adapted. No dropout, bias and DoRA there, as in peft.

    bias: "none", "all" or "lora_only" (of the adapted layers) are trained too. modules_to_save: ends of the
    paths of modules that are trained and stored whole. init_lora_weights: True (A as in Linear, B zero), "gaussian" (A
    normal with the deviation 1 / r) or False (both random).

    OptionError for settings out of their range.
    """

    r: int = 8
    lora_alpha: float = 8
    lora_dropout: float = 0.0
    target_modules: str | Sequence[str] | None = None
    target_parameters: Sequence[str] | None = None
    exclude_modules: str | Sequence[str] | None = None
    bias: str = "none"
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False
    modules_to_save: Sequence[str] | None = None
    init_lora_weights: bool | str = True
    layers_to_transform: int | Sequence[int] | None = None
    layers_pattern: str | Sequence[str] | None = None
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    base_model_name_or_path: str | None = None
    task_type: str | None = "CAUSAL_LM"

    def __post_init__(self) -> None:
        for name in ("rank_pattern", "alpha_pattern"):
            if not isinstance(getattr(self, name), Mapping):
                raise OptionError(f"is numbers by patterns of names, not {getattr(self, name)!r:.50}", where=name)
        layers = self.layers_to_transform
        numbers = [layers] if isinstance(layers, int) or layers is None else layers
        if not isinstance(numbers, Sequence | range) or not all(n is None or type(n) is int for n in numbers):
            raise OptionError(
                f"is a layer's number, or a list of them, not {layers!r:.50}", where="layers_to_transform"
            )
        if self.target_modules is None:
            self.target_modules = [] if self.target_parameters else ALL_LINEAR
        for name, rank in (("r", self.r), *self.rank_pattern.items()):
            if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= SIZE_LIMIT:
                raise OptionError(f"a rank is a whole number from 1 to {SIZE_LIMIT}, not {rank!r:.50}", where=name)
        for name, alpha in (("lora_alpha", self.lora_alpha), *self.alpha_pattern.items()):
            if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not abs(alpha) <= float_info.max:
                raise OptionError(f"an alpha is a number, not {alpha!r:.50}", where=name)
        if not isinstance(self.lora_dropout, int | float) or not 0 <= self.lora_dropout < 1:
            raise OptionError(f"is a number from 0 to below 1, not {self.lora_dropout!r:.50}", where="lora_dropout")
        if self.bias not in BIASES:
            raise OptionError(f"is one of {', '.join(BIASES)}, not {self.bias!r:.50}", where="bias")
        if not isinstance(self.init_lora_weights, bool) and self.init_lora_weights != "gaussian":
            raise OptionError(
                f'is True, False or "gaussian", not {self.init_lora_weights!r:.50}', where="init_lora_weights"
            )
        if isinstance(self.target_parameters, str):
            self.target_parameters = [self.target_parameters]
        for name in ("target_modules", "target_parameters", "exclude_modules", "layers_pattern", "modules_to_save"):
            given = getattr(self, name)
            if given is None or isinstance(given, str):
                continue
            if not isinstance(given, Sequence | set) or not all(isinstance(part, str) and part for part in given):
                raise OptionError(f"is a text or a list of names, not {given!r:.80}", where=name)
            setattr(self, name, sorted(given) if isinstance(given, set) else list(given))
        if isinstance(self.modules_to_save, str):
            self.modules_to_save = [self.modules_to_save]
        for name in ("target_modules", "exclude_modules"):
            check_expression(name, getattr(self, name))
        for pattern in (*self.rank_pattern, *self.alpha_pattern):
            check_expression("rank_pattern and alpha_pattern", pattern)

    def rank(self, path: str) -> int:
        """The rank of the layer at a path."""
        return int(_by_pattern(self.rank_pattern, path, self.r))

    def scaling(self, path: str, rank: int | None = None) -> float:
        """The factor of B A of the layer at a path."""
        rank = self.rank(path) if rank is None else rank
        alpha = float(_by_pattern(self.alpha_pattern, path, self.lora_alpha))
        return alpha / (sqrt(rank) if self.use_rslora else rank)

    def targets(self, path: str) -> bool:
        """Whether the layer at a path is adapted, unless target_modules is "all-linear"."""
        if self.excludes(path):
            return False
        if isinstance(self.target_modules, str):
            return re.fullmatch(self.target_modules, path) is not None
        return ends_in(path, self.target_modules or ()) and self._is_in_a_chosen_block(path)

    def targets_parameter(self, path: str) -> bool:
        """Whether the stack of experts at a path is adapted."""
        return ends_in(path, self.target_parameters or ())

    def excludes(self, path: str) -> bool:
        """Whether the layer at a path must not be adapted."""
        whole = self.modules_to_save or ()
        if any(f".{name}." in f".{path}." for name in whole):
            return True
        if isinstance(self.exclude_modules, str):
            return re.fullmatch(self.exclude_modules, path) is not None
        return ends_in(path, self.exclude_modules or ())

    def _is_in_a_chosen_block(self, path: str) -> bool:
        if self.layers_to_transform is None or self.layers_to_transform == []:
            return True
        chosen = self.layers_to_transform
        chosen = [chosen] if isinstance(chosen, int) else chosen
        lists = [self.layers_pattern] if isinstance(self.layers_pattern, str) else self.layers_pattern
        parts = path.split(".")
        for before, part in zip(parts, parts[1:], strict=False):
            if part.isdigit() and (not lists or before in lists):
                return int(part) in chosen
        return False

    def to_dict(self) -> dict[str, Any]:
        """The object of an adapter_config.json."""
        return {"peft_type": "LORA", **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "adapter_config.json") -> LoraConfig:
        """From the object of an adapter_config.json. ModelError for methods and settings that pyapp does not know."""
        if values.get("peft_type") != "LORA":
            raise ModelError(
                f"the adapter is of the type {values.get('peft_type')!r:.50}", where=where,
                hint="pyapp reads adapters of the type LORA",
            )  # fmt: skip
        own = set(cls.__dataclass_fields__)
        other = [
            key
            for key, value in values.items()
            if key not in own and key not in _WITHOUT_EFFECT and value not in (None, False, {}, [], "")
        ]
        if other:
            raise ModelError(f"unknown settings: {', '.join(sorted(map(str, other)))[:200]}", where=where)
        start = values.get("init_lora_weights", True)
        if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
            raise ModelError(
                f"the adapter belongs to a base model whose weights {start!r:.30} changed", where=where,
                hint="Convert it to a plain LoRA adapter with peft (path_initial_model_for_weight_conversion)",
            )  # fmt: skip
        given = {key: value for key, value in values.items() if key in own and value is not None}
        given["init_lora_weights"] = start if isinstance(start, bool) else True
        _check_patterns(values, where)
        try:
            return cls(**given)
        except (AttributeError, OptionError, TypeError) as error:
            raise ModelError(f"a setting is not valid: {error}", where=where) from error


def _check_patterns(values: Mapping[str, Any], where: str) -> None:
    """ModelError for patterns of a file that could take very long to match."""
    for name in ("rank_pattern", "alpha_pattern"):
        given = values.get(name)
        for pattern in given if isinstance(given, Mapping) else ():
            repeated = str(pattern).count("*") + str(pattern).count("+")
            costly = (
                repeated > 2 or _COSTLY.search(str(pattern)) or len(_OPTIONAL.findall(str(pattern))) > OPTIONAL_LIMIT
            )
            if len(str(pattern)) > PATTERN_LIMIT or costly:
                raise ModelError(f"{name} has the pattern {pattern!r:.60}, which is too complex", where=where)


def ends_in(path: str, names: Sequence[str]) -> bool:
    """Whether a path is one of the names, or ends in one after a dot."""
    return any(path == name or path.endswith(f".{name}") for name in names)


def _by_pattern(patterns: Mapping[str, Any], path: str, default: Any) -> Any:
    """The value of the first pattern that the path, or its end after a dot, matches."""
    return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", path)), default)


def check_expression(name: str, given: Any) -> None:
    """OptionError unless a text is a regular expression."""
    if isinstance(given, str):
        try:
            re.compile(given)
        except re.error as error:
            raise OptionError(f"{given!r:.80} is not a regular expression: {error}", where=name) from None
