"""Load models that hear samples: those that name a character for each moment of speech (wav2vec 2.0, HuBERT …) or
pieces of words (Parakeet), those that write its text (Moonshine), and language models that hear (Voxtral), with their
characters or tokenizers and what prepares their samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyapp import hub
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.audio.processors.spectrograms import SpectrogramProcessor
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Notice, reading_of
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint
from pyapp.formats.safe_json import json_object
from pyapp.formats.source import opened_source, read_whole
from pyapp.nn.audio.sound_text import SoundTextModel
from pyapp.nn.audio.synchronous import SynchronousModel
from pyapp.nn.parameter import skip_initialization
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import SequenceToSequence
from pyapp.text.tokenization.ctc_tokenizer import CTCTokenizer
from pyapp.text.tokenization.spoken_pieces import SpokenPieces
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import MERGES, load_tokenizer

from .architectures import architecture
from .quantised.methods import as_floats
from .stored import base_of, ignored_by
from .weights import load_buffers, load_weights

if TYPE_CHECKING:
    from pyapp.engine.device import Device

TASK = "speech-recognition"
PIECES = "sentencepiece.bpe.model"  # of Speech2Text, beside vocab.json, and SeamlessM4T
# The files of characters, of an adapter and of a chat template beside the weights; their names are their roles too.
FILES = re.compile(
    r"(vocab|added_tokens|special_tokens_map|adapter_config|chat_template)\.json|chat_template\.jinja|"
    r"adapter_model\.safetensors|merges\.txt|sentencepiece\.bpe\.model"
)


def files_of(source: Any, report: Callable[[Event], None], cancel: Cancel) -> dict[str, Any]:
    """The files of a model by role, with those of its characters."""
    return dict(hub.resolve(source, report=report, cancel=cancel, also=FILES).files)


def load_sound_model(
    name: str, files: Mapping[str, ByteSource], settings: Mapping[str, Any], dtype: str | None,
    device: Device | str | None, report: Callable[[Event], None], cancel: Cancel,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The model of open files by role, of the object of its config.json, its characters or pieces of words (or the
    Tokenizer of one that writes texts), and what prepares its samples. ModelError for a vocabulary that is missing or
    of another size.
    """
    module = module_of(settings)
    kind, pieces = module.TASKS[TASK], getattr(module, "PIECES", False)
    writes = pieces or issubclass(kind, SoundTextModel | SequenceToSequence | SynchronousModel)
    prepares = _object(files["preprocessor_config"]) if "preprocessor_config" in files else {}
    if not prepares and "processor_config" in files:
        prepares = _object(files["processor_config"])
    tokenizer: Any = _words(name, files) if writes else _characters(name, files)
    processor = processor_of(name, settings, prepares)
    with open_checkpoint(files["model"]) as checkpoint:
        model: Any = _built(checkpoint, settings, dtype, device, report, cancel)
    add_own_adapter(model, settings, files, name, report)
    if tokenizer.vocab_size > model.config.vocab_size:
        what, file = ("tokens", "tokenizer") if writes else ("characters", "vocab.json")
        raise ModelError(
            f"there are {tokenizer.vocab_size:,} {what}, the model has {model.config.vocab_size:,}", where=name,
            hint=f"Give the {file} that belongs to the model",
        )  # fmt: skip
    return model.eval(), SpokenPieces(tokenizer, model.config.blank) if pieces else tokenizer, processor


def add_own_adapter(
    model: Any, settings: Mapping[str, Any], files: Mapping[str, Any], name: str, report: Callable[[Event], None]
) -> None:
    """Merges the adapter beside the weights of a model whose config.json says that it has one (Granite Speech), from
    its files by role, into the language model. A Notice where they are missing.
    """
    if settings.get("has_lora_adapter") is not True:
        return
    if not {"adapter_config.json", "adapter_model.safetensors"} <= files.keys():
        missing = "its adapter is missing, without which it transcribes badly"
        report(Notice(missing, where=name, hint="Put adapter_config.json and adapter_model.safetensors beside it"))
        return
    from pyapp.adapters import merge_adapters
    from pyapp.adapters.files import add_file, config_of

    with opened_source(files["adapter_config.json"]) as source:
        config = config_of(source)
    with open_checkpoint(files["adapter_model.safetensors"]) as checkpoint:
        add_file(model, config, checkpoint, renamed=module_of(settings).renamed)
    merge_adapters(model, quantized=False)


def processor_of(name: str, settings: Mapping[str, Any], prepares: Mapping[str, Any]) -> Any:
    """What prepares the samples of a model, by the objects of its config.json and its preprocessor_config.json.
    ModelError where these do not belong together.
    """
    module = module_of(settings)
    kind = module.TASKS[TASK]
    hears = isinstance(kind, type) and issubclass(kind, SoundTextModel)
    processor = getattr(module, "PROCESSOR", SpectrogramProcessor if hears else SampleProcessor).from_settings(prepares)
    if hasattr(processor, "check"):
        processor.check(settings, name)
    return processor


def _characters(name: str, files: Mapping[str, ByteSource]) -> CTCTokenizer:
    if "vocab.json" not in files:
        raise ModelError("its characters are missing", where=name, hint="Put the model's vocab.json beside it")
    roles = ("special_tokens_map.json", "tokenizer_config", "added_tokens.json")
    more, own, added = (_object(files[role]) if role in files else {} for role in roles)
    vocabulary = files["vocab.json"]
    return CTCTokenizer.from_files(_object(vocabulary), more | own, added, vocabulary.name)


def _words(name: str, files: Mapping[str, ByteSource]) -> Tokenizer:
    pieces = PIECES in files and not {"vocab.json", MERGES} <= files.keys()
    if "tokenizer" not in files and not pieces and not {"vocab.json", MERGES} <= files.keys():
        raise ModelError("its tokenizer is missing", where=name, hint="Put the model's tokenizer.json beside it")
    parts = ("vocab.json", PIECES if pieces else MERGES, "added_tokens.json")
    pair = {role: files[role] for role in parts if role in files}
    words = {"tokenizer.json": files["tokenizer"]} if "tokenizer" in files else pair
    for role in ("tokenizer_config", "generation_config", "config"):
        if role in files:
            words[f"{role}.json"] = files[role]
    words |= {role: files[role] for role in ("chat_template.json", "chat_template.jinja") if role in files}
    return load_tokenizer(words, name)


def module_of(settings: Mapping[str, Any]) -> Any:
    """The module of a configuration's architecture."""
    return architecture(settings["model_type"])


def _built(
    checkpoint: Checkpoint, settings: Mapping[str, Any], dtype: str | None, device: Device | str | None,
    report: Callable[[Event], None], cancel: Cancel,
) -> Any:  # fmt: skip
    """The model of a configuration, with the weights of a checkpoint."""
    module, checkpoint = module_of(settings), as_floats(checkpoint, settings)
    config = module.Config.from_dict(settings)
    with skip_initialization():
        model = module.TASKS[TASK](config)

    renamed = getattr(module, "renamed", str)
    stored = module.stored(config, checkpoint.tensors) if hasattr(module, "stored") else None
    left = load_weights(
        model, checkpoint, stored=stored, base=base_of(module, settings), renames=renamed, ignored=ignored_by(module),
        dtype=dtype, device=device, progress=reading_of(report, cancel), config=config.to_dict(), strict=False,
    )  # fmt: skip
    left = load_buffers(model, checkpoint, left, base_of(module, settings), renamed, device)
    if left:
        more = f" and {len(left) - 4} more" if len(left) > 4 else ""
        where = checkpoint.source.name
        report(Notice(f"tensors of the file that are not used: {', '.join(left[:4])}{more}", where=where))
    return model


def _object(source: Any) -> dict[str, Any]:
    with opened_source(source) as opened:
        found = json_object(read_whole(opened).decode("utf-8-sig", "replace"))
    if not found:
        raise ModelError("a JSON object is expected", where=opened.name, hint="Download the file again")
    return found
