"""Adapters: small trained additions to a model whose own weights stay as they are (LoRA, QLoRA, rsLoRA, DoRA).

    from pyapp.adapters import LoraConfig, add_adapter, save_adapter
    add_adapter(model, LoraConfig(r=8, lora_alpha=16))
    # train the parameters that require gradients
    save_adapter(model, "adapter")

The files are those of peft, in both directions.
"""

from .adapting import (
    adapter_state,
    add_adapter,
    disabled_adapters,
    merge_adapters,
    merge_and_unload,
    remove_adapter,
    set_adapter,
    unmerge_adapters,
)
from .config import LoraConfig
from .files import is_adapter, load_adapter, save_adapter

__all__ = [
    "LoraConfig",
    "adapter_state",
    "add_adapter",
    "disabled_adapters",
    "is_adapter",
    "load_adapter",
    "merge_adapters",
    "merge_and_unload",
    "remove_adapter",
    "save_adapter",
    "set_adapter",
    "unmerge_adapters",
]
