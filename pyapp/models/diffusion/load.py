"""Load a model that draws: a folder of diffusers or a name on the hub, model_index.json and folders of its parts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pyapp import hub
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.engine.blocks.layout import READABLE
from pyapp.errors import ModelError, ModelNotFoundError
from pyapp.events import Cancel, Event, reading_of
from pyapp.formats import open_checkpoint
from pyapp.nn import Module
from pyapp.nn.parameter import skip_initialization
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from pyapp.vision.processors import ImageProcessor

from ..load import SEES, TEXT, named_architecture, read_settings
from ..loading.config import read_config, require
from ..loading.quantised.methods import as_floats
from ..loading.t5_config import T5Config
from ..loading.towers_config import ClipTextConfig
from ..loading.weights import load_weights
from .adapter import PictureEncoder, PicturePrompts, adapter_for, attach, tokens_of
from .autoencoder import Autoencoder, AutoencoderConfig, renamed
from .controlnet import SCALE, ControlNet, ControlNetConfig
from .deep_autoencoder import DeepAutoencoder, DeepAutoencoderConfig
from .flux import Flux, FluxConfig
from .flux2 import DEV_STATES, STATES, Flux2, Flux2Config, Flux2Dev
from .frame_autoencoder import UNREAD as UNREAD_OF_FRAMES
from .frame_autoencoder import FrameAutoencoder, FrameAutoencoderConfig
from .lora import add_lora, as_pairs
from .mmdit import MMDiT, MMDiTConfig
from .network import Network
from .normed_autoencoder import NormedAutoencoder, NormedAutoencoderConfig
from .original_names import Original, plain_name, said_by, stored_as
from .paella import UNREAD as UNREAD_OF_PAELLA
from .paella import PaellaConfig, PaellaDecoder
from .pixart import PixArt, PixArtConfig
from .qwen_image import QwenImage, QwenImageConfig, QwenImageEdit, QwenImageEditPlus
from .sana import Sana, SanaConfig
from .texts import LanguageEncoder, Reader, SeeingEncoder, TextEncoder
from .tiny_autoencoder import TinyAutoencoder, TinyAutoencoderConfig
from .unet import UNet, UNetConfig
from .wuerstchen import WuerstchenConfig, WuerstchenDecoder, WuerstchenPrior, WuerstchenPriorConfig
from .wuerstchen import plain_name as plain_wuerstchen
from .zimage import ZImage, ZImageConfig

EDITING = (
    "FluxKontextPipeline", "Flux2KleinPipeline", "Flux2Pipeline", "QwenImageEditPipeline", "QwenImageEditPlusPipeline",
)  # fmt: skip
INDEX = "model_index.json"
# Language models, and whether they also see pictures.
LANGUAGE_CLASSES = {
    "Qwen3Model": TEXT,
    "Qwen3ForCausalLM": TEXT,
    "Gemma2Model": TEXT,
    "Gemma2ForCausalLM": TEXT,
    "Qwen2_5_VLForConditionalGeneration": SEES,
    "Mistral3ForConditionalGeneration": SEES,
}
TEXT_CLASSES = ("CLIPTextModel", "CLIPTextModelWithProjection", "T5EncoderModel")
UNREAD = re.compile(r".*\.position_ids|bn\.num_batches_tracked|(model\.diffusion_model\.)?norm_final\.weight")
WEIGHTS = ("model", "diffusion_pytorch_model")  # names of files of weights
SUFFIXES = (".safetensors", ".fp16.safetensors", ".safetensors.index.json", ".bin")  # the preferred first
LORA = "pytorch_lora_weights.safetensors"  # diffusers' name
# With a ControlNet among their parts.
CONTROLLED = tuple(
    f"StableDiffusion{size}ControlNet{way}Pipeline" for size in ("", "XL") for way in ("", "Img2Img", "Inpaint")
)
CONTROL = "controlnet"
ENCODER = "image_encoder"  # the folder of an IP-Adapter's CLIP
TRANSFORMER, TRANSFORMER_ENDS = "diffusion_pytorch_model.safetensors", (".gguf", ".safetensors")
TOKENIZER = (
    r"(prior_)?tokenizer(_[23])?/"
    r"(tokenizer\.json|vocab\.json|merges\.txt|spiece\.model|tokenizer_config\.json|special_tokens_map\.json|"
    r"chat_template\.(jinja|json))"
)
PREPARES, SEEING_PROCESSOR = "processor/preprocessor_config.json", "Qwen2VL"
TEXTS = ("text_encoder", "text_encoder_2", "text_encoder_3")
# Pipelines of two networks: the decoder's, both, and the prior's.
CASCADE, COMBINED, PRIOR = "WuerstchenDecoderPipeline", "WuerstchenCombinedPipeline", "WuerstchenPriorPipeline"
AUTOENCODERS: Mapping[str, Callable[[Mapping[str, Any]], Module]] = {
    "AutoencoderKL": lambda values: Autoencoder(AutoencoderConfig.from_dict(values)),
    "AutoencoderTiny": lambda values: TinyAutoencoder(TinyAutoencoderConfig.from_dict(values)),
    "AutoencoderKLFlux2": lambda values: NormedAutoencoder(NormedAutoencoderConfig.from_dict(values)),
    "AutoencoderDC": lambda values: DeepAutoencoder(DeepAutoencoderConfig.from_dict(values)),
    "AutoencoderKLQwenImage": lambda values: FrameAutoencoder(FrameAutoencoderConfig.from_dict(values)),
}
# Parts of Würstchen.
OWN_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Module]] = {
    "prior": lambda values: WuerstchenPrior(WuerstchenPriorConfig.from_dict(values)),
    "decoder": lambda values: WuerstchenDecoder(WuerstchenConfig.from_dict(values)),
    "vqgan": lambda values: PaellaDecoder(PaellaConfig.from_dict(values)),
}


@dataclass(frozen=True)
class Kind:
    """Pipelines of one kind of network: their classes, the part that is the network, and how it is made of its
    config.json; the encoders of texts that they may have, and those that they must have; the layers of a language model
    whose states are read (LanguageEncoder); whether it sees pictures (SeeingEncoder).
    """

    pipelines: tuple[str, ...]
    part: str
    network: Callable[[Mapping[str, Any]], Network]
    texts: tuple[str, ...]
    needed: tuple[str, ...] = ()
    states: tuple[int, ...] = (-1,)
    sees: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts with weights."""
        return *self.texts, self.part, "vae"


KINDS = (
    Kind(
        (
            "StableDiffusionPipeline", "StableDiffusionXLPipeline", "LatentConsistencyModelPipeline",
            "StableDiffusionImg2ImgPipeline", "StableDiffusionXLImg2ImgPipeline",
            "LatentConsistencyModelImg2ImgPipeline", "StableDiffusionInpaintPipeline",
            "StableDiffusionXLInpaintPipeline", *CONTROLLED,
        ), "unet", lambda values: UNet(UNetConfig.from_dict(values)), TEXTS[:2],
    ),
    Kind(
        ("FluxPipeline", "FluxImg2ImgPipeline", "FluxInpaintPipeline", "FluxFillPipeline", EDITING[0]), "transformer",
        lambda values: Flux(FluxConfig.from_dict(values)), TEXTS[:2], TEXTS[:2],
    ),
    Kind(
        ("ZImagePipeline", "ZImageImg2ImgPipeline", "ZImageInpaintPipeline"), "transformer",
        lambda values: ZImage(ZImageConfig.from_dict(values)), TEXTS[:1], TEXTS[:1], (-2,),
    ),
    Kind(
        EDITING[1:2], "transformer", lambda values: Flux2(Flux2Config.from_dict(values)), TEXTS[:1], TEXTS[:1], STATES,
    ),
    Kind(
        EDITING[2:3], "transformer", lambda values: Flux2Dev(Flux2Config.from_dict(values)), TEXTS[:1], TEXTS[:1],
        DEV_STATES,
    ),
    Kind(
        ("QwenImagePipeline", "QwenImageImg2ImgPipeline", "QwenImageInpaintPipeline"), "transformer",
        lambda values: QwenImage(QwenImageConfig.from_dict(values)), TEXTS[:1], TEXTS[:1],
    ),
    Kind(
        EDITING[3:4], "transformer", lambda values: QwenImageEdit(QwenImageConfig.from_dict(values)), TEXTS[:1],
        TEXTS[:1], sees=True,
    ),
    Kind(
        EDITING[4:], "transformer", lambda values: QwenImageEditPlus(QwenImageConfig.from_dict(values)), TEXTS[:1],
        TEXTS[:1], sees=True,
    ),
    Kind(
        ("PixArtSigmaPipeline",), "transformer", lambda values: PixArt(PixArtConfig.from_dict(values)), TEXTS[:1],
        TEXTS[:1],
    ),
    Kind(("SanaPipeline",), "transformer", lambda values: Sana(SanaConfig.from_dict(values)), TEXTS[:1], TEXTS[:1]),
    Kind(
        ("StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline", "StableDiffusion3InpaintPipeline"),
        "transformer", lambda values: MMDiT(MMDiTConfig.from_dict(values)), TEXTS, TEXTS[:2],
    ),
)  # fmt: skip
PIPELINES = {name: kind for kind in KINDS for name in kind.pipelines}


@dataclass(frozen=True)
class Prior:
    """What Würstchen draws first: its own reader of texts, the network, and the objects of scheduler_config.json and
    model_index.json.
    """

    reader: Reader
    network: WuerstchenPrior
    schedule: Mapping[str, Any]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class LoadedDiffusion:
    """The parts of a model: tokenizers with encoders of texts, the network that finds noise, the autoencoder of
    latents, and the objects of scheduler_config.json and model_index.json. prior: of models that draw in two stages;
    pictures: of an IP-Adapter.
    """

    name: str
    readers: tuple[Reader, ...]
    network: Network
    autoencoder: Autoencoder | TinyAutoencoder | FrameAutoencoder | DeepAutoencoder | PaellaDecoder
    schedule: Mapping[str, Any]
    settings: Mapping[str, Any]
    control: ControlNet | None = None
    prior: Prior | None = None
    pictures: PicturePrompts | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the first encoder."""
        return self.readers[0].tokenizer

    @property
    def model(self) -> Network:
        """The part that computes most."""
        return self.network

    @property
    def edits(self) -> bool:
        """Whether the network reads a picture beside the latents and draws it as the prompt says."""
        return self.settings.get("_class_name") in EDITING

    @property
    def modules(self) -> tuple[Module, ...]:
        """All parts with parameters."""
        more: tuple[Module, ...] = () if self.control is None else (self.control,)
        more += () if self.prior is None else (self.prior.reader.encoder, self.prior.network)
        more += () if self.pictures is None else (self.pictures.encoder, self.pictures.adapter)
        return *(reader.encoder for reader in self.readers), self.network, self.autoencoder, *more

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.network.device

    def texts(
        self, prompts: Sequence[str], negative: int = 0, picture: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The states (N, S, D) that the network reads of prompts, of which the first `negative` ones are negative, and
        what it reads besides (Network.texts). Longer prompts are cut. picture: one that is changed, of networks that
        read prompts about it.
        """
        if picture is not None and self.network.sees_pictures:
            return self.network.texts_about(self.readers, prompts, picture)
        return self.network.texts(self.readers, prompts, negative)


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

    def read(self, part: str, module: Module, file: Path, settings: Mapping[str, Any]) -> None:
        """Fills the module of a part; `settings` is the object of its config.json."""
        # Newer files leave out the name of CLIP's transformer.
        base = "text_model" if isinstance(module, TextEncoder) else ""
        base = "vision_model" if isinstance(module, PictureEncoder) else base
        ignored = UNREAD
        if isinstance(module, LanguageEncoder):
            base, ignored = "model", module.unread
        if isinstance(module, SeeingEncoder):
            ignored = module.unread
        dtype = self.dtype
        joint = module if isinstance(module, Original) else None
        renames = renamed if part == "vae" else None if joint is None else plain_name
        if isinstance(module, SeeingEncoder):
            renames = module.renamed
        elif isinstance(module, WuerstchenPrior | WuerstchenDecoder):
            renames = plain_wuerstchen
        elif isinstance(module, PaellaDecoder):
            ignored = UNREAD_OF_PAELLA
        elif isinstance(module, FrameAutoencoder):
            ignored = UNREAD_OF_FRAMES
        with open_checkpoint(file) as opened:
            checkpoint = as_floats(opened, settings)
            stored = None if joint is None else stored_as(joint, checkpoint)
            if isinstance(module, FrameAutoencoder):
                stored = module.stored()
            elif isinstance(module, SeeingEncoder):
                stored = module.stored(checkpoint.tensors)
            if any(info.dtype in READABLE for info in checkpoint.tensors.values()):
                dtype = None  # a file in block types keeps them
            load_weights(
                module.seeing if isinstance(module, SeeingEncoder) else module, checkpoint, base=base, renames=renames,
                stored=stored,
                ignored=ignored, dtype=dtype, device=self.device,
                progress=reading_of(self.report, self.cancel, f"reading {part}"),
            )  # fmt: skip
        module.eval()

    def part(self, part: str, source: str | os.PathLike[str]) -> Any:
        """A part in a folder, or under a name on the hub, of its own."""
        name, told = os.fspath(source), Told(report=self.report, cancel=self.cancel)
        small = hub.resolve_files(source, lambda names: [name for name in names if name == "config.json"], **told)
        values = _settings_of(small, "", name)
        made = _made(part, str(values.get("_class_name")), values, name)
        large = hub.resolve_files(source, lambda names: _large(names, [""], name), **told)
        self.read(part, made, next(large[path] for path in large if not _is_shard(path)), values)
        return made

    def file(self, source: str | os.PathLike[str], what: str, usual: str, ends: tuple[str, ...]) -> Path:
        """A file: its path, a folder or a name on the hub of one such file, or either with ":FILE"."""
        path = Path(source)
        if path.is_file():
            return path
        name, _, wanted = os.fspath(source).partition(":")

        def choose(names: Sequence[str]) -> list[str]:
            known = [file for file in names if file.endswith(ends)]
            found = [file for file in known if file == (wanted or usual)] or ([] if wanted else known)
            if len(found) != 1:
                raise ModelError(
                    f"it is not clear which file is the {what}" if found else f"there is no such {what} file",
                    where=os.fspath(source), hint=f"Name one of its files: {name}:FILE",
                )  # fmt: skip
            return found

        [path] = hub.resolve_files(name, choose, report=self.report, cancel=self.cancel).values()
        return path

    def add_lora(self, modules: Mapping[str, Module], source: str | os.PathLike[str], scale: float) -> None:
        """Adds a LoRA file to the weights."""
        with open_checkpoint(self.file(source, "LoRA", LORA, SUFFIXES[:1])) as checkpoint:
            add_lora(modules, checkpoint, scale)

    def add_adapter(self, unet: Any, source: str | os.PathLike[str], scale: float, encoder: Any) -> PicturePrompts:
        """Lets a U-Net read pictures by an IP-Adapter. `encoder`: the folder of CLIP, or its name on the hub, with
        ":FOLDER"; None: the folder "image_encoder" beside the file.
        """
        file = self.file(source, "IP-Adapter", "", SUFFIXES[:1])
        if encoder is None:
            place, _, inside = os.fspath(source).partition(":")
            here = (file.parent, "") if Path(source).is_file() else (place, inside.rpartition("/")[0])
            place, folder = os.fspath(here[0]), _inside(here[1], ENCODER)
        else:
            place, folder = os.fspath(encoder), ""
            if not Path(encoder).is_dir():
                place, _, folder = place.partition(":")
        told = Told(report=self.report, cancel=self.cancel)
        small = hub.resolve_files(
            place, lambda names: [name for name in names if name == _inside(folder, "config.json")], **told
        )
        values = _settings_of(small, folder, place)
        with skip_initialization():
            seeing = PictureEncoder(values)
        large = hub.resolve_files(place, lambda names: _large(names, [folder], place), **told)
        with open_checkpoint(file) as checkpoint:
            adapter = adapter_for(unet, checkpoint)
            load_weights(adapter, checkpoint, dtype=self.dtype, device=self.device)
        read, made = adapter.image_proj.seen, seeing.width_for(adapter.image_proj)
        require(read == made, f"CLIP's pictures have {made} numbers, the IP-Adapter reads {read}",
                "Give the image_encoder that belongs to it")  # fmt: skip
        self.read(ENCODER, seeing, next(large[path] for path in large if not _is_shard(path)), values)
        attach(unet, adapter.eval(), tokens_of(adapter), scale)
        return PicturePrompts(seeing, adapter)


def load_diffusion(
    source: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    vae: str | os.PathLike[str] | None = None,
    lora: Any = None,
    control: str | os.PathLike[str] | None = None,
    transformer: str | os.PathLike[str] | None = None,
    prior: str | os.PathLike[str] | None = None,
    adapter: Any = None,
    image_encoder: str | os.PathLike[str] | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedDiffusion:
    """Loads a folder of diffusers, or a name on the hub.

    dtype: a float type or a block type of the matrices ("float16", "q8_0" …); those that a file has in blocks stay.
    vae: a folder or a name of another autoencoder, such as TAESD. lora: a LoRA file, a folder or a name on the hub
    (owner/repo, owner/repo:file), or several, each alone or as a pair with how much it counts. control: a folder or a
    name of a ControlNet. transformer: a file with other weights of the transformer, GGUF or safetensors. prior: the
    folder or the name of Würstchen's prior, if it is not in the same folder, nor under the same name with "-prior".
    adapter: an IP-Adapter's file, as lora's; image_encoder: the folder of its CLIP, or a name on the hub
    (owner/repo:folder), if that is not in the folder "image_encoder" beside it.
    ModelError for a pipeline or a part that is not known, before weights are downloaded; the errors of `hub.resolve`.
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
    pipeline = settings.get("_class_name")
    if pipeline == PRIOR:
        raise ModelError(
            f"a {pipeline} draws no pictures", where=name, hint="Give the decoder's folder, and it as prior"
        )
    if pipeline in (CASCADE, COMBINED):
        for what, given in (
            ("vae", vae), ("lora", lora), ("control", control), ("transformer", transformer), ("adapter", adapter),
        ):  # fmt: skip
            if given:
                raise ModelError(f"a {pipeline} takes no {what}", where=name, hint="Leave it out")
        return _load_cascade(reading, source, small, settings, prior)
    if prior is not None:
        raise ModelError("only Würstchen has a prior", where=name, hint="Leave it out")
    kind, wanted = _wanted_parts(settings, name, vae is None)
    settled = {part: _settings_of(small, part, name) for part in wanted}
    own: Path | None = None
    if transformer is not None:
        if kind.part != "transformer":
            raise ModelError(f"a {pipeline} takes no file of a transformer", where=name, hint="Give its folder alone")
        own = reading.file(transformer, "transformer", TRANSFORMER, TRANSFORMER_ENDS)
        with open_checkpoint(own) as checkpoint:
            settled[kind.part] |= said_by(checkpoint)
    made = {part: _made(part, settings[part][1], settled[part], name, kind) for part in wanted}
    if vae is not None:
        made["vae"] = reading.part("vae", vae)
    here = [part for part in wanted if part != kind.part or own is None]
    large = hub.resolve_files(source, lambda names: _large(names, here, name), report=report, cancel=cancel)
    if own is not None:
        reading.read(kind.part, made[kind.part], own, {})
    for part in here:
        reading.read(part, made[part], _weights_of(large, part), settled[part])
    for file, scale in as_pairs(lora):
        reading.add_lora({part: made[part] for part in wanted if part != "vae"}, file, scale)
    readers = [_reader(small, part, made[part], name) for part in wanted if part.startswith("text_encoder")]
    schedule = _settings_of(small, "scheduler", name, "scheduler_config.json")
    adapters = [*as_pairs(adapter)]
    if len(adapters) > 1:
        raise ModelError("only one IP-Adapter is supported", where=name, hint="Give one adapter")
    if image_encoder is not None and not adapters:
        raise ModelError("an image_encoder is of an IP-Adapter", where=name, hint="Give the adapter too")
    found = LoadedDiffusion(
        name, tuple(readers), made[kind.part], made["vae"], schedule, settings,
        _control(reading, source, small, settings, control),
        pictures=reading.add_adapter(made[kind.part], *adapters[0], image_encoder) if adapters else None,
    )  # fmt: skip
    _check_fit(found)
    return found


def _control(
    reading: Reading, source: str | os.PathLike[str], small: Mapping[str, Path], settings: Mapping[str, Any],
    given: str | os.PathLike[str] | None,
) -> ControlNet | None:  # fmt: skip
    """The ControlNet of a folder or a name, or that of the pipeline, if it has one."""
    if given is not None:
        found: ControlNet = reading.part("control", given)
        return found
    if settings.get("_class_name") not in CONTROLLED or not _is_there(settings.get(CONTROL)):
        return None
    name = os.fspath(source)
    values = _settings_of(small, CONTROL, name)
    made: ControlNet = _made("control", settings[CONTROL][1], values, name)
    large = hub.resolve_files(
        source, lambda names: _large(names, [CONTROL], name), report=reading.report, cancel=reading.cancel
    )
    reading.read(CONTROL, made, _weights_of(large, CONTROL), values)
    return made


def _wanted_parts(settings: Mapping[str, Any], name: str, own_autoencoder: bool) -> tuple[Kind, list[str]]:
    """The pipeline of a model_index.json, and which of its parts are read. ModelError for a pipeline that is not known
    and for a part that is missing.
    """
    pipeline = settings.get("_class_name")
    known = isinstance(pipeline, str) and pipeline in PIPELINES
    names = ", ".join([*PIPELINES, CASCADE, COMBINED])
    require(known, f"the pipeline {pipeline!r:.60} is not known", f"Known: {names}")
    kind = PIPELINES[str(pipeline)]
    wanted = [part for part in kind.parts if _is_there(settings.get(part)) and (part != "vae" or own_autoencoder)]
    needed = [*kind.needed, kind.part, *(["vae"] if own_autoencoder else [])]
    if not any(part in wanted for part in kind.texts):
        needed.insert(0, kind.texts[0])
    for part in needed:
        if part not in wanted:
            raise ModelError(
                f"its {part} is missing", where=name, hint=f"Parts of a {pipeline}: {', '.join(kind.parts)}"
            )
    return kind, wanted


def _weights_of(large: Mapping[str, Path], part: str) -> Path:
    """The first file of weights of a part."""
    return large[next(path for path in large if path.startswith(f"{part}/") and not _is_shard(path))]


def _reader(small: Mapping[str, Path], part: str, encoder: Any, name: str) -> Reader:
    """An encoder of texts with the tokenizer beside it."""
    folder = part.replace("text_encoder", "tokenizer")
    files = {Path(path).name: small[path] for path in small if path.startswith(f"{folder}/")}
    if not files:
        raise ModelError(f"its {folder} is missing", where=name)
    processor = None
    if isinstance(encoder, SeeingEncoder):
        require(PREPARES in small, f"its {PREPARES} is missing", "Give all files of the model")
        processor = ImageProcessor.from_settings(read_settings(small[PREPARES]), SEEING_PROCESSOR)
    found = Reader(load_tokenizer(files, f"{name}/{folder}"), encoder, processor)
    count, most = found.tokenizer.vocab_size, encoder.config.vocab_size
    if count > most:
        raise ModelError(
            f"its {folder} has {count:,} tokens, its {part} {most:,}", where=name,
            hint="Give the tokenizer that belongs to the model",
        )  # fmt: skip
    return found


def _load_cascade(
    reading: Reading, source: str | os.PathLike[str], small: Mapping[str, Path], settings: Mapping[str, Any], prior: Any
) -> LoadedDiffusion:
    """Würstchen's decoder, and its prior: in the same folder, or in one of its own."""
    name = os.fspath(source)

    def parts(
        source: Any, small: Mapping[str, Path], settings: Mapping[str, Any], wanted: Mapping[str, str]
    ) -> dict[str, Any]:
        """The modules of parts in a folder, by what they are."""
        where = os.fspath(source)
        made, said = {}, {}
        for kind, part in wanted.items():
            if not _is_there(settings.get(part)):
                raise ModelError(f"its {part} is missing", where=where, hint=f"Parts: {', '.join(wanted.values())}")
            said[part] = _settings_of(small, part, where)
            made[kind] = _made(kind, settings[part][1], said[part], where)
        large = hub.resolve_files(
            source, lambda names: _large(names, [*wanted.values()], where), report=reading.report, cancel=reading.cancel
        )
        for kind, part in wanted.items():
            reading.read(part, made[kind], _weights_of(large, part), said[part])
        return made

    own = parts(source, small, settings, {kind: kind for kind in ("text_encoder", "decoder", "vqgan")})
    reader = _reader(small, "text_encoder", own["text_encoder"], name)
    schedule = _settings_of(small, "scheduler", name, "scheduler_config.json")
    start, told = ("prior_", settings) if prior is None else ("", {})
    if prior is None and settings["_class_name"] == CASCADE:
        prior, start = f"{name.rstrip('/')}-prior", ""  # as the hub has it
    if prior is not None:
        source, name = prior, os.fspath(prior)
        try:
            small = hub.resolve_files(source, _small, report=reading.report, cancel=reading.cancel)
        except ModelNotFoundError as error:
            raise ModelError(
                "the prior was not found", where=name, hint="Name its folder, or its name on the hub"
            ) from error
        told = read_settings(small[INDEX]) if INDEX in small else {}
        if told.get("_class_name") != PRIOR:
            raise ModelError(f"there is no {PRIOR}", where=name, hint="Name the folder of the model's prior")
    first = parts(source, small, told, {kind: f"{start}{kind}" for kind in ("text_encoder", "prior")})
    found = Prior(
        _reader(small, f"{start}text_encoder", first["text_encoder"], name), first["prior"],
        _settings_of(small, f"{start}scheduler", name, "scheduler_config.json"), told,
    )  # fmt: skip
    decoder, autoencoder = own["decoder"], own["vqgan"]
    for what, given, read in (
        ("the prior's pictures have", found.network.config.c_in, decoder.config.effnet_embd),
        ("the prior's states of texts have", found.reader.width, found.network.config.c_cond),
        ("the states of texts have", reader.width, decoder.config.clip_embd),
        ("the autoencoder's latents have", autoencoder.config.latent_channels, decoder.config.c_in),
    ):
        require(given == read, f"{what} {given} numbers, the network reads {read}")
    return LoadedDiffusion(os.fspath(name), (reader,), decoder, autoencoder, schedule, settings, prior=found)


def _is_there(entry: Any) -> bool:
    """Whether model_index.json names a class for a part."""
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry)


def _small(names: Sequence[str]) -> list[str]:
    """The files of settings and tokenizers."""
    known = dict.fromkeys(part for kind in KINDS for part in kind.parts) | dict.fromkeys((*OWN_PARTS, CONTROL))
    wanted = re.compile(
        rf"{INDEX}|(prior_)?({'|'.join(known)})/config\.json|(prior_)?scheduler/scheduler_config\.json|{TOKENIZER}|"
        rf"{PREPARES}"
    )
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
        if chosen.endswith(SUFFIXES[2]):
            stem = f"{chosen.removesuffix(SUFFIXES[2])}-"
            found += [name for name in names if name.startswith(stem) and _is_shard(name)]
    return found


def _inside(part: str, name: str) -> str:
    """The path of a part's file."""
    return f"{part}/{name}" if part else name


def _settings_of(files: Mapping[str, Path], part: str, where: str, name: str = "config.json") -> dict[str, Any]:
    path = _inside(part, name)
    if path not in files:
        raise ModelError(f"its {path} is missing", where=where, hint="Give all files of the model")
    return read_settings(files[path])


def _made(part: str, name: str, values: Mapping[str, Any], where: str, kind: Kind | None = None) -> Any:
    """The module of a part of the class `name`, with parameters that are read later."""
    try:
        with skip_initialization():
            if kind is not None and part == kind.part:
                return kind.network(values)
            if part in OWN_PARTS:
                return OWN_PARTS[part](values)
            if part == "control":
                require(name == "ControlNetModel", f"{name!r:.60} is not a ControlNet")
                return ControlNet(ControlNetConfig.from_dict(values))
            if part == "vae":
                require(name in AUTOENCODERS, f"{part} is {name!r:.60}", f"Known: {', '.join(AUTOENCODERS)}")
                return AUTOENCODERS[name](values)
            if name in LANGUAGE_CLASSES and kind is not None:
                return _language(values, LANGUAGE_CLASSES[name], kind)
            require(name in TEXT_CLASSES, f"{part} is {name!r:.60}", f"Known: {', '.join(TEXT_CLASSES)}")
            if name == TEXT_CLASSES[2]:
                return T5Encoder(T5Config.from_dict(values))
            width = values.get("projection_dim", 512) if name == TEXT_CLASSES[1] else None
            require(width is None or (type(width) is int and 1 <= width <= 1 << 16), f"projection_dim is {width!r:.60}")
            return TextEncoder(read_config(ClipTextConfig, values), width)
    except ModelError as error:
        raise ModelError(error.what, where=error.where or f"{where}: {part}", hint=error.hint) from error


def _language(values: Mapping[str, Any], task: str, kind: Kind) -> LanguageEncoder | SeeingEncoder:
    """The language model of a config.json, as a kind of pipelines reads it. ModelError for one that is not known. task:
    SEES for one that also sees pictures.
    """
    module = named_architecture(values, "", task)
    config = module.Config.from_dict(values)
    if kind.sees:
        require(task == SEES, "its language model sees no pictures", "Give all files of the model")
        return SeeingEncoder(config, module.TASKS[SEES](config), module)
    if task == SEES:
        return LanguageEncoder(config.text_config, config.language_model(), kind.states)
    return LanguageEncoder(config, module.TASKS[TEXT](config), kind.states)


def _check_fit(found: LoadedDiffusion) -> None:
    """ModelError for parts that do not belong together."""
    network, channels = found.network, found.autoencoder.config.latent_channels
    network.check_fit(found.readers, channels)
    scale = found.autoencoder.config.scale
    if isinstance(network, Flux) and network.fills:
        read = network.config.mask_channels
        require(read == scale**2, f"the transformer reads {read} pixels of a mask, a latent has {scale**2}")
    if found.control is not None:
        if not isinstance(network, UNet):
            raise ModelError("ControlNets are for the U-Nets of Stable Diffusion 1, 2 and XL alone")
        unet = network.config
        given, wanted = found.control.config, (unet.block_out_channels, unet.cross_attention_dim, channels)
        fits = (given.block_out_channels, given.cross_attention_dim, given.in_channels) == wanted
        fits = fits and given.addition_embed_type == unet.addition_embed_type
        fits = fits and given.layers_per_block == unet.layers_per_block
        require(fits, "the ControlNet was made for another kind of U-Net")
        require(scale == SCALE, f"an autoencoder of {scale} pixels a latent has no ControlNet")
