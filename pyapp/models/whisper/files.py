"""Read the published forms of Whisper models: Hugging Face's folders, openai's .pt and whisper.cpp's ggml-*.bin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import lcm
from typing import TYPE_CHECKING, Any

from pyapp.engine.blocks.layout import READABLE
from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import Checkpoint
from pyapp.formats.safe_json import parse_json
from pyapp.formats.source import read_whole

from .model import Whisper
from .transformer import Config
from .weights import fill, hugging_face_name, parts, slots

# pyapp's names of the hyper-parameters, and transformers' names in config.json.
HUGGING_FACE_CONFIG = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}
HEAD_SIZE = 64  # of every published model

if TYPE_CHECKING:
    from pyapp.engine.device import Device
    from pyapp.engine.processes.group import ProcessGroup
    from pyapp.nn.part import Part

Progress = Callable[[int, int], None]


def read_json_file(source: Any) -> dict[str, Any]:
    """The object in a small JSON file, a ByteSource. FileFormatError for anything else."""
    hint = "Download the file again"
    try:
        found = parse_json(read_whole(source))
    except FileFormatError:
        raise
    except ValueError as error:
        raise FileFormatError(f"it is not JSON ({error})", where=source.name, hint=hint) from error
    if not isinstance(found, dict):
        raise FileFormatError("it is not a JSON object", where=source.name, hint=hint)
    return found


def check_architecture(document: Mapping[str, Any], where: str = "config.json") -> None:
    """ModelError for the object of a config.json of another architecture."""
    kind = document.get("model_type")
    if kind != "whisper":
        raise ModelError(
            f"this is the configuration of the architecture {kind!r:.60}, not of Whisper", where=where,
            hint="Choose a Whisper model, such as openai/whisper-tiny",
        )  # fmt: skip


def config_from_hugging_face(document: Mapping[str, Any], where: str = "config.json") -> Config:
    """From the object of a config.json. ModelError for another architecture and for missing numbers."""
    check_architecture(document, where)
    for side in ("encoder", "decoder"):
        width, state = document.get(f"{side}_ffn_dim"), document.get("d_model")
        if isinstance(width, int) and isinstance(state, int) and width != 4 * state:
            raise ModelError(
                f"{side}_ffn_dim is {width!r:.20}, expected four times d_model ({4 * state!r:.20})", where=where
            )
    if document.get("activation_function", "gelu") != "gelu":
        raise ModelError(f"its activation is {document['activation_function']!r:.60}, expected 'gelu'", where=where)
    return Config.from_dict({ours: document.get(theirs) for ours, theirs in HUGGING_FACE_CONFIG.items()})


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def config_of_tensors(checkpoint: Checkpoint) -> Config:
    """From the dims of openai's .pt, or from its tensors' shapes, with heads of HEAD_SIZE columns."""
    dims = {key[5:]: int(text) for key, text in checkpoint.metadata.items() if key[:5] == "dims." and _is_number(text)}
    if dims:
        return Config.from_dict(dims)

    def shape(name: str, rank: int) -> tuple[int, ...]:
        found = checkpoint.tensors.get(name)
        if found is None or len(found.shape) != rank:
            raise ModelError(
                f"there is no tensor {name!r}", where=checkpoint.source.name, hint="It is not a Whisper model"
            )
        return found.shape

    def layers(side: str) -> int:
        return sum(name.startswith(f"{side}.blocks.") and name.endswith(".attn_ln.bias") for name in checkpoint.tensors)

    state, mels, _ = shape("encoder.conv1.weight", 3)
    vocabulary, _ = shape("decoder.token_embedding.weight", 2)
    audio, text = shape("encoder.positional_embedding", 2)[0], shape("decoder.positional_embedding", 2)[0]
    encoder = layers("encoder")
    decoder = sum(name.startswith("decoder.blocks.") and name.endswith(".mlp_ln.bias") for name in checkpoint.tensors)
    heads = max(1, state // HEAD_SIZE)
    return Config(mels, audio, state, heads, encoder, vocabulary, text, state, heads, decoder)


def build_whisper(
    checkpoint: Checkpoint,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    progress: Progress | None = None,
    group: ProcessGroup | None = None,
) -> Whisper:
    """The model of a checkpoint with openai's or transformers' names. `config` and `generation` are the objects of
    config.json and generation_config.json; `dtype` as in weights.fill; `device` is where the model computes;
    `progress(bytes done, in all)`; `group`: processes that compute the model together (nn/tensor_parallel.py).

    Raises ModelError for missing, misshapen or not finite tensors.
    """
    where = checkpoint.source.name
    prefix = "model." if any(name.startswith("model.encoder.") for name in checkpoint.tensors) else ""
    names = {name: name for name in checkpoint.tensors}
    if config is not None:
        if config.get("tie_word_embeddings") is False and "proj_out.weight" in checkpoint.tensors:
            raise ModelError(
                "tie_word_embeddings is false: Whisper with a head of its own (proj_out) is not supported", where=where
            )
        model = Whisper.empty(config_from_hugging_face(config))
        ours = {part for name, *_ in slots(model) for part in parts(name) if part} | {"encoder.positional_embedding"}
        theirs = {part: hugging_face_name(part)[0 if prefix else len("model.") :] for part in ours}
        names = {part: name for part, name in theirs.items() if name in checkpoint.tensors} or names
    else:
        known = checkpoint.config.get("model_type") == "whisper"
        model = Whisper.empty(Config.from_dict(checkpoint.config) if known else config_of_tensors(checkpoint))
    total, done = sum(info.nbytes for info in checkpoint.tensors.values()), 0

    def read(name: str, part: Part | None = None) -> Any:
        nonlocal done
        if part is None or checkpoint.tensors[names[name]].shape != part.shape:
            value = checkpoint.read(names[name], finite=True, device=device)
        else:
            from pyapp.formats.tensor_slices import read_part

            rows = ((0, part.shape[0]),) if part.dim else part.ranges
            columns = part.ranges[0] if part.dim else None
            value = read_part(checkpoint, names[name], rows, columns, finite=True, device=device)
        done += checkpoint.tensors[names[name]].nbytes
        if progress is not None:
            progress(done, total)
        return value

    taken = {} if group is None else _divided(model, checkpoint, names, dtype, group)
    fill(model, names, read, dtype, where, device, taken)
    model.alignment_heads = alignment_heads(model.config, checkpoint, generation or {})
    model.guess_limits = (generation or {}).get("guess_limits")
    return model


def _divided(
    model: Whisper, checkpoint: Checkpoint, names: Mapping[str, str], dtype: str | None, group: ProcessGroup
) -> dict[int, Part]:
    """What this process has of each parameter, by its id."""
    from pyapp.nn.tensor_parallel import divide

    blocks: dict[int, int] = {}
    for name, owner, attribute, _ in slots(model):
        kinds = {checkpoint.tensors[names[part]].dtype for part in parts(name) if part in names} | {dtype or ""}
        sizes = [READABLE[kind].values for kind in kinds if kind in READABLE]
        blocks[id(getattr(owner, attribute))] = lcm(*sizes)
    return divide(model, group, lambda parameter: blocks[id(parameter)])


def alignment_heads(
    config: Config, checkpoint: Checkpoint, generation: Mapping[str, Any]
) -> list[tuple[int, int]] | None:
    """The (layer, head) that follow the audio in time, from generation_config.json or openai's buffer."""
    found = generation.get("alignment_heads")
    if isinstance(found, list):
        pairs = [(pair[0], pair[1]) for pair in found if isinstance(pair, list) and [*map(type, pair)] == [int, int]]
    elif "alignment_heads" in checkpoint.tensors:
        pairs = [(int(layer), int(head)) for layer, head in np.argwhere(checkpoint.read("alignment_heads").numpy())]
    else:
        return None
    fits = all(0 <= layer < config.n_text_layer and 0 <= head < config.n_text_head for layer, head in pairs)
    return pairs if pairs and fits else None


def is_whisper(checkpoint: Checkpoint) -> bool:
    """Whether the tensors' names are those of a Whisper model."""
    return any(name.endswith(("encoder.conv1.weight", "encoder.conv1.bias")) for name in checkpoint.tensors)


__all__ = ["alignment_heads", "build_whisper", "config_from_hugging_face", "config_of_tensors", "is_whisper",
           "read_json_file"]  # fmt: skip
