"""Small configurations of every encoder, by name, as config.json has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import picture

_SIZES = {
    "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "max_position_embeddings": 24,
}  # fmt: skip
_LABELS = {"id2label": {"0": "no", "1": "perhaps", "2": "yes"}}

CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_SIZES, **_LABELS, "pad_token_id": 0},
    "bert_generation": {"model_type": "bert-generation", **_SIZES, "pad_token_id": 0},
    "jina_bert": {
        "model_type": "bert", **_SIZES, **_LABELS, "pad_token_id": 0, "position_embedding_type": "alibi",
        "feed_forward_type": "geglu",
    },
    "roberta": {"model_type": "roberta", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1},
    "xlm_roberta": {
        "model_type": "xlm-roberta", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1,
        "hidden_act": "gelu_new",
    },
    "distilbert": {
        "model_type": "distilbert", "vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24,
        "max_position_embeddings": 24, **_LABELS,
    },
    "mpnet": {"model_type": "mpnet", **_SIZES, **_LABELS, "pad_token_id": 1},
    "modernbert": {
        "model_type": "modernbert", **_SIZES, **_LABELS, "pad_token_id": 0, "local_attention": 4,
        "num_hidden_layers": 3, "global_attn_every_n_layers": 2,
    },
    "deberta_v3": {
        "model_type": "deberta-v2", **_SIZES, **_LABELS, "relative_attention": True, "position_buckets": 4,
        "max_relative_positions": -1, "pos_att_type": "p2c|c2p", "share_att_key": True, "norm_rel_ebd": "layer_norm",
        "position_biased_input": False, "type_vocab_size": 0,
    },
    "deberta_v2": {
        "model_type": "deberta-v2", **_SIZES, **_LABELS, "relative_attention": True, "position_buckets": -1,
        "pos_att_type": ["c2p", "p2c"], "conv_kernel_size": 3, "conv_act": "gelu", "type_vocab_size": 2,
    },
    "deberta": {
        "model_type": "deberta", **_SIZES, **_LABELS, "relative_attention": True, "max_relative_positions": 5,
        "pos_att_type": ["c2p", "p2c"], "position_biased_input": False,
    },
    "deberta_words": {"model_type": "deberta", **_SIZES, **_LABELS, "type_vocab_size": 2, "legacy": False},
    "ernie": {
        "model_type": "ernie", **_SIZES, **_LABELS, "pad_token_id": 0, "use_task_id": True, "task_type_vocab_size": 2,
    },
    "luke": {
        "model_type": "luke", **_SIZES, **_LABELS, "pad_token_id": 1, "entity_vocab_size": 9, "entity_emb_size": 8,
    },
    "luke_words": {
        "model_type": "luke", **_SIZES, **_LABELS, "pad_token_id": 1, "entity_vocab_size": 9, "entity_emb_size": 16,
        "use_entity_aware_attention": False,
    },
    "megatron_bert": {"model_type": "megatron-bert", **_SIZES, **_LABELS, "pad_token_id": 0},
    "data2vec_text": {"model_type": "data2vec-text", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1},
    "roberta_prelayernorm": {"model_type": "roberta-prelayernorm", **_SIZES, **_LABELS, "pad_token_id": 1},
    "xlm_roberta_xl": {"model_type": "xlm-roberta-xl", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1},
    "rembert": {
        "model_type": "rembert", **_SIZES, **_LABELS, "pad_token_id": 0, "input_embedding_size": 8,
        "output_embedding_size": 20,
    },
    "convbert": {
        "model_type": "convbert", **_SIZES, **_LABELS, "pad_token_id": 0, "embedding_size": 8, "conv_kernel_size": 3,
        "num_groups": 2, "hidden_act": "gelu_new",
    },
    "convbert_base": {
        "model_type": "convbert", **_SIZES, **_LABELS, "pad_token_id": 0, "embedding_size": 16, "conv_kernel_size": 5,
        "head_ratio": 8,
    },
    "nystromformer": {
        "model_type": "nystromformer", **_SIZES, **_LABELS, "pad_token_id": 1, "segment_means_seq_len": 4,
        "num_landmarks": 4, "conv_kernel_size": 5,
    },
    "nystromformer_landmarks": {
        "model_type": "nystromformer", **_SIZES, **_LABELS, "pad_token_id": 1, "segment_means_seq_len": 21,
        "num_landmarks": 7, "conv_kernel_size": 3,
    },
    "xmod": {
        "model_type": "xmod", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1,
        "languages": ["en_XX", "de_DE"], "default_language": "de_DE",
    },
    "xmod_before": {
        "model_type": "xmod", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1, "pre_norm": True,
        "languages": ["en_XX", "de_DE"], "default_language": "en_XX", "adapter_layer_norm": True,
        "ln_before_adapter": False,
    },
    "nomic_bert": {"model_type": "nomic_bert", **_SIZES, **_LABELS, "pad_token_id": 0},
    "nomic_moe": {
        "model_type": "nomic_bert", **_SIZES, **_LABELS, "pad_token_id": 0, "type_vocab_size": 1, "bias": True,
        "gated": False, "hidden_act": "gelu", "moe_every_n_layers": 2, "num_experts": 3, "moe_top_k": 2,
        "num_hidden_layers": 3,
    },
    "gte": {"model_type": "gte", **_SIZES, **_LABELS, "pad_token_id": 0, "type_vocab_size": 2},
    "eurobert": {
        "model_type": "eurobert", **_SIZES, **_LABELS, "pad_token_id": 0, "num_key_value_heads": 2, "mlp_bias": True,
        "tie_word_embeddings": True,
    },
    "eurobert_mean": {
        "model_type": "eurobert", **_SIZES, **_LABELS, "pad_token_id": 0, "classifier_pooling": "mean",
        "attention_bias": True,
    },
    "electra": {"model_type": "electra", **_SIZES, **_LABELS, "embedding_size": 8},
    "albert": {"model_type": "albert", **_SIZES, **_LABELS, "embedding_size": 8, "num_hidden_layers": 3},
    "albert_groups": {
        "model_type": "albert", **_SIZES, **_LABELS, "embedding_size": 8, "num_hidden_layers": 5,
        "num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "gelu",
    },
    "mobilebert": {
        "model_type": "mobilebert", **_SIZES, **_LABELS, "pad_token_id": 0, "embedding_size": 6,
        "intra_bottleneck_size": 8, "num_feedforward_networks": 2, "hidden_act": "relu",
    },
    "mobilebert_wide": {
        "model_type": "mobilebert", **_SIZES, **_LABELS, "pad_token_id": 0, "embedding_size": 6,
        "num_feedforward_networks": 1, "normalization_type": "layer_norm", "use_bottleneck": False,
        "classifier_activation": False, "trigram_input": False,
    },
    "squeezebert": {
        "model_type": "squeezebert", **_SIZES, **_LABELS, "pad_token_id": 0, "embedding_size": 16, "q_groups": 2,
        "post_attention_groups": 2, "output_groups": 2, "intermediate_groups": 4,
    },
    "dpr": {"model_type": "dpr", **_SIZES, "pad_token_id": 0, "projection_dim": 8},
    "roformer": {
        "model_type": "roformer", **_SIZES, **_LABELS, "pad_token_id": 0, "embedding_size": 8, "rotary_value": True,
    },
    "fnet": {"model_type": "fnet", **_SIZES, **_LABELS, "pad_token_id": 0, "type_vocab_size": 2},
    "longformer": {
        "model_type": "longformer", **_SIZES, **_LABELS, "pad_token_id": 1, "sep_token_id": 3,
        "attention_window": [4, 8], "max_position_embeddings": 26,
    },
    "big_bird": {
        "model_type": "big_bird", **_SIZES, **_LABELS, "pad_token_id": 0, "sep_token_id": 7, "block_size": 2,
        "num_random_blocks": 1, "rescale_embeddings": True, "use_bias": False,
    },
    "jina_embeddings_v3": {
        "model_type": "jina_embeddings_v3", **_SIZES, **_LABELS, "pad_token_id": 1, "rope_theta": 200.0,
    },
    "esm": {
        "model_type": "esm", **_SIZES, **_LABELS, "pad_token_id": 1, "mask_token_id": 11, "token_dropout": True,
        "position_embedding_type": "rotary", "rope_theta": 100.0,
    },
    "esm_learned": {
        "model_type": "esm", **_SIZES, **_LABELS, "pad_token_id": 1, "emb_layer_norm_before": True,
    },
    "xlnet": {
        "model_type": "xlnet", "vocab_size": 40, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24, **_LABELS,
        "pad_token_id": 5, "clamp_len": 4,
    },
    "xlm": {
        "model_type": "xlm", "vocab_size": 40, "emb_dim": 16, "n_layers": 2, "n_heads": 4, "n_langs": 3, **_LABELS,
        "max_position_embeddings": 12, "summary_activation": "tanh", "gelu_activation": False,
    },
    "flaubert": {
        "model_type": "flaubert", "vocab_size": 40, "emb_dim": 16, "n_layers": 1, "n_heads": 2, "pre_norm": True,
        "causal": True, "max_position_embeddings": 12, **_LABELS,
    },
    "canine": {
        "model_type": "canine", **_SIZES, **_LABELS, "downsampling_rate": 2, "upsampling_kernel_size": 4,
        "num_hash_functions": 4, "num_hash_buckets": 30, "local_transformer_stride": 4, "type_vocab_size": 2,
    },
    "layoutlm": {"model_type": "layoutlm", **_SIZES, **_LABELS, "pad_token_id": 0},
    "lilt": {
        "model_type": "lilt", **_SIZES, **_LABELS, "hidden_size": 24, "channel_shrink_ratio": 2, "pad_token_id": 0,
    },
    "layoutlmv2": {
        "model_type": "layoutlmv2", **_SIZES, **_LABELS, "coordinate_size": 3, "shape_size": 2, "rel_pos_bins": 8,
        "max_rel_pos": 4, "rel_2d_pos_bins": 16, "max_rel_2d_pos": 300, "image_feature_pool_shape": [2, 3, 6],
        "has_visual_segment_embedding": True, "input_size": 32, "detectron2_config_args": {
            "MODEL.RESNETS.DEPTH": 50, "MODEL.RESNETS.NUM_GROUPS": 2, "MODEL.RESNETS.WIDTH_PER_GROUP": 2,
            "MODEL.RESNETS.STEM_OUT_CHANNELS": 4, "MODEL.RESNETS.RES2_OUT_CHANNELS": 6,
            "MODEL.PIXEL_STD": [57.375, 57.12, 58.395],
        },
    },
    "layoutlmv3": {
        "model_type": "layoutlmv3", **_SIZES, **_LABELS, "coordinate_size": 3, "shape_size": 2, "input_size": 12,
        "patch_size": 4, "rel_pos_bins": 8, "max_rel_pos": 4, "rel_2d_pos_bins": 16, "max_rel_2d_pos": 300,
    },
    "layoutlmv3_words": {
        "model_type": "layoutlmv3", **_SIZES, "coordinate_size": 3, "shape_size": 2, "visual_embed": False,
        "has_spatial_attention_bias": False, "id2label": {str(i): f"B-{i}" for i in range(12)},
    },
    "splinter": {"model_type": "splinter", **_SIZES, "pad_token_id": 0, "question_token_id": 11},
    "yoso": {"model_type": "yoso", **_SIZES, **_LABELS, "hash_code_len": 5, "conv_window": 3},
    "bros": {"model_type": "bros", **_SIZES, **_LABELS, "hidden_size": 64, "pad_token_id": 0},
    "tapas": {
        "model_type": "tapas", **_SIZES, **_LABELS, "type_vocab_sizes": [3, 5, 6, 2, 5, 5, 10],
        "num_aggregation_labels": 4, "temperature": 0.7, "max_num_columns": 5, "max_num_rows": 6,
        "aggregation_labels": {"0": "NONE", "1": "SUM", "2": "AVERAGE", "3": "COUNT"}, "no_aggregation_label_index": 0,
    },
    "markuplm": {
        "model_type": "markuplm", **_SIZES, **_LABELS, "pad_token_id": 1, "max_xpath_tag_unit_embeddings": 7,
        "max_xpath_subs_unit_embeddings": 6, "tag_pad_id": 6, "subs_pad_id": 5, "xpath_unit_hidden_size": 3,
        "max_depth": 4,
    },
    "neobert": {"model_type": "neobert", **_SIZES, **_LABELS, "norm_eps": 1e-5, "max_length": 24},
    "funnel": {
        "model_type": "funnel", "vocab_size": 40, "block_sizes": [1, 2, 1], "num_decoder_layers": 1, "d_model": 16,
        "n_head": 2, "d_head": 6, "d_inner": 24, **_LABELS,
    },
    "funnel_factorized": {
        "model_type": "funnel", "vocab_size": 40, "block_sizes": [1, 1], "block_repeats": [1, 2], "d_model": 16,
        "n_head": 4, "d_head": 4, "d_inner": 24, "num_decoder_layers": 1, **_LABELS, "pooling_type": "max",
        "attention_type": "factorized", "truncate_seq": False, "pool_q_only": False,
    },
    "ibert": {"model_type": "ibert", **_SIZES, **_LABELS, "pad_token_id": 1, "type_vocab_size": 1},
    "esmc": {"model_type": "esmc", **_SIZES, **_LABELS, "pad_token_id": 1},
    "ultrabert": {
        "model_type": "ultrabert", **_SIZES, **_LABELS, "pad_token_id": 0, "sliding_window": 2,
        "num_key_value_heads": 2, "prediction_head_size": 12, "layer_types": ["sliding_attention", "full_attention"],
    },
    "embedding_gemma2": {
        "model_type": "embedding_gemma2_text", **_SIZES, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "head_dim": 4, "global_head_dim": 6, "num_global_key_value_heads": 1, "sliding_window": 2,
        "sliding_window_pattern": 2, "hidden_size_per_layer_input": 8, "embedding_dim": 12, "pad_token_id": 0,
    },
    "openai_privacy_filter": {
        "model_type": "openai_privacy_filter", **_SIZES, "pad_token_id": 0, "num_key_value_heads": 2, "head_dim": 6,
        "sliding_window": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
    },
}  # fmt: skip
# Forms of an architecture of which another one runs with weights in block types, and on another device.
_ALIKE = (
    "deberta_words", "data2vec_text", "xlm_roberta_xl", "roberta_prelayernorm", "convbert_base", "ernie", "luke_words",
    "nystromformer", "xmod_before", "ibert", "splinter", "yoso", "funnel_factorized", "bert_generation",
)  # fmt: skip
QUANTISED = tuple(name for name in CONFIGS if name not in _ALIKE)  # run with weights in block types
OTHER_DEVICE = tuple(
    name for name in QUANTISED if name not in ("roberta", "deberta_v2", "dpr", "esm_learned", "layoutlmv3_words")
)  # run on another device
# Fields with which rows are whole blocks.
_WIDE = {"hidden_size": 32, "intermediate_size": 64}
WIDE = dict.fromkeys(CONFIGS, _WIDE) | {
    "distilbert": {"dim": 32, "hidden_dim": 64}, "xlnet": {"d_model": 32, "d_inner": 64},
    "squeezebert": _WIDE | {"embedding_size": 32}, "xlm": {"emb_dim": 32}, "flaubert": {"emb_dim": 32},
    "embedding_gemma2": {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1},
    "lilt": {"hidden_size": 96, "intermediate_size": 64}, "bros": {"hidden_size": 128, "intermediate_size": 64},
    **dict.fromkeys(("funnel", "funnel_factorized"), {"d_model": 32, "d_inner": 64, "d_head": 16}),
    **dict.fromkeys(("layoutlmv2", "layoutlmv3", "layoutlmv3_words"), _WIDE | {"coordinate_size": 6, "shape_size": 4}),
}  # fmt: skip
# Run as GGUF files, with these fields: what llama.cpp has of an architecture.
IN_GGUF: dict[str, dict[str, Any]] = {
    name: WIDE[name] for name in ("bert", "xlm_roberta", "distilbert", "nomic_bert", "modernbert")
}
IN_GGUF["xlm_roberta"] = _WIDE | {"hidden_act": "gelu"}
IN_GGUF["nomic_moe"] = _WIDE | {"expert_bias": False}
IN_GGUF |= {"jina_bert": _WIDE, "jina_embeddings_v3": _WIDE, "eurobert": _WIDE | {"mlp_bias": False}}
# The reference adds the biases by distance to the mask, which a head for multiple choice does not take; the heads of
# Funnel-Transformer are the same in all its forms.
MASKED = (
    ("jina_bert", "multiple-choice"),
    *((name, "multiple-choice") for name in ("deberta", "deberta_words")),  # which transformers does not have
    *(("funnel_factorized", f"{task}-classification") for task in ("sequence", "token")),
    *(("funnel_factorized", task) for task in ("replaced-tokens", "question-answering", "multiple-choice")),
    ("funnel_factorized", "masked-lm"),
)
# Tokens of two texts, the second with padding at its end.
IDS = [[2, 7, 30, 11, 5, 9, 3], [2, 21, 6, 3]]
LENGTH = 7


def batch(config: dict[str, Any]) -> tuple[list[list[int]], list[list[int]], Any]:
    """(ids, attention mask, type ids or None if the architecture has none). A token of TAPAS has seven types."""
    padding = config.get("pad_token_id") or 0
    # Long enough to be read in blocks, or of the only length with landmarks.
    times = 3 if "num_random_blocks" in config or config.get("num_landmarks") == LENGTH else 1
    texts = [[2, 7, 3, 3, 5, 9, 3], [2, 3, 3, 3]] if "attention_window" in config else IDS  # a question and a text
    length = times * LENGTH
    ids = [row * times + [padding] * (length - times * len(row)) for row in texts]
    mask = [[1] * (times * len(row)) + [0] * (length - times * len(row)) for row in texts]
    if config["model_type"] == "xlnet":  # which reads the last token, and has padding before the text
        ids, mask = (
            [row[count:] + row[:count] for row, count in zip(rows, (7, 4), strict=True)] for rows in (ids, mask)
        )
    if config["model_type"] == "tapas":  # a question, the names of two columns, and two cells
        cells = [(0, 0, 0), (0, 0, 0), (1, 1, 0), (1, 2, 0), (1, 1, 1), (1, 1, 1), (1, 2, 1)]
        typed = [[*cell, 0, i % 3, 2 * (i % 2), i] for i, cell in enumerate(cells)]
        return ids, mask, [typed, [*typed[1:3], *typed[5:], *[[0] * 7] * 3]]
    types = [[0] * 4 + [1] * (length - 4)] * 2 if config.get("type_vocab_size", 2) != 1 else [[0] * length] * 2
    return ids, mask, types if config["model_type"] in TYPED else None


TYPED = (
    "albert", "bert", "big_bird", "canine", "convbert", "deberta", "deberta-v2", "dpr", "electra", "ernie", "fnet",
    "bros", "funnel", "gte", "layoutlm", "layoutlmv2", "layoutlmv3", "lilt", "luke", "markuplm", "megatron-bert",
    "mobilebert", "nomic_bert", "nystromformer", "rembert", "roberta", "roformer", "squeezebert", "xlm-roberta",
    "xlnet",
)  # fmt: skip


def page(config: dict[str, Any]) -> tuple[Any, ...]:
    """The boxes (2, T, 4) of the words of `batch`, and the picture's pixels (2, 3, H, W), for encoders of pages. For
    those of entities: these (2, E) and the places of their words (2, E, M).
    """
    if config["model_type"] == "luke":
        places = [[[2, 3, -1], [4, -1, -1]], [[1, 2, -1], [-1, -1, -1]]]
        return np.array([[5, 8], [2, 0]], np.int32), np.array(places, np.int32)
    if config["model_type"] == "markuplm":  # tags of paths, and their numbers
        units = np.arange(2 * LENGTH * 4).reshape(2, LENGTH, 4)
        return (units * 5 % 7).astype(np.int32), (units * 3 % 6).astype(np.int32)
    if config["model_type"] not in PAGES:
        return ()
    boxes = np.zeros((2, LENGTH, 4), np.int32)
    for row, count in enumerate((7, 4)):
        for i in range(1, count - 1):
            boxes[row, i] = [90 * i, 40 * row + 17 * i * i, 90 * i + 70, 40 * row + 17 * i * i + 25]
    side = config.get("input_size")
    return (boxes,) if side is None else (boxes, picture(2, side, side))


PAGES = ("bros", "layoutlm", "layoutlmv2", "layoutlmv3", "lilt")
