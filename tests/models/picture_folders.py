"""Small folders of models of pictures as Hugging Face has them, with seeded weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyapp.formats.safetensors import write_safetensors
from tests.models.picture_configs import CONFIGS, WITH_TOKENS
from tests.models.test_pictures import make
from tests.tasks.test_texts import WORDS, tokenizer_json

CLASSES = {
    "deit": ("image-classification", "DeiTForImageClassification"),
    "deit_teacher": ("image-classification", "DeiTForImageClassificationWithTeacher"),
    "resnet": ("image-classification", "ResNetForImageClassification"),
    "yolos": ("object-detection", "YolosForObjectDetection"),
    "sam": ("mask-generation", "SamModel"),
    "sam2": ("mask-generation", "Sam2Model"),
    "blip": ("image-to-text", "BlipForConditionalGeneration"),
    "instructblip": ("image-to-text", "InstructBlipForConditionalGeneration"),
    "pix2struct": ("image-to-text", "Pix2StructForConditionalGeneration"),
    "florence2": ("image-to-text", "Florence2ForConditionalGeneration"),
    "detr": ("object-detection", "DetrForObjectDetection"),
    "segformer": ("semantic-segmentation", "SegformerForSemanticSegmentation"),
    "eomt": ("semantic-segmentation", "EomtForUniversalSegmentation"),
    "oneformer": ("semantic-segmentation", "OneFormerForUniversalSegmentation"),
    "depth_anything": ("depth-estimation", "DepthAnythingForDepthEstimation"),
    "clip": ("zero-shot-image-classification", "CLIPModel"),
    "vilt": ("visual-question-answering", "ViltForQuestionAnswering"),
    "superpoint": ("keypoint-detection", "SuperPointForKeypointDetection"),
    "lightglue_whole": ("keypoint-matching", "LightGlueForKeypointMatching"),
    "siglip": ("zero-shot-image-classification", "SiglipModel"),
    "owlv2": ("zero-shot-object-detection", "Owlv2ForObjectDetection"),
    "mm_grounding_dino": ("zero-shot-object-detection", "MMGroundingDinoForObjectDetection"),
    "sam3": ("zero-shot-object-detection", "Sam3Model"),
    "clipseg": ("zero-shot-semantic-segmentation", "CLIPSegForImageSegmentation"),
    "trocr": ("image-to-text", "VisionEncoderDecoderModel"),
}
_YOLOS = {"image_processor_type": "YolosImageProcessor", "size": {"shortest_edge": 32, "longest_edge": 64}}
PROCESSORS: dict[str, dict[str, Any]] = {
    "segformer": {"image_processor_type": "SegformerImageProcessor", "size": {"height": 32, "width": 32}},
    "eomt": {
        "image_processor_type": "EomtImageProcessor", "size": {"shortest_edge": 24, "longest_edge": None},
        "do_split_image": True,
    },
    "oneformer": {"image_processor_type": "OneFormerImageProcessor", "size": {"shortest_edge": 32, "longest_edge": 64}},
    "depth_anything": {
        "image_processor_type": "DPTImageProcessor", "size": {"height": 32, "width": 32}, "keep_aspect_ratio": True,
        "ensure_multiple_of": 4,
    },
    "sam": {
        "image_processor_type": "SamImageProcessor", "do_pad": True, "size": {"longest_edge": 20},
        "pad_size": {"height": 20, "width": 20},
    },
    "owlv2": {"image_processor_type": "Owlv2ImageProcessor", "size": {"height": 12, "width": 12}},
    "mm_grounding_dino": {"image_processor_type": "GroundingDinoImageProcessor", "do_resize": False},
    "sam2": {"image_processor_type": "Sam2ImageProcessorFast", "size": {"height": 32, "width": 32}},
    "sam3": {"image_processor_type": "Sam3ImageProcessor", "size": {"height": 24, "width": 24}},
    "clipseg": {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}},
    "superpoint": {"image_processor_type": "SuperPointImageProcessor", "size": {"height": 48, "width": 56}},
    "lightglue_whole": {"image_processor_type": "LightGlueImageProcessor", "size": {"height": 48, "width": 56}},
    "vilt": {"image_processor_type": "ViltImageProcessor", "size": {"shortest_edge": 12}, "size_divisor": 4},
    "pix2struct": {
        "image_processor_type": "Pix2StructImageProcessor", "is_vqa": True, "max_patches": 12, "patch_size": 4,
    },
    "yolos": _YOLOS,
    "detr": _YOLOS,
}  # fmt: skip


def phrases_json() -> str:
    """A tokenizer of the words of tests.tasks.test_texts as BERT's, whose special tokens have BERT's numbers."""
    numbers = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103, ".": 1012, "?": 1029}
    numbers |= {word: i for i, word in enumerate(WORDS[5:], 5)}
    found = json.loads(tokenizer_json())
    for token in found["added_tokens"]:
        token["id"] = numbers[token["content"]]
    for name, token in found["post_processor"]["special_tokens"].items():
        token["ids"] = [numbers[name]]
    found["normalizer"] = {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True,
    }  # fmt: skip
    found["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    found["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    found["model"] = {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": numbers,
    }  # fmt: skip
    return json.dumps(found)


def write_picture_folder(folder: Path, name: str) -> Path:
    """The folder of a model of CLASSES. Its tokenizer, if it has one, knows the words of tests.tasks.test_texts."""
    task, architecture = CLASSES[name]
    config = CONFIGS[name] | {"architectures": [architecture]}
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", make(name, task).state_dict())
    processor = PROCESSORS.get(name, {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}})
    if name == "sam":  # as newer files have it
        (folder / "processor_config.json").write_text(json.dumps({"image_processor": processor}))
    else:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    if task in WITH_TOKENS or name == "oneformer":
        (folder / "tokenizer.json").write_text(phrases_json() if name == "mm_grounding_dino" else tokenizer_json())
    if name == "instructblip":  # what its queries read has a tokenizer of its own, here with one special token more
        (folder / "qformer_tokenizer").mkdir(exist_ok=True)
        own = json.loads(tokenizer_json())
        own["post_processor"]["single"].append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
        (folder / "qformer_tokenizer" / "tokenizer.json").write_text(json.dumps(own))
    if task == "image-to-text":
        config |= {"decoder_start_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
        (folder / "generation_config.json").write_text(json.dumps({"max_new_tokens": 5}))
    (folder / "config.json").write_text(json.dumps(config))
    return folder
