"""Load Stable Diffusion from a folder of diffusers or a name on the hub: model_index.json, and folders of its parts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pyapp import hub
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Progress
from pyapp.formats import open_checkpoint
from pyapp.nn import Linear, Module
from pyapp.nn.parameter import skip_initialization
from pyapp.nn.towers import TextTower, at_ends
from pyapp.text.tokenizer import Tokenizer
from pyapp.text.tokenizer_files import load_tokenizer

from ..load import read_settings
from ..loading.config import read_config, require
from ..loading.towers_config import ClipTextConfig
from ..loading.weights import load_weights
from .autoencoder import Autoencoder, AutoencoderConfig, renamed
from .controlnet import SCALE, ControlNet, ControlNetConfig
from .lora import add_lora, as_pairs
from .tiny_autoencoder import TinyAutoencoder, TinyAutoencoderConfig
from .unet import UNet, UNetConfig

INDEX = "model_index.json"
PIPELINES = (
    "StableDiffusionPipeline", "StableDiffusionXLPipeline", "LatentConsistencyModelPipeline",
    "StableDiffusionImg2ImgPipeline", "StableDiffusionXLImg2ImgPipeline", "LatentConsistencyModelImg2ImgPipeline",
    "StableDiffusionInpaintPipeline", "StableDiffusionXLInpaintPipeline",
)  # fmt: skip
TEXT_CLASSES = ("CLIPTextModel", "CLIPTextModelWithProjection")
WEIGHTS = ("model", "diffusion_pytorch_model")  # names of files of weights
SUFFIXES = (".safetensors", ".fp16.safetensors", ".safetensors.index.json", ".bin")  # the preferred first
LORA = "pytorch_lora_weights.safetensors"  # diffusers' name
TOKENIZER = r"tokenizer(_2)?/(tokenizer\.json|vocab\.json|merges\.txt|tokenizer_config\.json|special_tokens_map\.json)"
PARTS = ("text_encoder", "text_encoder_2", "unet", "vae")
AUTOENCODERS: Mapping[str, Callable[[Mapping[str, Any]], Module]] = {
    "AutoencoderKL": lambda values: Autoencoder(AutoencoderConfig.from_dict(values)),
    "AutoencoderTiny": lambda values: TinyAutoencoder(TinyAutoencoderConfig.from_dict(values)),
}


class TextEncoder(Module):
    """CLIP's transformer of texts; with `projected`, also a vector of each text."""

    def __init__(self, config: ClipTextConfig, projected: int | None) -> None:
        super().__init__()
        self.config = config
        self.text_model = TextTower(config, causal=True)
        self.text_projection = None if projected is None else Linear(config.hidden_size, projected, bias=False)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """ids (N, T) → the hidden states (N, T, D) before the last layer, those after it, and the vectors (N, P)."""
        before, after = self.text_model.states(ids)
        if self.text_projection is None:
            return before, after, None
        return before, after, self.text_projection(at_ends(after, ids, self.config.eos_token_id))


@dataclass(frozen=True)
class LoadedDiffusion:
    """The parts of a model: tokenizers with encoders of texts, the U-Net, the autoencoder of latents, and the objects
    of scheduler_config.json and model_index.json.
    """

    name: str
    tokenizers: tuple[Tokenizer, ...]
    encoders: tuple[TextEncoder, ...]
    unet: UNet
    autoencoder: Autoencoder | TinyAutoencoder
    schedule: Mapping[str, Any]
    settings: Mapping[str, Any]
    control: ControlNet | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the first encoder."""
        return self.tokenizers[0]

    @property
    def model(self) -> UNet:
        """The part that computes most."""
        return self.unet

    @property
    def modules(self) -> tuple[Module, ...]:
        """All parts with parameters."""
        more = () if self.control is None else (self.control,)
        return *self.encoders, self.unet, self.autoencoder, *more

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.unet.conv_in.weight.device

    @property
    def fills(self) -> bool:
        """Whether the U-Net reads a mask and the rest of a picture beside the latents."""
        return self.unet.config.in_channels > self.unet.config.out_channels

    @property
    def is_xl(self) -> bool:
        """Whether the U-Net reads two encoders' states and sizes."""
        return self.unet.config.addition_embed_type is not None

    def texts(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor | None]:
        """The states (N, 77, D) that the U-Net reads of prompts, and their vectors (N, P) for XL. Longer prompts are
        cut.
        """
        states, pooled = [], None
        for tokenizer, encoder in zip(self.tokenizers, self.encoders, strict=True):
            length, config = encoder.text_model.most, encoder.config
            found = tokenizer.encode_batch(list(prompts), truncation=True, max_length=length, parse_special=True)
            fill = tokenizer.pad_id if tokenizer.pad_id is not None else config.eos_token_id
            rows = [[*encoding.ids, *[fill] * (length - len(encoding.ids))] for encoding in found]
            ids = int32_tensor([i for row in rows for i in row], self.device).reshape(len(rows), length)
            before, after, vectors = encoder(ids)
            states.append(before if self.is_xl else after)
            pooled = vectors
        return ops.cat(states, 2), pooled


class Told(TypedDict):
    """Who is told of downloads, and may stop them."""

    report: Callable[[Event], None]
    cancel: Cancel


@dataclass(frozen=True)
class Reading:
    """How weights are read: in which type, where to, and whom to tell."""

    dtype: str | None
    device: Device | str | None
    report: Callable[[Event], None]
    cancel: Cancel

    def read(self, part: str, module: Module, file: Path) -> None:
        """Fills the module of a part."""

        def progress(done: int, total: int) -> None:
            self.cancel.check()
            self.report(Progress(f"reading {part}", done, total, "bytes"))

        # Newer files leave out the name of the transformer of texts.
        base = "text_model" if "text" in part else ""
        with open_checkpoint(file) as checkpoint:
            load_weights(
                module, checkpoint, base=base, renames=renamed if part == "vae" else None,
                ignored=re.compile(r".*\.position_ids"), dtype=self.dtype, device=self.device, progress=progress,
            )  # fmt: skip
        module.eval()

    def part(self, part: str, source: str | os.PathLike[str]) -> Any:
        """A part in a folder, or under a name on the hub, of its own."""
        name, told = os.fspath(source), Told(report=self.report, cancel=self.cancel)
        small = hub.resolve_files(source, lambda names: [name for name in names if name == "config.json"], **told)
        values = _settings_of(small, "", name)
        made = _made(part, str(values.get("_class_name")), values, name)
        large = hub.resolve_files(source, lambda names: _large(names, [""], name), **told)
        self.read(part, made, next(large[path] for path in large if not _is_shard(path)))
        return made

    def add_lora(self, modules: Mapping[str, Module], source: str | os.PathLike[str], scale: float) -> None:
        """Adds a LoRA file to the weights."""
        path = Path(source)
        if not path.is_file():
            name, _, wanted = os.fspath(source).partition(":")

            def choose(names: Sequence[str]) -> list[str]:
                known = [file for file in names if file.endswith(SUFFIXES[0])]
                found = [file for file in known if file == (wanted or LORA)] or ([] if wanted else known)
                if len(found) != 1:
                    raise ModelError(
                        "it is not clear which file is the LoRA" if found else "there is no such LoRA file",
                        where=os.fspath(source), hint=f"Name one of its files: {name}:FILE",
                    )  # fmt: skip
                return found

            [path] = hub.resolve_files(name, choose, report=self.report, cancel=self.cancel).values()
        with open_checkpoint(path) as checkpoint:
            add_lora(modules, checkpoint, scale)


def load_diffusion(
    source: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    vae: str | os.PathLike[str] | None = None,
    lora: Any = None,
    control: str | os.PathLike[str] | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedDiffusion:
    """Loads a folder of diffusers, or a name on the hub.

    dtype: a float type or a block type of the matrices ("float16", "q8_0" …). vae: a folder or a name of another
    autoencoder, such as TAESD. lora: a LoRA file, a folder or a name on the hub (owner/repo, owner/repo:file), or
    several, each alone or as a pair with how much it counts. control: a folder or a name of a ControlNet. ModelError
    for a pipeline or a part that is not known, before weights are downloaded; the errors of `hub.resolve`.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    reading = Reading(dtype, device, report, cancel)
    name = os.fspath(source)
    small = hub.resolve_files(source, _small, report=report, cancel=cancel)
    if INDEX not in small:
        raise ModelError(
            f"its {INDEX} is missing", where=name, hint="Give a folder of diffusers, or the hub's name of one"
        )
    settings = read_settings(small[INDEX])
    kind = settings.get("_class_name")
    require(kind in PIPELINES, f"the pipeline {kind!r:.60} is not known", f"Known: {', '.join(PIPELINES)}")
    wanted = [part for part in PARTS if _is_there(settings.get(part)) and (part != "vae" or vae is None)]
    made = {part: _made(part, settings[part][1], _settings_of(small, part, name), name) for part in wanted}
    if vae is not None:
        made["vae"] = reading.part("vae", vae)
    for part in ("text_encoder", "unet", "vae"):
        if part not in made and (part != "text_encoder" or "text_encoder_2" not in made):
            raise ModelError(f"its {part} is missing", where=name)
    large = hub.resolve_files(source, lambda names: _large(names, wanted, name), report=report, cancel=cancel)
    for part in wanted:
        file = large[next(path for path in large if path.startswith(f"{part}/") and not _is_shard(path))]
        reading.read(part, made[part], file)
    for file, scale in as_pairs(lora):
        reading.add_lora({part: made[part] for part in wanted if part != "vae"}, file, scale)
    tokenizers = []
    for part in (part for part in wanted if part.startswith("text_encoder")):
        folder = "tokenizer" + part.removeprefix("text_encoder")
        files = {Path(path).name: small[path] for path in small if path.startswith(f"{folder}/")}
        if not files:
            raise ModelError(f"its {folder} is missing", where=name)
        tokenizers.append(load_tokenizer(files, f"{name}/{folder}"))
        most = made[part].config.vocab_size
        if tokenizers[-1].vocab_size > most:
            raise ModelError(
                f"its {folder} has {tokenizers[-1].vocab_size:,} tokens, its {part} {most:,}", where=name,
                hint="Give the tokenizer that belongs to the model",
            )  # fmt: skip
    encoders = tuple(made[part] for part in wanted if part.startswith("text_encoder"))
    schedule = _settings_of(small, "scheduler", name, "scheduler_config.json")
    found = LoadedDiffusion(
        name, tuple(tokenizers), encoders, made["unet"], made["vae"], schedule, settings,
        None if control is None else reading.part("control", control),
    )  # fmt: skip
    _check_fit(found)
    return found


def _is_there(entry: Any) -> bool:
    """Whether model_index.json names a class for a part."""
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry)


def _small(names: Sequence[str]) -> list[str]:
    """The files of settings and tokenizers."""
    wanted = re.compile(rf"{INDEX}|({'|'.join(PARTS)})/config\.json|scheduler/scheduler_config\.json|{TOKENIZER}")
    return [name for name in names if wanted.fullmatch(name)]


def _is_shard(path: str) -> bool:
    return re.search(r"-\d+-of-\d+\.\w+$", path) is not None


def _large(names: Sequence[str], parts: Sequence[str], where: str) -> list[str]:
    """The files of weights of the parts, shards included."""
    found = []
    for part in parts:
        candidates = (_inside(part, f"{stem}{suffix}") for suffix in SUFFIXES for stem in WEIGHTS)
        chosen = next((path for path in candidates if path in names), None)
        if chosen is None:
            of = f" in its {part}" if part else ""
            raise ModelError(f"there are no weights{of}", where=where, hint="Give all files of the model")
        found.append(chosen)
        if chosen.endswith(".index.json"):
            found += [name for name in names if name.startswith(_inside(part, "")) and _is_shard(name)]
    return found


def _inside(part: str, name: str) -> str:
    """The path of a part's file."""
    return f"{part}/{name}" if part else name


def _settings_of(files: Mapping[str, Path], part: str, where: str, name: str = "config.json") -> dict[str, Any]:
    path = _inside(part, name)
    if path not in files:
        raise ModelError(f"its {path} is missing", where=where, hint="Give all files of the model")
    return read_settings(files[path])


def _made(part: str, kind: str, values: Mapping[str, Any], where: str) -> Any:
    """The module of a part, with parameters that are read later."""
    try:
        with skip_initialization():
            if part == "unet":
                return UNet(UNetConfig.from_dict(values))
            if part == "control":
                require(kind == "ControlNetModel", f"{kind!r:.60} is no ControlNet")
                return ControlNet(ControlNetConfig.from_dict(values))
            if part == "vae":
                require(kind in AUTOENCODERS, f"{part} is {kind!r:.60}", f"Known: {', '.join(AUTOENCODERS)}")
                return AUTOENCODERS[kind](values)
            require(kind in TEXT_CLASSES, f"{part} is {kind!r:.60}", f"Known: {', '.join(TEXT_CLASSES)}")
            width = values.get("projection_dim", 512) if kind == TEXT_CLASSES[1] else None
            require(width is None or (type(width) is int and 1 <= width <= 1 << 16), f"projection_dim is {width!r:.60}")
            return TextEncoder(read_config(ClipTextConfig, values), width)
    except ModelError as error:
        raise ModelError(error.what, where=error.where or f"{where}: {part}", hint=error.hint) from error


def _check_fit(found: LoadedDiffusion) -> None:
    """ModelError for parts that do not belong together."""
    unet, channels = found.unet.config, found.autoencoder.config.latent_channels
    widths = [encoder.config.hidden_size for encoder in found.encoders]
    wide = sum(widths)
    require(
        wide == unet.cross_attention_dim, f"the texts have {wide} numbers, the U-Net reads {unet.cross_attention_dim}"
    )
    require(
        unet.out_channels == channels and unet.in_channels in (channels, 2 * channels + 1),
        f"the U-Net has {unet.in_channels} to {unet.out_channels} channels, the autoencoder {channels}",
    )
    if found.control is not None:
        given, wanted = found.control.config, (unet.block_out_channels, unet.cross_attention_dim, channels)
        fits = (given.block_out_channels, given.cross_attention_dim, given.in_channels) == wanted
        fits = fits and given.addition_embed_type == unet.addition_embed_type
        fits = fits and given.layers_per_block == unet.layers_per_block
        require(fits, "the ControlNet was made for another kind of U-Net")
        scale = found.autoencoder.config.scale
        require(scale == SCALE, f"an autoencoder of {scale} pixels a latent has no ControlNet")
    if found.is_xl:
        projection = found.encoders[-1].text_projection
        pooled = 0 if projection is None else projection.out_features
        count = pooled + 6 * (unet.addition_time_embed_dim or 0)
        read = unet.projection_class_embeddings_input_dim
        require(count == read, f"the vector of a text and the sizes are {count} numbers, the U-Net reads {read}")
