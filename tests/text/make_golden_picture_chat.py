"""Makes golden_picture_chat.json with transformers: the tokens of a conversation with pictures, by the processors and
chat templates of the models in picture_chat_model.py, and 16 greedy tokens after it.

    PYTHONPATH=. python tests/text/make_golden_picture_chat.py [KIND … | videos]

Pillow must be older than 13, as for tests/vision/make_golden_processors.py. What a user writes of special tokens is
given to transformers with a space in it, and the space is taken out again, because there it would become such a token.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from tests.text.picture_chat_model import (
    ALIKE,
    FRAMES,
    IDS,
    MORE,
    PROCESSORS,
    SIZES,
    TEMPLATES,
    TEXTS,
    VIDEOS,
    WATCHES,
    conversation,
    photo,
    video_conversation,
    write_picture_chat_model,
    write_video_chat_model,
)

CLASSES = {
    "qwen2_vl": "Qwen2VL",
    "qwen3_vl": "Qwen3VL",
    "qwen3_5": "Qwen3_5",
    "idefics3": "Idefics3",
    "llava": "Llava",
    "gemma3": "Gemma3",
    "gemma3_crops": "Gemma3",
    "paligemma": "PaliGemma",
    "mistral3": "Mistral3",
    "llava_next": "LlavaNext",
    "internvl": "InternVL",
    "llava_onevision": "LlavaOnevision",
    "lfm2_vl": "Lfm2Vl",
    "idefics2": "Idefics2",
    "mllama": "Mllama",
}
# Gemma3Processor has settings of its own, which go before those of its image processor.
PANNED = {key: value for key, value in PROCESSORS["gemma3_crops"].items() if "pan_and_scan" in key}
SPACE = "\u00a7"  # stands in the names of special tokens in what the user writes


def processor_of(kind: str, folder: Path) -> Any:
    settings = {key: value for key, value in PROCESSORS[kind].items() if key != "image_processor_type"}
    named = {
        "llava": "CLIP",
        "qwen3_vl": "Qwen2VL",
        "paligemma": "Siglip",
        "mistral3": "Pixtral",
        "internvl": "GotOcr2",
    }.get(kind, CLASSES[kind])
    made = getattr(transformers, f"{named}ImageProcessorPil", None)  # LFM2-VL's computes with torchvision
    images = (made or getattr(transformers, f"{named}ImageProcessor"))(**settings)
    words = {
        "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>",
    } if kind.startswith("gemma3") else {}  # fmt: skip
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, extra_special_tokens=words)
    made = getattr(transformers, f"{'Pixtral' if kind == 'mistral3' else CLASSES[kind]}Processor")
    if kind == "internvl":
        names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(
            folder, extra_special_tokens=names | {"video_token": "<video>"}
        )
        videos = transformers.InternVLVideoProcessor()
        return made(images, tokenizer, videos, image_seq_length=4, chat_template=MORE[kind])
    if kind == "llava_onevision":
        more = {"extra_special_tokens": {"image_token": "<image>", "video_token": "<video>"}}
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, **more)
        videos = transformers.LlavaOnevisionVideoProcessor()
        return made(images, tokenizer, videos, num_image_tokens=16, vision_feature_select_strategy="full",
                    chat_template=MORE[kind], vision_aspect_ratio="anyres_max_1")  # fmt: skip
    if kind == "llava_next":
        return made(
            images, tokenizer, patch_size=4, vision_feature_select_strategy="default", chat_template=MORE[kind],
            num_additional_image_tokens=1,
        )  # fmt: skip
    if kind.startswith("qwen"):  # without a processor of videos, which needs torchvision
        found = made.__new__(made)
        found.image_token, found.video_token = "<|image_pad|>", "<|video_pad|>"
        found.image_token_id, found.video_token_id = IDS["<|image_pad|>"], -1
        found.image_processor, found.tokenizer, found.chat_template = images, tokenizer, TEMPLATES[kind]
        return found
    if kind == "paligemma":
        images.image_seq_length = 16
        return made(images, tokenizer, chat_template=MORE[kind])
    if kind == "mistral3":
        return made(images, tokenizer, patch_size=4, spatial_merge_size=2, chat_template=MORE[kind])
    if kind == "mllama":
        return made(images, tokenizer, chat_template=MORE[kind])
    if kind == "lfm2_vl":
        return made(images, tokenizer, chat_template=MORE[kind])
    if kind == "idefics2":
        return made(images, tokenizer, image_seq_len=5, chat_template=MORE[kind])
    if kind == "idefics3":
        return made(images, tokenizer, image_seq_len=4, chat_template=TEMPLATES[kind])
    if kind.startswith("gemma3"):
        return made(images, tokenizer, chat_template=TEMPLATES[kind], image_seq_length=9)
    return made(
        images, tokenizer, patch_size=4, vision_feature_select_strategy="default", chat_template=TEMPLATES[kind],
        num_additional_image_tokens=1,
    )  # fmt: skip


def golden(kind: str, folder: Path) -> dict[str, Any]:
    write_picture_chat_model(folder, kind)
    processor = processor_of(kind, folder)
    messages = conversation([Image.fromarray(photo(*size)) for size in SIZES])
    for message in messages:
        for part in message["content"]:
            if part["type"] == "text":
                part["text"] = part["text"].replace("<", "<" + SPACE)
    found = processor.apply_chat_template(
        messages,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"images_kwargs": PANNED} if kind == "gemma3_crops" else {},
    )
    model = getattr(transformers, CLASSES[kind] + "ForConditionalGeneration").from_pretrained(folder).eval()
    marks = list(SPACE.encode())
    mark = [processor.tokenizer.encode(SPACE, add_special_tokens=False)]
    assert len(mark[0]) == len(marks)
    ids = found["input_ids"][0].tolist()
    kept, i = [], 0
    while i < len(ids):
        if ids[i : i + len(mark[0])] == mark[0]:
            i += len(mark[0])
            continue
        kept.append(i)
        i += 1
    assert sum(text.count("<") for text in TEXTS) * len(mark[0]) == len(ids) - len(kept)
    by_token = "input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask"
    found = {key: value[:, kept] if key in by_token else value for key, value in found.items()}
    found.pop("num_crops", None)
    found.pop("labels", None)
    if not kind.startswith(("gemma3", "qwen", "paligemma")):
        found.pop("mm_token_type_ids", None)
        found.pop("token_type_ids", None)
    with torch.no_grad():
        written = model.generate(
            **found, max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0,
            suppress_tokens=list(IDS.values()),
        )  # fmt: skip
    return {"prompt": found["input_ids"][0].tolist(), "written": written[0, len(kept) :].tolist()}


PROMPTS = {"mllama": ("<|image|>If I", "If I <|image|>had <|image|>a", "<|image|><|image|>Compare <|image|>them")}


def continued(kind: str, folder: Path) -> list[Any]:
    """Prompts with pictures, the third of which is the first one, and 16 greedy tokens after each."""
    processor = processor_of(kind, folder)
    model = getattr(transformers, CLASSES[kind] + "ForConditionalGeneration").from_pretrained(folder).eval()
    shown = [Image.fromarray(photo(*size)) for size in SIZES]
    found = []
    for prompt in PROMPTS[kind]:
        inputs = processor(text=prompt, images=[*shown, shown[0]][: prompt.count("|image|")], return_tensors="pt")
        inputs.pop("token_type_ids", None)
        written = model.generate(
            **inputs, max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0,
            suppress_tokens=list(IDS.values()),
        )  # fmt: skip
        found.append([prompt, written[0, inputs["input_ids"].shape[1] :].tolist()])
    return found


def watched(kind: str, folder: Path) -> dict[str, Any]:
    """As golden, of a conversation about a video, by transformers' whole processor (which needs torchvision)."""
    write_video_chat_model(folder, kind)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    settings = {key: value for key, value in PROCESSORS[ALIKE.get(kind, kind)].items() if "type" not in key}
    told = ALIKE.get(kind, kind) == "qwen3_vl"
    name = "Qwen3VL" if told else "Qwen2VL"
    own = {key: value for key, value in WATCHES.items() if "type" not in key} if told else settings
    made = getattr(transformers, f"{'Qwen3VL' if told else CLASSES.get(kind, 'Qwen2_5_VL')}Processor")
    processor = made(
        transformers.Qwen2VLImageProcessorPil(**settings), tokenizer,
        getattr(transformers, f"{name}VideoProcessor")(do_sample_frames=False, cap_pixels_per_frame=False, **own),
        chat_template=json.loads((folder / "chat_template.json").read_text())["chat_template"],
    )  # fmt: skip
    count, *size = FRAMES
    frames = np.stack([photo(*size, seed) for seed in range(count)])
    text = processor.apply_chat_template(video_conversation(None, VIDEOS[kind]), add_generation_prompt=True)
    told = {"fps": VIDEOS[kind], "total_num_frames": count, "frames_indices": list(range(count))}
    found = processor(text=[text], videos=[frames], video_metadata=[told], return_tensors="pt")
    found.pop("video_metadata", None)
    model = getattr(transformers, CLASSES.get(kind, "Qwen2_5_VL") + "ForConditionalGeneration")
    model = model.from_pretrained(folder).eval()
    with torch.no_grad():
        written = model.generate(
            **found, max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0,
            suppress_tokens=list(IDS.values()),
        )  # fmt: skip
    ids = found["input_ids"][0].tolist()
    return {"prompt": ids, "written": written[0, len(ids) :].tolist()}


if __name__ == "__main__":
    if sys.argv[1:] == ["videos"]:
        target = Path(__file__).with_name("golden_picture_chat.json")
        with tempfile.TemporaryDirectory() as place:
            made = json.loads(target.read_text()) | {"videos": {k: watched(k, Path(place) / k) for k in VIDEOS}}
        target.write_text(json.dumps(made, separators=(",", ":")) + "\n")
        sys.exit()
    with tempfile.TemporaryDirectory() as place:
        made = {kind: golden(kind, Path(place) / kind) for kind in sys.argv[1:] or TEMPLATES | MORE}
        prompts = {kind: continued(kind, Path(place) / kind) for kind in made if kind in PROMPTS}
    target = Path(__file__).with_name("golden_picture_chat.json")
    known = json.loads(target.read_text()) if sys.argv[1:] else {}
    made = known | made | {"prompts": known.get("prompts", {}) | prompts}
    target.write_text(json.dumps(made, separators=(",", ":")) + "\n")
    print({kind: (len(made[kind]["prompt"]), made[kind]["written"]) for kind in sys.argv[1:] or TEMPLATES | MORE})
