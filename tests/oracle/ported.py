"""Runs installed packages that were written for torch with pyapp in torch's place: their sources are read where they
are installed, and executed with another answer to `import torch`.

A few lines replace what a package needs beside its models (loading, generation, kernels of other packages).
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyapp
from pyapp import nn

PREFIX = "ported_"


class _Anything(types.ModuleType):
    """A module of torch that is imported but not used: its names are empty classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


UNUSED = ("torch._dynamo", "torch.distributed", "torch.fx", "torch.export", "torch.nn.attention.flex_attention")


def _torch(name: str) -> Any:
    """What a torch module's name leads to."""
    if name.startswith(UNUSED):
        return _Anything(name)
    return importlib.import_module("pyapp" + name[len("torch") :])


class Porter:
    """`load("transformers.activations")` gives the module, with pyapp in torch's place. `stand_ins`: modules by name
    that are given as they are; `modules`: those that are ported, where one imports another, too.
    """

    def __init__(self, modules: list[str], stand_ins: dict[str, Any] | None = None) -> None:
        self.modules, self.stand_ins = set(modules), stand_ins or {}
        self.loaded: dict[str, types.ModuleType] = {}

    def load(self, name: str) -> types.ModuleType:
        if name in self.loaded:
            return self.loaded[name]
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None, name
        module = types.ModuleType(PREFIX + name)
        module.__package__ = name if spec.submodule_search_locations else name.rpartition(".")[0]
        module.__file__ = spec.origin
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        self.loaded[name] = sys.modules[module.__name__] = module
        exec(compile(Path(spec.origin).read_text(encoding="utf-8"), spec.origin, "exec"), module.__dict__)
        return module

    def find(self, name: str) -> Any:
        if name == "torch" or name.startswith("torch."):
            return _torch(name)
        if name in self.stand_ins:
            return self.stand_ins[name]
        return self.load(name) if name in self.modules else importlib.import_module(name)

    def _import(self, name: str, scope: Any = None, _: Any = None, names: Any = (), level: int = 0) -> Any:
        if level:
            package = scope["__package__"].split(".")
            base = ".".join(package[: len(package) - level + 1])
            name = f"{base}.{name}" if name else base
        if not names:
            self.find(name)
            return self.find(name.partition(".")[0]) if name.startswith("torch") else importlib.import_module(
                name.partition(".")[0]
            )  # fmt: skip
        found = types.ModuleType(name)
        for wanted in names:
            try:
                whole = f"{name}.{wanted}"
                found.__dict__[wanted] = (
                    self.find(whole) if self._is_module(whole) else getattr(self.find(name), wanted)
                )
            except AttributeError as error:
                raise ImportError(f"{name} has no {wanted} ({error})") from error
        return found

    def _is_module(self, name: str) -> bool:
        return name in self.stand_ins or name in self.modules


# -- transformers


class PreTrainedModel(nn.Module):
    """The part that models need to run: a configuration, without loading."""

    config_class: Any = None
    base_model_prefix = ""
    all_tied_weights_keys: dict[str, str] = {}

    def __init__(self, config: Any, *_: Any, **__: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def _from_config(cls, config: Any) -> PreTrainedModel:
        return cls(config)

    def post_init(self) -> None:
        """Ties what the class says is one: {target: source}."""
        if getattr(self.config, "tie_word_embeddings", True):
            for target, source in (getattr(self, "_tied_weights_keys", None) or {}).items():
                path, _, name = target.rpartition(".")
                owner, found = self.get_submodule(path), dict(self.named_parameters(remove_duplicate=False))
                setattr(owner, name, found[source])

    def get_input_embeddings(self) -> Any:
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        return next(self.parameters()).dtype

    @property
    def device(self) -> Any:
        return next(self.parameters()).device

    def get_extended_attention_mask(self, mask: Any, *_: Any, **__: Any) -> Any:
        wide = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
        return (1.0 - wide.to(self.dtype)) * pyapp.finfo(self.dtype).min

    def get_head_mask(self, *_: Any, **__: Any) -> Any:
        return None

    def warn_if_padding_and_no_attention_mask(self, *_: Any) -> None:
        pass


class _Attentions(dict):  # type: ignore[type-arg]
    """Eager attention, which every model has."""

    def get_interface(self, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        return default


def _as_it_is(*args: Any, **__: Any) -> Any:
    """A decorator, with settings or without."""
    if len(args) == 1 and (isinstance(args[0], type) or callable(args[0])):
        return args[0]
    return _as_it_is


class _Utils:
    """transformers.utils, without what writes documentation from sources."""

    auto_docstring = staticmethod(_as_it_is)

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("transformers.utils"), name)


class _StandIn(types.SimpleNamespace):
    """A stand-in: what it was not given is an empty class or a decorator that changes nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else _as_it_is


def transformers_porter() -> Porter:
    """For transformers.models.*.modeling_* and what they use."""
    stand_in = _StandIn
    models = "bert clip distilbert falcon gpt2 llama resnet t5 trocr vit whisper".split()
    modules = [f"transformers.models.{name}.modeling_{name}" for name in models]
    modules += [f"transformers.{name}" for name in """
        activations cache_utils initialization masking_utils modeling_attn_mask_utils modeling_outputs
        modeling_rope_utils pytorch_utils utils.output_capturing
    """.split()]  # fmt: skip
    utils = _Utils()
    stand_ins = {
        "transformers.utils": utils,
        "transformers.modeling_utils": stand_in(
            PreTrainedAudioTokenizerBase=PreTrainedModel, get_torch_context_manager_or_global_device=nullcontext,
            PreTrainedModel=PreTrainedModel, ALL_ATTENTION_FUNCTIONS=_Attentions(), slice_logits_to_keep=_last_ones
        ),
        "transformers.modeling_layers": stand_in(
            GradientCheckpointingLayer=nn.Module,
            **{f"GenericFor{task}": type(f"GenericFor{task}", (), {})
               for task in ("QuestionAnswering", "SequenceClassification", "TokenClassification")},
        ),
        "transformers.generation": stand_in(GenerationMixin=type("GenerationMixin", (), {})),
        "transformers.models.whisper.generation_whisper": stand_in(
            WhisperGenerationMixin=type("WhisperGenerationMixin", (), {})
        ),
        "transformers.backbone_utils": stand_in(
            BackboneMixin=type("BackboneMixin", (), {}), filter_output_hidden_states=_as_it_is
        ),
        "transformers.integrations": stand_in(use_kernel_forward_from_hub=_settings, use_kernelized_func=_settings),
        "transformers.integrations.hub_kernels": stand_in(use_kernel_forward_from_hub=_settings),
        "transformers.distributed.utils": stand_in(is_dtensor=lambda _: False),
        "transformers.modeling_flash_attention_utils": stand_in(
            FlashAttentionKwargs=dict, flash_attn_supports_top_left_mask=lambda **_: False,
            is_flash_attn_available=lambda **_: False,
        ),
    }  # fmt: skip
    return Porter(modules, stand_ins)


def _settings(*_: Any, **__: Any) -> Any:
    return lambda decorated: decorated


def _last_ones(hidden: Any, keep: Any = 0, *_: Any, **__: Any) -> Any:
    return hidden[:, slice(-keep, None) if isinstance(keep, int) else keep, :]


__all__ = ["Porter", "transformers_porter"]
