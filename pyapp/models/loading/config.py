"""Configurations of models: the fields of config.json as frozen dataclasses, checked before they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from math import inf, isfinite
from typing import Any, ClassVar, TypeVar

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError, shown
from pyapp.nn.heads import Heads

T = TypeVar("T")

# The largest plausible values of whole numbers; others are limited by LARGEST.
LARGEST = 1 << 31
FLOAT_LIMIT = 3.4028234663852886e38  # the largest float32
DEEPEST = 1 << 10  # layers of a model, or of a stage of one
LIMITS = {
    "vocab_size": 1 << 22, "hidden_size": 1 << 17, "intermediate_size": 1 << 20, "moe_intermediate_size": 1 << 20,
    "shared_expert_intermediate_size": 1 << 20, "num_hidden_layers": 1 << 10, "num_attention_heads": 1 << 12,
    "num_key_value_heads": 1 << 12, "num_kv_heads": 1 << 12, "head_dim": 1 << 12,
    "max_position_embeddings": 1 << 24, "num_local_experts": 1 << 12, "num_experts": 1 << 12,
    "num_experts_per_tok": 1 << 12, "num_shared_experts": 1 << 12, "moe_num_primary_experts": 1 << 12,
    "moe_ffn_hidden_size": 1 << 20, "moe_shared_expert_intermediate_size": 1 << 20,
    "n_embd": 1 << 17, "n_inner": 1 << 20, "n_layer": 1 << 10, "n_head": 1 << 12,
    "n_positions": 1 << 24, "type_vocab_size": 1 << 16, "ffn_hidden_size": 1 << 20, "ffn_dim": 1 << 20,
    "word_embed_proj_dim": 1 << 17, "d_model": 1 << 17, "n_heads": 1 << 12, "n_layers": 1 << 10, "max_seq_len": 1 << 24,
    "expansion_ratio": 1 << 8, "rotary_dim": 1 << 12,
    "kv_lora_rank": 1 << 12, "q_lora_rank": 1 << 16, "qk_nope_head_dim": 1 << 12, "qk_rope_head_dim": 1 << 12,
    "v_head_dim": 1 << 12, "n_routed_experts": 1 << 12, "n_shared_experts": 1 << 12,
    "state_size": 1 << 12, "conv_kernel": 1 << 8, "time_step_rank": 1 << 17, "num_heads": 1 << 12, "n_groups": 1 << 12,
}  # fmt: skip
# Those of names that many configurations have in forms of their own, by the end of the name.
ENDINGS = {
    re.compile(r"(^|_)(heads|head|nhead|groups)$"): 1 << 12,
    re.compile(r"(^|_)(d_kv|d_head|head_dim|dim_head)$"): 1 << 12,
    re.compile(r"(^|_)(d_?ff|ffn_dim|mlp_dim|intermediate_size|linear_units|feedforward_dim|inner_size|inner)$"): 1
    << 20,
    re.compile(r"(^|_)(dim|hidden_size|head_size|embedding_size|channels|width)$"): 1 << 20,
    re.compile(r"(^|_)(vocab_size|n_vocab|labels|codebook_size)$"): 1 << 22,
    re.compile(r"(^|_)(kernel_size|stride|kernel|patch_size)$"): 1 << 16,
}
_COUNTS_LAYERS = re.compile(r"(^|_)(layers|depth|blocks|layers_per_block)$")  # names of fields: DEEPEST is their limit
UNGROUPED = ("num_key_value_heads", "head_dim")  # fields that models with a key for each query do not read
INFINITY = {"__float__": "Infinity"}  # as transformers writes it
LENGTHENING = ("linear", "dynamic", "yarn")  # scalings of rotary positions whose `factor` makes the context longer
LOCAL_BASE = 10000.0  # of the rotary angles of layers with a window, beside those without
ROTARY_NUMBERS = 1 << 28  # of the cosines and sines of the positions that a model may have


def read_config(cls: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from the object of a config.json: the fields by their names; null stands for the default, unless the
    field may be None; other keys are ignored. ModelError for a missing field and for a value that is not of the field's
    type or implausible.
    """
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    given = {name: value for name, value in values.items() if name in known and value is not None}
    given |= dict.fromkeys(nulls(cls, values))
    try:
        return cls(**given)
    except TypeError as error:
        missing = [f.name for f in fields(cls) if f.name not in given and _is_required(f)]  # type: ignore[arg-type]
        what = f"the configuration does not say the model's {', '.join(missing)}" if missing else str(error)
        raise ModelError(what, hint="Give the config.json that belongs to the weights") from error


def nulls(cls: Any, values: Mapping[str, Any]) -> set[str]:
    """The fields that a config.json sets to null and that may be None: no soft cap, say, whatever the default is."""
    optional = {field.name for field in fields(cls) if "None" in str(field.type)}
    return {name for name in optional if name in values and values[name] is None}


def _is_required(field: Any) -> bool:
    return all(value.__class__.__name__ == "_MISSING_TYPE" for value in (field.default, field.default_factory))


def check_fields(config: Any) -> None:
    """ModelError for a field that is not of its annotated type, for whole numbers below 1 (0 of token ids and where the
    default is 0) or above their limit, and for lists and objects with numbers that no model computes with.
    """
    for field in fields(config):
        value, kinds = getattr(config, field.name), [kind.strip() for kind in str(field.type).split("|")]
        if value is None and "None" in kinds:
            continue
        wanted = next((told for kind in kinds if (told := _problem(field, kind, value)) is not None), None)
        if wanted is not None:
            raise ModelError(f"{field.name} is {shown(value, 60)}, expected {wanted}")
        if isinstance(value, list | tuple | dict) and (number := _unusable(value)) is not None:
            raise ModelError(f"{field.name} has {shown(number, 40)}, expected numbers that fit into float32")


def _unusable(value: Any) -> Any:
    """A number of a list or an object, or of those in it, that is NaN or beyond float32's; None if there is none."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, int | float):
            if found != found or FLOAT_LIMIT < abs(found) != inf:
                return found
        elif isinstance(found, list | tuple | dict):
            waiting += found.values() if isinstance(found, dict) else found
    return None


def _problem(field: Any, kind: str, value: Any) -> str | None:
    """What was expected, where `value` is not a plausible `kind`."""
    if kind == "int":
        lowest = 0 if field.default == 0 or field.name.endswith(("_token_id", "max_window_layers")) else 1
        most = LIMITS.get(field.name) or (DEEPEST if _COUNTS_LAYERS.search(field.name) else limit_of(field.name))
        plausible = type(value) is int and lowest <= value <= most
        return None if plausible else f"a whole number from {lowest} to {most:,}"
    if kind == "float":
        plausible = type(value) in (int, float) and abs(value) <= FLOAT_LIMIT  # whole numbers have no largest one
        return None if plausible else "a finite number"
    if kind == "bool":
        return None if type(value) is bool else "true or false"
    if kind == "str":
        return None if type(value) is str else "a text"
    if kind.startswith("dict"):
        return None if isinstance(value, dict) else "an object"
    if kind.startswith(("list", "tuple")):
        return None if isinstance(value, list | tuple) and len(value) <= LIMITS["num_hidden_layers"] else "a list"
    return None


def limit_of(name: str) -> int:
    """The largest plausible value of a whole number with such a name."""
    return next((most for ending, most in ENDINGS.items() if ending.search(name)), LARGEST)


def stated(name: str, usual: T) -> T:
    """A property of a configuration with `values`: the field `name` of config.json, or what is usual."""
    found: Any = property(lambda config: config.values.get(name, usual))
    return found


def require(condition: bool, what: str, hint: str | None = None) -> None:
    """ModelError unless the condition holds."""
    if not condition:
        raise ModelError(what, hint=hint)


def as_object(value: Any, name: str) -> dict[str, Any]:
    """The value of a field, which is an object. ModelError for anything else."""
    if not isinstance(value, dict):
        raise ModelError(f"{name} is {value!r:.60}, expected an object")
    return value


def object_of(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object `name` of a config.json. ModelError where there is none."""
    return as_object(values.get(name), name)


def optional_object(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object `name` of a config.json, empty where it is null or left out. ModelError for anything else."""
    found = values.get(name)
    return {} if found is None else as_object(found, name)


def check_divides(config: Any, part: str, whole: str) -> None:
    """ModelError unless the field `part` divides the field `whole`."""
    one, all_of_them = getattr(config, part), getattr(config, whole)
    require(all_of_them % one == 0, f"{part} {one} does not divide {whole} {all_of_them}")


def check_padding(padding: int | None, words: int) -> None:
    """ModelError for a padding token that the vocabulary does not have."""
    check_token("pad_token_id", padding, words)


def check_token(name: str, number: int | None, words: int) -> None:
    """ModelError for a token that the vocabulary does not have."""
    require(number is None or number < words, f"{name} is {number}, of {words:,} tokens")


def check_windows(windows: list[int], layers: int) -> None:
    """ModelError unless there is an even number of tokens above 0 for each layer."""
    require(
        len(windows) == layers and all(type(one) is int and 0 < one <= 1 << 20 and one % 2 == 0 for one in windows),
        f"attention_window is {windows!r:.60}, expected an even number above 0 for each layer",
    )


def check_kinds(name: str, kinds: Sequence[str], layers: int, *known: str) -> None:
    """ModelError unless a field has one of the known kinds for each layer."""
    fits = len(kinds) == layers and all(kind in known for kind in kinds)
    require(fits, f"{name} is {kinds!r:.60}, expected {' or '.join(known)} for each of {layers:,} layers")


def check_depth(layers: int) -> None:
    """ModelError for more layers than any model has."""
    require(layers <= DEEPEST, f"a model of {layers:,} layers, expected at most {DEEPEST:,}")


def layers_in(values: Mapping[str, Any]) -> int:
    """The number of layers that the object of a config.json says. ModelError for one that cannot be."""
    found, most = values.get("num_hidden_layers"), LIMITS["num_hidden_layers"]
    plausible = type(found) is int and 1 <= found <= most
    require(plausible, f"num_hidden_layers is {found!r:.40}, expected a whole number from 1 to {most:,}")
    assert type(found) is int
    return found


def check_positive(config: Any, *names: str) -> None:
    """ModelError for fields with numbers that are not above 0."""
    for name in names:
        value = getattr(config, name)
        require(value is None or value > 0, f"{name} is {value!r:.40}, expected a number > 0")


def check_choice(count: int, experts: int) -> None:
    """ModelError unless so many can be chosen of the experts."""
    require(count <= experts, f"num_experts_per_tok is {count}, of {experts} experts")


def check_groups(experts: int, groups: int, chosen: int) -> None:
    """ModelError unless groups of two experts or more, of which `chosen` are taken, divide the experts."""
    fits = experts % groups == 0 and chosen <= groups and (groups == 1 or experts >= 2 * groups)
    require(fits, f"n_group {groups} and topk_group {chosen} do not fit {experts} experts")


def check_form(values: Mapping[str, Any], known: Mapping[str, Any], where: str = "") -> None:
    """ModelError for fields that say another form of the model than the only known one; those left out say this one."""
    for name, expected in known.items():
        found = values.get(name, expected)
        require(found == expected, f"{where}{name} is {found!r:.40}, and only {expected!r} is known")


def size_of_head(hidden: int, heads: int) -> int:
    """The features of each head that share the hidden size. ModelError where it cannot be divided so."""
    what = f"num_attention_heads {heads} does not divide hidden_size {hidden}"
    require(hidden % heads == 0, what, "Give the config.json that belongs to the weights")
    return hidden // heads


def check_heads(hidden: int, heads: int, kv_heads: int, head_dim: int | None, positions: int) -> None:
    """ModelError unless the heads fit the hidden size and one another, and a rotary table for them can be made."""
    size = size_of_head(hidden, heads) if head_dim is None else head_dim
    require(heads % kv_heads == 0, f"num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}")
    require(size % 2 == 0, f"heads of {size} features cannot be rotated in pairs")
    require(positions * size <= ROTARY_NUMBERS, f"{positions:,} positions of heads of {size:,} features are too many")


def step_limits(values: Mapping[str, Any]) -> dict[str, Any]:
    """The shortest_step and longest_step (None: without a limit) of a config.json of Mamba 2, if its time_step_limit
    says them.
    """
    limits = values.get("time_step_limit")
    if limits is None:
        return {}
    pair = isinstance(limits, list | tuple) and len(limits) == 2
    limits = [inf if x == INFINITY else x for x in limits] if pair else limits
    require(pair and all(type(x) in (int, float) for x in limits), f"time_step_limit is {limits!r:.60}")
    return {"shortest_step": max(limits[0], 0.0), "longest_step": None if limits[1] == inf else limits[1]}


def rope_parameters(values: Mapping[str, Any], theta: float = 10000.0) -> dict[str, Any]:
    """The rotary settings of a config.json in transformers' present form, {"rope_type", "rope_theta", …}: from
    `rope_parameters`, or from the older `rope_theta`, `rope_scaling` and `partial_rotary_factor`.
    """
    found: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": values.get("rope_theta") or values.get("rotary_emb_base") or theta,
    }
    for name, older in (("partial_rotary_factor", "rotary_pct"), ("original_max_position_embeddings", "")):
        own = values.get(name, values.get(older))
        if own is not None:
            found[name] = own
    for name in ("rope_scaling", "rope_parameters"):
        given = values.get(name)
        if given is None:
            continue
        given = as_object(given, name)
        if given and all(isinstance(value, dict) for value in given.values()):  # by the type of a layer
            return {kind: rope_parameters({"rope_parameters": own}, theta) for kind, own in given.items()}
        found |= {"rope_type": given.get("type") or found["rope_type"]}
        found |= {key: value for key, value in given.items() if value is not None and key != "type"}
    if found["rope_type"] == "mrope":
        found["rope_type"] = "default"
    base = found["rope_theta"]
    require(
        type(base) in (int, float) and 0 < base <= FLOAT_LIMIT, f"rope_theta is {base!r:.60}, expected a number > 0"
    )
    return found


def query_growth(parameters: Mapping[str, Any], positions: int) -> tuple[float, int]:
    """How queries grow with their positions by rope_parameters (0: not), and the positions until they do."""
    growth = parameters.get("llama_4_scaling_beta", 0.0)
    original = parameters.get("original_max_position_embeddings", positions)
    plausible = type(growth) in (int, float) and isfinite(growth) and type(original) is int and original >= 1
    require(plausible, f"llama_4_scaling_beta is {growth!r:.40} and original_max_position_embeddings {original!r:.40}")
    return growth, original


def rotary_of_windows(values: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary settings of layers with and without a window, by the type of a layer, of a config.json (Gemma 3)."""
    rotary: dict[str, Any] = values["rope_parameters"]
    if "rope_type" not in rotary:
        return rotary
    # The older form: one for full attention, a base for the windows.
    full = rotary | {"rope_theta": values.get("rope_theta", 1000000.0)}
    local = {"rope_type": "default", "rope_theta": values.get("rope_local_base_freq", LOCAL_BASE)}
    return {"sliding_attention": local, "full_attention": full}


@dataclass(frozen=True)
class FileConfig:
    """The hyper-parameters of a model, by the names of config.json. A model adds its fields."""

    model_type: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for what no model has."""
        return read_config(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": self.model_type} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(FileConfig):
    """The fields of config.json that all decoder-only models have. A model adds its own, and its defaults where
    config.json leaves fields out.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    ignored: ClassVar[Sequence[str]] = ()  # what the architecture does not have, whatever a file says

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rope_parameters: dict[str, Any]
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(
            self.hidden_size, self.num_attention_heads, self.num_key_value_heads, self.head_dim,
            self.max_position_embeddings,
        )  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        if values.get("sliding_window") == 0:  # transformers writes 0 where no layer has a window
            values = {**values, "sliding_window": None}
        values = {name: value for name, value in values.items() if name not in cls.ignored}
        null = nulls(cls, values)
        derived = {"num_key_value_heads", "head_dim"} & {*values}  # null: they follow from other fields
        given = {name: value for name, value in cls.defaults.items() if name not in null | derived}
        given |= {name: value for name, value in values.items() if value is not None or name in null}
        heads, hidden = given.get("num_attention_heads"), given.get("hidden_size")
        if heads is not None and hidden is not None:
            for name, value in (("num_attention_heads", heads), ("hidden_size", hidden)):
                plausible = type(value) is int and 1 <= value <= LIMITS[name]
                require(plausible, f"{name} is {value!r:.60}, expected a whole number from 1 to {LIMITS[name]:,}")
            size = given["head_dim"] if "head_dim" in given else size_of_head(hidden, heads)
            given = {"num_key_value_heads": heads, "head_dim": size} | given
        return read_config(cls, cls.adjusted(given | {"rope_parameters": rope_parameters(given)}))

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields, with those that a model derives from others."""
        return values

    def saved(self) -> dict[str, Any]:
        """The object of a config.json that transformers reads too."""
        return self.to_dict()

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read: `max_position_embeddings`, or what the scaling of rotary positions makes
        of them. Configurations with "linear", "dynamic" or "yarn" may still say the length of the first training there.
        """
        parameters, known = self.rope_parameters, self.max_position_embeddings
        factor = parameters.get("factor")
        trained = parameters.get("original_max_position_embeddings") or known
        if parameters.get("rope_type") not in LENGTHENING:
            return known
        if not (isinstance(factor, int | float) and isinstance(trained, int | float)):
            return known
        longest = LIMITS["max_position_embeddings"]
        return max(known, int(min(trained * factor, longest, ROTARY_NUMBERS // self.head_dim)))

    @property
    def usual_seq_len(self) -> int:
        """The tokens of a text for which a cache has memory unless more are asked for. Rotary positions of the types
        "dynamic" and "longrope" have other frequencies for longer texts than those of the first training, from the
        first token on.
        """
        parameters = self.rope_parameters
        if parameters.get("short_factor") == parameters.get("long_factor"):
            return self.max_position_embeddings
        name = "original_max_position_embeddings"
        original = parameters.get(name) or getattr(self, name, None) or self.max_seq_len
        return max(1, min(int(original), self.max_seq_len))

    def heads(self, **settings: Any) -> Heads:
        """The heads of a layer."""
        return Heads(self.num_attention_heads, self.num_key_value_heads, self.head_dim, **settings)


SLIDING, FULL = "sliding_attention", "full_attention"  # of layer_types: with a window or without
DENSE, SPARSE = "dense", "sparse"  # of mlp_layer_types: one feed-forward part or experts


def layer_types(values: Mapping[str, Any], slides: Any) -> list[str]:
    """The `layer_types` of a configuration; where it has none, `slides(layer)` says which layers have a window."""
    layers: Any = values.get("num_hidden_layers")
    require(type(layers) is int and 1 <= layers <= LIMITS["num_hidden_layers"], f"num_hidden_layers is {layers!r:.40}")
    given = values.get("layer_types")
    if given is None:
        return [SLIDING if slides(layer) else FULL for layer in range(layers)]
    known = isinstance(given, list) and all(kind in (SLIDING, FULL) for kind in given)
    require(known and len(given) == layers, f"layer_types is {given!r:.60}, expected {layers} kinds of attention")
    return list(given)


def check_shared_keys(kinds: list[str], shared: int) -> None:
    """ModelError where one of the last `shared` layers has no layer of its kind before them to attend to its keys."""
    known = shared < len(kinds) and {*kinds[len(kinds) - shared :]} <= {*kinds[: len(kinds) - shared]}
    require(known, f"num_kv_shared_layers is {shared}: no layer of the same kind before them has keys and values")


def source_of_keys(kinds: list[str], shared: int, layer: int) -> int:
    """The layer that computes the keys and values to which a layer attends: of the last `shared` layers it is the last
    one of their kind before them.
    """
    first = len(kinds) - shared
    return layer if layer < first else max(other for other in range(first) if kinds[other] == kinds[layer])
