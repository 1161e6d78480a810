"""Small configurations of every model of pictures, by name, as config.json has them."""

from __future__ import annotations

from typing import Any

_SIZES = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "image_size": 12,
    "patch_size": 4,
}  # fmt: skip
_LABELS = {"id2label": {"0": "no", "1": "perhaps", "2": "yes"}}
_TROCR = {
    "model_type": "trocr", "vocab_size": 40, "d_model": 12, "decoder_layers": 2, "decoder_attention_heads": 3,
    "decoder_ffn_dim": 20, "max_position_embeddings": 16,
}  # fmt: skip
_WORDS = {
    "vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
    "max_position_embeddings": 8,
}  # fmt: skip

_QUERIES = {
    "num_queries": 5,
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 24,
}

_DINOV2 = {
    "model_type": "dinov2", **_SIZES, "num_hidden_layers": 3, "mlp_ratio": 2, "reshape_hidden_states": False,
}  # fmt: skip
_DEPTH = {
    "patch_size": 4, "reassemble_hidden_size": 16, "neck_hidden_sizes": [6, 8, 10, 12], "fusion_hidden_size": 8,
    "head_hidden_size": 5,
}  # fmt: skip
_ZOE = {
    "backbone_config": {
        "model_type": "beit", **_SIZES, "image_size": 16, "num_hidden_layers": 3, "use_relative_position_bias": True,
        "reshape_hidden_states": False, "out_features": ["stem", "stage1", "stage2", "stage3"],
    },
    "neck_hidden_sizes": [6, 8, 8, 10], "fusion_hidden_size": 8, "num_relative_features": 5, "bottleneck_features": 8,
    "bin_embedding_dim": 6, "num_attractors": [4, 3, 2, 1],
    "bin_configurations": [{"n_bins": 5, "min_depth": 0.1, "max_depth": 4.0}],
}  # fmt: skip
_VITPOSE = {
    "model_type": "vitpose_backbone", **_SIZES, "image_size": [24, 16], "patch_size": [8, 8], "mlp_ratio": 2,
    "out_indices": [2],
}  # fmt: skip
_RT_DETR = {
    "model_type": "rt_detr",
    **_LABELS,
    "encoder_hidden_dim": 8,
    "encoder_in_channels": [16, 24, 32],
    "encoder_ffn_dim": 12,
    "encoder_attention_heads": 2,
    "d_model": 16,
    "decoder_in_channels": [8, 8, 8],
    "decoder_ffn_dim": 20,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "num_queries": 6,
    "num_denoising": 0,
}
_HGNET = {
    "model_type": "hgnet_v2", "stem_channels": [3, 6, 8], "stage_in_channels": [8, 10, 12],
    "stage_mid_channels": [4, 4, 6], "stage_out_channels": [10, 12, 16], "hidden_sizes": [10, 12, 16],
    "depths": [1, 2, 1], "stage_num_blocks": [1, 2, 1], "stage_numb_of_layers": [2, 1, 2],
    "stage_downsample": [False, True, True], "stage_downsample_strides": [2, 2, 2],
    "stage_light_block": [False, False, True], "stage_kernel_size": [3, 3, 5],
}  # fmt: skip
_DEFORMABLE = {
    "model_type": "deformable_detr", **_LABELS, "d_model": 32, "num_queries": 5, "encoder_layers": 1,
    "decoder_layers": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 16, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "num_feature_levels": 3, "backbone_config": {
        "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 16, 24], "depths": [1, 1, 1],
        "out_features": ["stage2", "stage3"],
    },
}  # fmt: skip
_GROUNDED = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "num_queries": 6,
    "num_feature_levels": 4, "max_text_len": 16,
    "backbone_config": {
        "model_type": "swin", "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1, 1],
        "num_heads": [2, 2, 2], "window_size": 3, "mlp_ratio": 2, "out_features": ["stage2", "stage3"],
    },
    "text_config": _WORDS | {"model_type": "bert", "vocab_size": 1032, "max_position_embeddings": 16},
}  # fmt: skip
_T5 = {
    "num_query_tokens": 3, "image_token_index": 39, "vision_config": _SIZES, "qformer_config": {
        "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "vocab_size": 40,
        "max_position_embeddings": 12,
    }, "text_config": {
        "model_type": "t5", "vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 3,
        "feed_forward_proj": "gated-gelu", "eos_token_id": 5,
    },
}  # fmt: skip

_PIX2STRUCT = {
    "model_type": "pix2struct", "vision_config": {
        "hidden_size": 16, "patch_embed_hidden_size": 48, "d_ff": 20, "d_kv": 5, "num_hidden_layers": 2,
        "num_attention_heads": 3, "seq_len": 9,
    }, "text_config": {
        "vocab_size": 40, "hidden_size": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "eos_token_id": 5,
    },
}  # fmt: skip
_SAM3_PART = {"hidden_size": 16, "num_layers": 2, "num_attention_heads": 4, "intermediate_size": 20, "num_queries": 5}

CONFIGS: dict[str, dict[str, Any]] = {
    "pix2struct": _PIX2STRUCT,
    "bit": {
        "model_type": "bit", **_LABELS, "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [2, 1],
        "num_groups": 4, "global_padding": "same", "embedding_dynamic_padding": True,
    },
    "bit_bottleneck": {
        "model_type": "bit", **_LABELS, "embedding_size": 8, "hidden_sizes": [8, 16, 32], "depths": [1, 2, 2],
        "num_groups": 2, "layer_type": "bottleneck", "output_stride": 8,
    },
    "focalnet": {
        "model_type": "focalnet", **_LABELS, "patch_size": 4, "embed_dim": 8, "depths": [2, 1],
        "focal_levels": [2, 3], "focal_windows": [3, 5], "mlp_ratio": 2.0,
    },
    "focalnet_late": {
        "model_type": "focalnet", **_LABELS, "embed_dim": 8, "depths": [1, 1], "focal_levels": [1, 2],
        "focal_windows": [3, 3], "use_conv_embed": True, "use_layerscale": True, "use_post_layernorm": True,
        "use_post_layernorm_in_modulation": True, "normalize_modulator": True,
    },
    "swiftformer": {
        "model_type": "swiftformer", **_LABELS, "depths": [2, 1, 2], "embed_dims": [8, 8, 12], "mlp_ratio": 2,
        "downsamples": [False, True, True],
    },
    "cvt": {
        "model_type": "cvt", **_LABELS, "embed_dim": [6, 8, 12], "num_heads": [1, 2, 3], "depth": [1, 2, 3],
        "mlp_ratio": [2.0, 2.5, 3.0], "qkv_bias": [True, False, True], "kernel_qkv": [3, 5, 3],
        "padding_q": [1, 2, 1], "padding_kv": [0, 2, 1], "stride_kv": [2, 2, 1],
    },
    "pvt": {
        "model_type": "pvt", **_LABELS, "num_labels": 3, "image_size": 32, "hidden_sizes": [8, 12], "depths": [1, 2],
        "num_attention_heads": [2, 3], "mlp_ratios": [2, 3], "sequence_reduction_ratios": [2, 1],
        "patch_sizes": [4, 2], "strides": [4, 2], "num_encoder_blocks": 2,
    },
    "sam3": {
        "model_type": "sam3", "vision_config": {
            "fpn_hidden_size": 16, "backbone_config": {
                "model_type": "sam3_vit_model", **_SIZES, "image_size": 24, "num_hidden_layers": 3, "window_size": 4,
                "global_attn_indexes": [1], "pretrain_image_size": 16,
            },
        }, "text_config": _WORDS | {"model_type": "clip_text_model", "eos_token_id": 5, "projection_dim": 7},
        "geometry_encoder_config": _SAM3_PART | {"num_layers": 1, "roi_size": 3}, "detr_encoder_config": _SAM3_PART,
        "detr_decoder_config": _SAM3_PART, "mask_decoder_config": {"hidden_size": 16, "num_attention_heads": 4},
    },
    "vit": {"model_type": "vit", **_SIZES, **_LABELS, "image_size": [12, 8], "pooler_output_size": 10},
    "videomae": {"model_type": "videomae", **_SIZES, **_LABELS, "image_size": [12, 8], "num_frames": 4},
    "videomae_first": {
        "model_type": "videomae", **_SIZES, **_LABELS, "num_frames": 2, "qv_bias": False, "use_mean_pooling": False,
    },
    "vivit": {"model_type": "vivit", **_SIZES, **_LABELS, "num_frames": 4, "tubelet_size": [2, 4, 4]},
    "timesformer": {"model_type": "timesformer", **_SIZES, **_LABELS, "num_frames": 3},
    "timesformer_joint": {
        "model_type": "timesformer", **_SIZES, **_LABELS, "num_frames": 2, "attention_type": "joint_space_time",
        "qkv_bias": False,
    },
    "vjepa2": {
        "model_type": "vjepa2", **_LABELS, "patch_size": 4, "hidden_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 4, "crop_size": 12, "frames_per_clip": 4,
        "mlp_ratio": 2.0, "num_pooler_layers": 2, "pred_hidden_size": 12, "pred_num_attention_heads": 2,
        "pred_num_hidden_layers": 1,
    },
    "deit": {"model_type": "deit", **_SIZES, **_LABELS},
    "deit_teacher": {"model_type": "deit", **_SIZES, **_LABELS, "qkv_bias": False},
    "beit": {"model_type": "beit", **_SIZES, **_LABELS, "use_relative_position_bias": True},
    "beit_shared": {
        "model_type": "beit", **_SIZES, **_LABELS, "use_shared_relative_position_bias": True,
        "use_absolute_position_embeddings": True, "use_mean_pooling": False, "layer_scale_init_value": 0.0,
    },
    "data2vec": {
        "model_type": "data2vec-vision", **_SIZES, **_LABELS, "use_relative_position_bias": True,
        "use_shared_relative_position_bias": True,
    },
    "vit_msn": {"model_type": "vit_msn", **_SIZES, **_LABELS},
    "ijepa": {"model_type": "ijepa", **_SIZES, **_LABELS, "image_size": [12, 8]},
    "vit_mae": {
        "model_type": "vit_mae", **_SIZES, "mask_ratio": 0.0, "decoder_hidden_size": 8, "decoder_num_hidden_layers": 1,
    },
    "poolformer": {
        "model_type": "poolformer", "hidden_sizes": [8, 12], "depths": [1, 2], "patch_sizes": [7, 3],
        "strides": [4, 2], "padding": [2, 1], "num_encoder_blocks": 2, "mlp_ratio": 2.0, **_LABELS,
    },
    "mobilevit": {
        "model_type": "mobilevit", "hidden_sizes": [8, 12, 8], "neck_hidden_sizes": [4, 6, 6, 8, 8, 10, 12],
        "expand_ratio": 1.5, "num_attention_heads": 2, **_LABELS,
    },
    "mobilevit_dilated": {
        "model_type": "mobilevit", "hidden_sizes": [8, 4, 8], "neck_hidden_sizes": [4, 8, 8, 8, 6, 8, 6],
        "expand_ratio": 1.0, "num_attention_heads": 2, "output_stride": 8, "qkv_bias": False, **_LABELS,
    },
    "mobilevitv2": {
        "model_type": "mobilevitv2", "width_multiplier": 0.25, "base_attn_unit_dims": [32, 64, 32],
        "n_attn_blocks": [1, 2, 1], "expand_ratio": 1.5, **_LABELS,
    },
    "mobilevitv2_dilated": {
        "model_type": "mobilevitv2", "width_multiplier": 0.25, "base_attn_unit_dims": [32, 32, 64],
        "n_attn_blocks": [1, 1, 1], "output_stride": 8, "expand_ratio": 1.0, **_LABELS,
    },
    "levit": {
        "model_type": "levit", "image_size": 80, "hidden_sizes": [16, 24, 20], "num_attention_heads": [2, 3, 2],
        "depths": [1, 2, 1], "key_dim": [8, 8, 8], "attention_ratio": [2, 1, 2], **_LABELS,
    },
    "levit_teacher": {
        "model_type": "levit", "image_size": 48, "hidden_sizes": [16, 16, 24], "num_attention_heads": [2, 2, 3],
        "depths": [1, 1, 1], "key_dim": [4, 6, 8], "mlp_ratio": [1, 2, 3], **_LABELS,
    },
    "pvt_v2": {
        "model_type": "pvt_v2", "hidden_sizes": [8, 12], "depths": [1, 2], "patch_sizes": [7, 3], "strides": [4, 2],
        "num_attention_heads": [1, 3], "mlp_ratios": [2, 3], "sr_ratios": [2, 1], "num_encoder_blocks": 2, **_LABELS,
    },
    "pvt_v2_linear": {
        "model_type": "pvt_v2", "hidden_sizes": [8], "depths": [1], "patch_sizes": [3], "strides": [2],
        "num_attention_heads": [2], "mlp_ratios": [2], "sr_ratios": [2], "num_encoder_blocks": 1,
        "linear_attention": True, "qkv_bias": False, **_LABELS,
    },
    "dinov3_convnext": {"model_type": "dinov3_convnext", "hidden_sizes": [8, 12], "depths": [1, 2]},
    "swinv2": {
        "model_type": "swinv2", "image_size": 24, "patch_size": 2, "embed_dim": 8, "depths": [2, 2],
        "num_heads": [2, 4], "window_size": 4, "mlp_ratio": 2.0, **_LABELS,
    },
    "swinv2_finer": {
        "model_type": "swinv2", "image_size": [16, 24], "patch_size": 2, "embed_dim": 8, "depths": [1, 2],
        "num_heads": [2, 2], "window_size": 6, "pretrained_window_sizes": [3, 3], "qkv_bias": False, **_LABELS,
    },
    "dinov2": {"model_type": "dinov2", **_SIZES, **_LABELS, "mlp_ratio": 2, "use_mask_token": True},
    "dinov2_gated": {"model_type": "dinov2", **_SIZES, **_LABELS, "mlp_ratio": 2, "use_swiglu_ffn": True},
    "radio": {
        "model_type": "radio", **_SIZES, "mlp_ratio": 2.0, "num_cls_tokens": 3, "num_registers": 2, "max_img_size": 24,
        "norm_mean": [0.5, 0.4, 0.3], "norm_std": [2.0, 3.0, 2.5],
    },
    "dinov2_with_registers": {
        "model_type": "dinov2_with_registers", **_SIZES, **_LABELS, "mlp_ratio": 2, "num_register_tokens": 3,
    },
    "depth_anything": {
        "model_type": "depth_anything", **_DEPTH, "backbone_config": _DINOV2 | {"out_indices": [0, 1, 2, 3]},
    },
    "depth_anything_metric": {
        "model_type": "depth_anything", **_DEPTH, "depth_estimation_type": "metric", "max_depth": 20,
        "head_in_index": 1, "reassemble_factors": [1, 0.5], "neck_hidden_sizes": [6, 8],
        "backbone_config": _DINOV2 | {"out_features": ["stage1", "stage3"], "apply_layernorm": False},
    },
    "prompt_depth_anything": {
        "model_type": "prompt_depth_anything", **_DEPTH, "backbone_config": _DINOV2 | {"out_indices": [0, 1, 2, 3]},
    },
    "depth_pro": {
        "model_type": "depth_pro", "patch_size": 12, "fusion_hidden_size": 8, "intermediate_hook_ids": [1, 0],
        "intermediate_feature_dims": [6, 8], "scaled_images_ratios": [0.5, 1],
        "scaled_images_overlap_ratios": [0.0, 0.5], "scaled_images_feature_dims": [10, 6], "merge_padding_value": 1,
        "use_fov_model": True, "num_fov_head_layers": 1,
        **dict.fromkeys(("image_model_config", "patch_model_config", "fov_model_config"),
                        {"model_type": "dinov2", **_SIZES, "mlp_ratio": 2, "num_hidden_layers": 3}),
    },
    "zoedepth": {"model_type": "zoedepth", **_ZOE, "attractor_kind": "sum"},
    "zoedepth_heads": {
        "model_type": "zoedepth", **_ZOE, "bin_centers_type": "normed", "max_temp": 9.0,
        "bin_configurations": [
            {"name": "in", "n_bins": 5, "min_depth": 0.1, "max_depth": 4.0},
            {"name": "out", "n_bins": 6, "min_depth": 0.2, "max_depth": 9.0},
        ], "num_patch_transformer_layers": 4, "patch_transformer_hidden_size": 128,
        "patch_transformer_intermediate_size": 6, "patch_transformer_num_attention_heads": 2,
    },
    "vitpose": {"model_type": "vitpose", **_LABELS, "backbone_config": _VITPOSE},
    "vitpose_plus": {
        "model_type": "vitpose", **_LABELS, "use_simple_decoder": False,
        "backbone_config": _VITPOSE | {"num_experts": 2, "part_features": 4},
    },
    "dinov3_vit": {"model_type": "dinov3_vit", **_SIZES, "num_register_tokens": 2, "use_gated_mlp": True,
                   "hidden_act": "silu"},
    "dpt": {
        "model_type": "dpt", **_SIZES, **_LABELS, "backbone_out_indices": [0, 1], "reassemble_factors": [2, 0.5],
        "neck_hidden_sizes": [6, 8], "fusion_hidden_size": 8, "use_batch_norm_in_fusion_residual": True,
    },
    "upernet": {
        "model_type": "upernet", "hidden_size": 8, "pool_scales": [1, 2], "auxiliary_channels": 4, **_LABELS,
        "backbone_config": {
            "model_type": "convnext", "patch_size": 4, "hidden_sizes": [8, 12, 16], "depths": [1, 1, 1],
            "num_stages": 3, "out_features": ["stage1", "stage2", "stage3"],
        },
        "auxiliary_in_channels": 16,
    },
    "mask2former": {
        "model_type": "mask2former", "feature_size": 32, "mask_feature_size": 8, "hidden_dim": 16,
        "encoder_feedforward_dim": 12, "encoder_layers": 1, "decoder_layers": 3, "num_attention_heads": 2,
        "dim_feedforward": 12, "num_queries": 5, **_LABELS,
        "backbone_config": {
            "model_type": "swin", "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1, 1, 1],
            "num_heads": [2, 2, 2, 2], "window_size": 2, "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    },
    "eomt": {
        "model_type": "eomt", **_LABELS, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
        "image_size": 24, "patch_size": 4, "num_blocks": 2, "num_queries": 5, "num_register_tokens": 2, "mlp_ratio": 2,
        "num_upscale_blocks": 1,
    },
    "maskformer": {
        "model_type": "maskformer", "fpn_feature_size": 32, "mask_feature_size": 8, **_LABELS,
        "decoder_config": _QUERIES | {"model_type": "detr", "d_model": 16, "decoder_attention_heads": 4},
        "backbone_config": {
            "model_type": "swin", "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1, 2, 1],
            "num_heads": [2, 2, 2, 2], "window_size": 2, "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    },
    "maskformer_resnet": {
        "model_type": "maskformer", "fpn_feature_size": 32, "mask_feature_size": 12, **_LABELS,
        "decoder_config": _QUERIES | {"model_type": "detr", "d_model": 24, "num_queries": 4},
        "backbone_config": {
            "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 12, 16, 24], "depths": [1, 1, 1, 1],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    },
    "oneformer": {
        "model_type": "oneformer", "conv_dim": 32, "hidden_dim": 32, "mask_dim": 32, "encoder_feedforward_dim": 12,
        "encoder_layers": 1, "decoder_layers": 3, "num_attention_heads": 4, "dim_feedforward": 12, "num_queries": 5,
        "query_dec_layers": 2, "task_seq_len": 6, **_LABELS,
        "backbone_config": {
            "model_type": "swin", "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1, 1, 1],
            "num_heads": [2, 2, 2, 2], "window_size": 2, "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    },
    "upernet_swin": {
        "model_type": "upernet", "hidden_size": 8, "pool_scales": [1], "use_auxiliary_head": False, **_LABELS,
        "backbone_config": {
            "model_type": "swin", "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 1],
            "num_heads": [2, 2], "window_size": 3, "out_features": ["stage1", "stage2"],
        },
    },
    "convnext": {
        "model_type": "convnext", "patch_size": 4, "hidden_sizes": [8, 12, 32], "depths": [1, 2, 1], "num_stages": 3,
        **_LABELS,
    },
    "convnextv2": {
        "model_type": "convnextv2", "patch_size": 4, "hidden_sizes": [8, 32], "depths": [2, 1], "num_stages": 2,
        **_LABELS,
    },
    "regnet": {
        "model_type": "regnet", "embedding_size": 6, "hidden_sizes": [8, 16, 32], "depths": [1, 2, 1],
        "groups_width": 4, **_LABELS,
    },
    "regnet_x": {
        "model_type": "regnet", "embedding_size": 8, "hidden_sizes": [8, 12], "depths": [2, 1], "groups_width": 16,
        "layer_type": "x", "downsample_in_first_stage": False, "hidden_act": "gelu", **_LABELS,
    },
    "resnet": {
        "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 16, 32], "depths": [1, 2, 1], "num_stages": 3,
        "hidden_act": "gelu", **_LABELS,
    },
    "resnet_basic": {
        "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [6, 12], "depths": [2, 1], "num_stages": 2,
        "layer_type": "basic", "downsample_in_first_stage": True, **_LABELS,
    },
    "resnet_early": {
        "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2,
        "downsample_in_bottleneck": True, **_LABELS,
    },
    "mobilenet_v1": {"model_type": "mobilenet_v1", "depth_multiplier": 0.0625, "min_depth": 4, **_LABELS},
    "mobilenet_v1_plain": {"model_type": "mobilenet_v1", "depth_multiplier": 0.03, "min_depth": 2, "tf_padding": False,
                           **_LABELS},
    "mobilenet_v2": {"model_type": "mobilenet_v2", "depth_multiplier": 0.1, "depth_divisible_by": 2, "min_depth": 2,
                     "expand_ratio": 2.0, "output_stride": 16, **_LABELS},
    "mobilenet_v2_plain": {"model_type": "mobilenet_v2", "depth_multiplier": 0.05, "depth_divisible_by": 2,
                           "min_depth": 2, "expand_ratio": 1.5, "first_layer_is_expansion": False,
                           "finegrained_output": False, "tf_padding": False, **_LABELS},
    "efficientnet": {
        "model_type": "efficientnet", "width_coefficient": 0.1, "depth_coefficient": 1.1, "depth_divisor": 4,
        "kernel_sizes": [3, 5, 3], "in_channels": [32, 40, 80], "out_channels": [40, 80, 80], "strides": [1, 2, 2],
        "num_block_repeats": [1, 2, 1], "expand_ratios": [1, 3, 2], "depthwise_padding": [4], "hidden_dim": 128,
        **_LABELS,
    },
    "efficientnet_max": {
        "model_type": "efficientnet", "width_coefficient": 0.05, "depth_coefficient": 1.0, "depth_divisor": 4,
        "kernel_sizes": [5], "in_channels": [32], "out_channels": [40], "strides": [2], "num_block_repeats": [1],
        "expand_ratios": [2], "hidden_dim": 64, "pooling_type": "max", **_LABELS,
    },
    "clip": {
        "model_type": "clip", "projection_dim": 10, "text_config": _WORDS | {"eos_token_id": 2},
        "vision_config": _SIZES,
    },
    "clip_named_end": {
        "model_type": "clip", "projection_dim": 10, "text_config": _WORDS | {"eos_token_id": 9},
        "vision_config": _SIZES | {"hidden_act": "gelu"},
    },
    "metaclip2": {
        "model_type": "metaclip_2", "projection_dim": 10, "text_config": _WORDS | {"eos_token_id": 2},
        "vision_config": _SIZES,
    },
    "siglip": {"model_type": "siglip", "text_config": _WORDS | {"hidden_size": 16}, "vision_config": _SIZES},
    "siglip_projected": {
        "model_type": "siglip", "text_config": _WORDS | {"projection_size": 16}, "vision_config": _SIZES,
    },
    "siglip2": {
        "model_type": "siglip2", "text_config": _WORDS | {"hidden_size": 16},
        "vision_config": {key: value for key, value in _SIZES.items() if key != "image_size"} | {"num_patches": 9},
    },
    "chinese_clip": {
        "model_type": "chinese_clip", "projection_dim": 10, "text_config": _WORDS, "vision_config": _SIZES,
    },
    "dual_encoder": {
        "model_type": "vision-text-dual-encoder", "projection_dim": 10,
        "vision_config": {"model_type": "vit", **_SIZES},
        "text_config": _WORDS | {"model_type": "bert"},
    },
    "dual_encoder_clip": {
        "model_type": "vision-text-dual-encoder", "projection_dim": 10,
        "vision_config": {"model_type": "clip_vision_model", **_SIZES},
        "text_config": _WORDS | {"model_type": "roberta", "pad_token_id": 1},
    },
    "altclip": {
        "model_type": "altclip", "projection_dim": 10, "vision_config": _SIZES,
        "text_config": _WORDS | {"pad_token_id": 1, "project_dim": 14},
    },
    "aimv2": {
        "model_type": "aimv2", "projection_dim": 10, "max_logit_scale": 1.25, "vision_config": _SIZES,
        "text_config": _WORDS | {"eos_token_id": 9, "qkv_bias": True, "mlp_bias": True},
    },
    "aimv2_native": {
        "model_type": "aimv2_vision_model", **_SIZES, "is_native": True, "use_head": False, "qkv_bias": True,
    },
    "align": {
        "model_type": "align", "projection_dim": 16, "text_config": _WORDS, "vision_config": {
            "width_coefficient": 0.2, "depth_coefficient": 1.0, "depth_divisor": 4, "kernel_sizes": [3, 5],
            "in_channels": [32, 40], "out_channels": [40, 80], "strides": [1, 2], "num_block_repeats": [1, 2],
            "expand_ratios": [1, 2], "hidden_dim": 16,
        },
    },
    "vilt": {
        "model_type": "vilt", **_SIZES, **_LABELS, "vocab_size": 40, "max_position_embeddings": 8,
        "pad_token_id": 0,
    },
    "owlvit": {
        "model_type": "owlvit", "projection_dim": 12, "text_config": _WORDS, "vision_config": _SIZES,
    },
    "owlv2": {
        "model_type": "owlv2", "projection_dim": 12, "text_config": _WORDS,
        "vision_config": _SIZES | {"num_hidden_layers": 1},
    },
    "grounding_dino": _GROUNDED | {"model_type": "grounding-dino"},
    "mm_grounding_dino": _GROUNDED | {
        "model_type": "mm-grounding-dino", "decoder_bbox_embed_share": False, "decoder_cls_embed_share": False,
    },
    "mobileclip": {  # of OpenCLIP
        "model_type": "mobileclip", "embed_dim": 10, "image_size": 32, "vision_config": {
            "model_type": "fastvit", "depths": [1, 1, 1, 1], "hidden_sizes": [4, 8, 16, 32], "mlp_ratios": [2, 2, 2, 2],
            "attends": [False, False, False, True], "squeezes": [False, False, True, True], "large_act": True,
        }, "text_config": _WORDS | {"hidden_size": 12},
    },
    "clipseg": {
        "model_type": "clipseg", "projection_dim": 10, "text_config": _WORDS | {"eos_token_id": 2},
        "vision_config": _SIZES | {"num_hidden_layers": 3, "image_size": 24, "patch_size": 8}, "extract_layers": [0, 2],
        "reduce_dim": 8, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 12,
        "use_complex_transposed_convolution": True,
    },
    "yolos": {"model_type": "yolos", **_SIZES, **_LABELS, "image_size": [12, 8], "num_detection_tokens": 5},
    "yolos_plain": {
        "model_type": "yolos", **_SIZES, **_LABELS, "image_size": [12, 8], "num_detection_tokens": 3,
        "use_mid_position_embeddings": False, "qkv_bias": False,
    },
    "detr": {"model_type": "detr", **_QUERIES, **_LABELS, "backbone_config": {
        "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2,
        "out_features": ["stage2"],
    }},
    "table_transformer": {"model_type": "table-transformer", **_QUERIES, **_LABELS, "backbone_config": {
        "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [6, 12], "depths": [2, 1], "num_stages": 2,
        "layer_type": "basic", "out_features": ["stage2"],
    }},
    "detr_auxiliary": {
        "model_type": "detr", **_QUERIES, **_LABELS, "encoder_layers": 1, "auxiliary_loss": True, "backbone_config": {
            "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [6, 12], "depths": [1, 1], "num_stages": 2,
            "layer_type": "basic", "out_features": ["stage2"],
        },
    },
    "conditional_detr": {"model_type": "conditional_detr", **_QUERIES, **_LABELS, "encoder_layers": 1,
        "backbone_config": {
            "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 16], "depths": [1, 1],
            "out_features": ["stage2"],
        },
    },
    "dab_detr": {
        "model_type": "dab-detr", **_LABELS, "hidden_size": 16, "num_queries": 3, "num_patterns": 2,
        "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
        "encoder_attention_heads": 4, "decoder_attention_heads": 2, "normalize_before": True, "backbone_config": {
            "model_type": "resnet", "embedding_size": 6, "hidden_sizes": [8, 16], "depths": [1, 1],
            "out_features": ["stage2"],
        },
    },
    "deformable_detr": _DEFORMABLE | {"with_box_refine": True},
    "deformable_detr_two_stage": _DEFORMABLE | {
        "with_box_refine": True, "two_stage": True, "two_stage_num_proposals": 4,
    },
    "rf_detr": {
        "model_type": "rf_detr", **_LABELS, "d_model": 32, "c2f_num_blocks": 2, "decoder_ffn_dim": 12,
        "decoder_n_points": 2, "decoder_layers": 2, "decoder_self_attention_heads": 2,
        "decoder_cross_attention_heads": 4, "num_queries": 5, "group_detr": 2, "backbone_config": {
            "model_type": "rf_detr_dinov2", "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4,
            "mlp_ratio": 2, "image_size": 24, "patch_size": 4, "num_windows": 2, "out_features": ["stage2", "stage4"],
        },
    },
    "lw_detr": {
        "model_type": "lw_detr", **_LABELS, "d_model": 32, "c2f_num_blocks": 2, "decoder_ffn_dim": 12,
        "decoder_n_points": 2, "decoder_layers": 2, "decoder_self_attention_heads": 2,
        "projector_scale_factors": [2.0, 0.5], "decoder_cross_attention_heads": 4, "num_queries": 5,
        "group_detr": 2, "backbone_config": {
            "model_type": "lw_detr_vit", "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4,
            "mlp_ratio": 2, "pretrain_image_size": 12, "patch_size": 4, "num_windows": 4,
            "out_indices": [2, 4], "window_block_indices": [0, 2],
        },
    },
    "rt_detr": _RT_DETR | {"backbone_config": {
        "model_type": "rt_detr_resnet", "embedding_size": 6, "hidden_sizes": [8, 16, 24, 32], "depths": [2, 1, 1, 1],
        "out_features": ["stage2", "stage3", "stage4"],
    }},
    "rt_detr_basic": _RT_DETR | {"hidden_expansion": 0.5, "layer_norm_eps": 0.1, "backbone_config": {
        "model_type": "rt_detr_resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [2, 1, 1, 1],
        "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"],
    }},
    "rt_detr_v2": _RT_DETR | {"model_type": "rt_detr_v2", "decoder_offset_scale": 0.4, "backbone_config": {
        "model_type": "rt_detr_resnet", "embedding_size": 6, "hidden_sizes": [8, 16, 24], "depths": [1, 1, 1],
        "out_features": ["stage2", "stage3"],
    }, "encoder_in_channels": [16, 24], "decoder_in_channels": [8, 8], "num_feature_levels": 2, "decoder_n_levels": 2,
        "encode_proj_layers": [1], "feat_strides": [8, 16], "decoder_method": "discrete",
    },
    "d_fine": _RT_DETR | {
        "model_type": "d_fine", "encoder_in_channels": [12, 16], "decoder_in_channels": [16, 16],
        "encoder_hidden_dim": 16, "feat_strides": [8, 16], "num_feature_levels": 2, "encode_proj_layers": [1],
        "decoder_n_points": [2, 3], "hidden_expansion": 0.5,
        "depth_mult": 0.5, "max_num_bins": 8, "lqe_hidden_dim": 6,
        "backbone_config": _HGNET | {"use_learnable_affine_block": True, "out_features": ["stage2", "stage3"]},
    },
    "hgnet_v2": _HGNET | _LABELS | {"hidden_act": "gelu", "stage_downsample_strides": [2, 1, 2]},
    "glpn": {
        "model_type": "glpn", "num_encoder_blocks": 3, "depths": [1, 2, 1], "sr_ratios": [4, 2, 1],
        "hidden_sizes": [8, 12, 32], "patch_sizes": [7, 3, 3], "strides": [4, 2, 2], "num_attention_heads": [1, 2, 4],
        "mlp_ratios": [2, 2, 2], "decoder_hidden_size": 12, "max_depth": 7,
    },
    "segformer": {
        "model_type": "segformer", "num_encoder_blocks": 3, "depths": [1, 2, 1], "sr_ratios": [4, 2, 1],
        "hidden_sizes": [8, 12, 32], "patch_sizes": [7, 3, 3], "strides": [4, 2, 2], "num_attention_heads": [1, 2, 4],
        "mlp_ratios": [2, 2, 2], "decoder_hidden_size": 16, **_LABELS,
    },
    "swin": {
        "model_type": "swin", "image_size": [24, 16], "patch_size": 2, "embed_dim": 8, "depths": [2, 3],
        "num_heads": [2, 4], "window_size": 3, "mlp_ratio": 2.0, **_LABELS,
    },
    "swin_placed": {
        "model_type": "swin", "image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 1],
        "window_size": 4, "mlp_ratio": 1.5, "qkv_bias": False, "use_absolute_embeddings": True, **_LABELS,
    },
    "donut": {
        "model_type": "vision-encoder-decoder",
        "encoder": {
            "model_type": "donut-swin", "image_size": [20, 28], "patch_size": 2, "embed_dim": 8, "depths": [2, 2],
            "num_heads": [2, 4], "window_size": 4, "mlp_ratio": 2.0,
        },
        "decoder": {
            "model_type": "mbart", "vocab_size": 40, "d_model": 12, "encoder_layers": 2, "encoder_attention_heads": 4,
            "encoder_ffn_dim": 20, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 20,
            "max_position_embeddings": 16, "scale_embedding": True, "forced_eos_token_id": None,
        },
    },
    "blip": {
        "model_type": "blip", "vision_config": _SIZES,
        "text_config": _WORDS | {
            "encoder_hidden_size": 16, "max_position_embeddings": 16, "bos_token_id": 2, "sep_token_id": 5,
            "pad_token_id": 1,
        },
    },
    "git": {
        "model_type": "git", "vision_config": _SIZES, **_WORDS, "hidden_size": 20, "max_position_embeddings": 16,
        "bos_token_id": 2, "eos_token_id": 5, "pad_token_id": 1,
    },
    "blip2_t5": _T5 | {"model_type": "blip-2"},
    "instructblip": _T5 | {"model_type": "instructblip"},
    "florence2": {
        "model_type": "florence2", "image_token_id": 39,
        "vision_config": {
            "depths": [1, 1], "patch_size": [3, 3], "patch_stride": [2, 2], "patch_padding": [1, 1],
            "patch_prenorm": [False, True], "embed_dim": [8, 12], "num_heads": [2, 3], "num_groups": [2, 4],
            "window_size": 2, "mlp_ratio": 2.0, "projection_dim": 16, "max_position_embeddings": 8,
        },
        "text_config": {
            "model_type": "bart", "vocab_size": 40, "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 4,
            "encoder_ffn_dim": 20, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 20,
            "max_position_embeddings": 32, "scale_embedding": True, "forced_eos_token_id": None,
        },
    },
    "sam": {
        "model_type": "sam",
        "vision_config": _SIZES | {
            "output_channels": 8, "mlp_dim": 20, "image_size": 20, "window_size": 3, "global_attn_indexes": [1],
            "num_pos_feats": 4,
        },
        "prompt_encoder_config": {"hidden_size": 8, "image_size": 20, "patch_size": 4, "mask_input_channels": 4},
        "mask_decoder_config": {
            "hidden_size": 8, "mlp_dim": 12, "num_attention_heads": 2, "iou_head_hidden_dim": 10,
        },
    },
    "sam_hq": {
        "model_type": "sam_hq",
        "vision_config": _SIZES | {
            "output_channels": 16, "mlp_dim": 20, "image_size": 20, "window_size": 3, "global_attn_indexes": [0],
            "num_pos_feats": 8,
        },
        "prompt_encoder_config": {"hidden_size": 16, "image_size": 20, "patch_size": 4, "mask_input_channels": 4},
        "mask_decoder_config": {
            "hidden_size": 16, "mlp_dim": 12, "num_attention_heads": 2, "iou_head_hidden_dim": 10, "vit_dim": 16,
        },
    },
    "sam2": {
        "model_type": "sam2",
        "vision_config": {
            "fpn_hidden_size": 16, "backbone_channel_list": [16, 12, 8, 6],
            "backbone_feature_sizes": [[8, 8], [4, 4], [2, 2]],
            "backbone_config": {
                "model_type": "sam2_hiera_det_model", "image_size": 32, "hidden_size": 6,
                "window_positional_embedding_background_size": [3, 3], "blocks_per_stage": [1, 2, 1, 1],
                "embed_dim_per_stage": [6, 8, 12, 16], "num_attention_heads_per_stage": [1, 2, 2, 2],
                "window_size_per_stage": [4, 2, 6, 3], "global_attention_blocks": [2], "mlp_ratio": 2.0,
            },
        },
        "prompt_encoder_config": {"hidden_size": 16, "image_size": 32, "patch_size": 16, "mask_input_channels": 4},
        "mask_decoder_config": {
            "hidden_size": 16, "mlp_dim": 12, "num_attention_heads": 2, "iou_head_hidden_dim": 10,
        },
    },
    "trocr": {
        "model_type": "vision-encoder-decoder", "encoder": {"model_type": "vit", **_SIZES, "qkv_bias": False},
        "decoder": _TROCR | {"cross_attention_hidden_size": 16},
    },
    "vit_gpt2": {
        "model_type": "vision-encoder-decoder", "encoder": {"model_type": "vit", **_SIZES},
        "decoder": {
            "model_type": "gpt2", "vocab_size": 40, "n_embd": 12, "n_layer": 2, "n_head": 2, "n_positions": 16,
            "is_decoder": True, "add_cross_attention": True,
        },
    },
    "manga_ocr": {
        "model_type": "vision-encoder-decoder", "encoder": {"model_type": "deit", **_SIZES},
        "decoder": _WORDS | {
            "model_type": "bert", "max_position_embeddings": 16, "pad_token_id": 1, "hidden_size": 16,
            "is_decoder": True, "add_cross_attention": True,
        },
    },
    "trocr_small": {
        "model_type": "vision-encoder-decoder", "encoder": {"model_type": "deit", **_SIZES},
        "decoder": _TROCR | {
            "use_learned_position_embeddings": False, "layernorm_embedding": False, "scale_embedding": True,
            "activation_function": "relu",
        },
    },
}  # fmt: skip
_SWIN2SR = {
    "model_type": "swin2sr", "image_size": 8, "embed_dim": 8, "depths": [2], "num_heads": [2], "window_size": 4,
}  # fmt: skip
_SUPERPOINT = {
    "model_type": "superpoint", "encoder_hidden_sizes": [4, 6, 8, 10], "decoder_hidden_size": 12,
    "descriptor_decoder_dim": 16, "keypoint_threshold": 0.005, "border_removal_distance": 2,
}  # fmt: skip
CONFIGS |= {
    "superpoint": _SUPERPOINT,
    "superpoint_few": _SUPERPOINT | {"max_keypoints": 5, "nms_radius": 2, "border_removal_distance": 0},
    "superglue": {
        "model_type": "superglue", "keypoint_detector_config": _SUPERPOINT, "hidden_size": 16,
        "keypoint_encoder_sizes": [6, 8], "gnn_layers_types": ["self", "cross", "self", "cross"],
        "num_attention_heads": 2, "sinkhorn_iterations": 40,
    },
    "lightglue": {
        "model_type": "lightglue", "keypoint_detector_config": _SUPERPOINT | {"max_keypoints": 16},
        "descriptor_dim": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "filter_threshold": 0.002,
        "width_confidence": 0.9, "depth_confidence": 0.99,
    },
    "lightglue_whole": {
        "model_type": "lightglue", "keypoint_detector_config": _SUPERPOINT | {"max_keypoints": 12},
        "descriptor_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "filter_threshold": 0.002,
        "width_confidence": -1.0, "depth_confidence": -1.0,
    },
    "swin2sr": _SWIN2SR | {"embed_dim": 12, "depths": [2, 1], "num_heads": [2, 3], "upscale": 4},
    "swin2sr_aux": _SWIN2SR | {
        "upscale": 3, "upsampler": "pixelshuffle_aux", "resi_connection": "3conv", "img_range": 2.0, "qkv_bias": False,
    },
    "swin2sr_real": _SWIN2SR | {"upscale": 4, "upsampler": "nearest+conv"},
    "swin2sr_light": _SWIN2SR | {"upsampler": "pixelshuffledirect", "embed_dim": 32, "num_heads": [4]},
    "swin2sr_clean": _SWIN2SR | {"upscale": 1, "upsampler": "", "window_size": 8},  # one window has all
}  # fmt: skip
# The class of transformers that a configuration is read with, where the task does not tell it.
CLASSES = {
    ("pix2struct", "image-to-text"): "Pix2StructForConditionalGeneration",
    ("sam3", "zero-shot-object-detection"): "Sam3Model",
    **dict.fromkeys(
        (("maskformer", "semantic-segmentation"), ("maskformer_resnet", "semantic-segmentation")),
        "MaskFormerForInstanceSegmentation",
    ),
    ("oneformer", "semantic-segmentation"): "OneFormerForUniversalSegmentation",
    ("eomt", "semantic-segmentation"): "EomtForUniversalSegmentation",
    ("mask2former", "semantic-segmentation"): "Mask2FormerForUniversalSegmentation",
    ("levit_teacher", "image-classification"): "LevitForImageClassificationWithTeacher",
    ("deit_teacher", "image-classification"): "DeiTForImageClassificationWithTeacher",
    ("blip", "image-to-text"): "BlipForConditionalGeneration",
    ("blip2_t5", "image-to-text"): "Blip2ForConditionalGeneration",
    ("instructblip", "image-to-text"): "InstructBlipForConditionalGeneration",
    ("git", "image-to-text"): "GitForCausalLM",
    ("florence2", "image-to-text"): "Florence2ForConditionalGeneration",
}
# Run with weights in block types.
QUANTISED = (
    "vit videomae deit beit dinov2 dinov2_with_registers depth_anything convnext convnextv2 regnet resnet mobilenet_v1 "
    "mobilenet_v2 efficientnet clip siglip siglip2 chinese_clip yolos detr rt_detr segformer glpn swin swin2sr_light "
    "donut blip git trocr florence2"
).split()
# Run on another device.
OTHER_DEVICE = (
    "vit videomae timesformer vivit vjepa2 deit beit dinov2_gated dinov2_with_registers depth_anything convnext "
    "convnextv2 regnet resnet mobilenet_v1 mobilenet_v2 efficientnet clip siglip siglip2 mobileclip owlv2 "
    "grounding_dino yolos detr rt_detr segformer swin swinv2 pvt_v2 mobilevit poolformer dinov3_convnext "
    "swin2sr_light donut blip git instructblip sam sam2 trocr florence2"
).split()
OPEN_CLIP = {  # an open_clip_config.json
    "model_cfg": {
        "embed_dim": 10, "quick_gelu": True,
        "vision_cfg": {"image_size": 12, "layers": 2, "width": 16, "patch_size": 4, "head_width": 4},
        "text_cfg": {"context_length": 8, "vocab_size": 40, "width": 12, "heads": 2, "layers": 2},
    },
    "preprocess_cfg": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.2]},
}  # fmt: skip
POINTS = [[[[3.0, 4.0], [17.0, 8.0]]], [[[0.0, 19.0], [5.0, 5.0]]]]  # of two pictures
POINT_LABELS = [[[1, 0]], [[1, -1]]]
# Of SAM 3: the centre, width and height of boxes in each picture, as parts of the sides, and whether it is wanted.
SHOWN_BOXES = [[[0.4, 0.5, 0.3, 0.6], [0.8, 0.25, 0.4, 0.5]], [[0.5, 0.5, 1.0, 1.0], [0.1, 0.9, 0.02, 0.1]]]
SHOWN_KINDS = [[1, 0], [1, 1]]
BOXES = [[[2.0, 3.0, 15.0, 19.0]], [[0.0, 0.0, 7.0, 9.0]]]
WITH_TOKENS = (
    "image-to-text",
    "visual-question-answering",
    "zero-shot-image-classification",
    "zero-shot-object-detection",
    "zero-shot-semantic-segmentation",
)  # tasks whose models read texts too
PROMPT = [0, 9, 31, 2]  # of models that read one beside a picture
QUESTION = [2, 9, 31, 3]  # of InstructBLIP's second tokenizer
# Measured depths of two pictures, in metres.
DEPTHS = [[[[1.5, 2.0, 0.5], [4.0, 3.0, 2.5]]], [[[7.0, 6.0, 9.5], [8.0, 2.0, 3.5]]]]
TOKENS = [[2, 7, 30, 11, 5], [2, 21, 6, 3, 9]]  # two texts, or their beginnings
PHRASES = [[101, 7, 30, 1012, 5, 9, 1012, 102], [101, 21, 1029, 6, 102, 0, 0, 0]]  # texts of phrases, and padding
FOUND = ["a cat", "Green dog"], 0.87, 0.85  # labels, and the thresholds of objects and of their texts


def sizes(name: str) -> list[tuple[int, int]]:
    """The sizes (height, width) of the pictures that the tests show a model."""
    config = CONFIGS[name]
    own = config.get("encoder", config.get("vision_config", config)).get("image_size", config.get("crop_size", 32))
    own = (16, 20) if config["model_type"] == "florence2" else own
    own = config["backbone_config"]["image_size"] if config["model_type"] in ("zoedepth", "vitpose") else own
    own = (32, 40) if "grounding" in config["model_type"] or "deformable" in config["model_type"] else own
    own = (64, 96) if config["model_type"].startswith(("rt_detr", "d_fine")) else own  # multiples of its coarsest step
    own = (32, 48) if config["model_type"] == "glpn" else own  # multiples, too
    if config["model_type"] == "mobilevitv2":
        return [(64, 64), (80, 96)]  # the last map in patches, and not
    if config["model_type"] == "bit":
        return [(32, 32), (40, 56)]
    if config["model_type"] == "pix2struct":
        return [(12, 20), (16, 8)]
    if config["model_type"] == "sam3":
        return [(24, 24)]
    if config["model_type"] == "siglip2":
        return [(8, 20), (16, 12)]  # fewer and more rows and columns than its positions
    if config["model_type"] == "depth_pro":
        return [(24, 24)]
    if config["model_type"] in ("superpoint", "superglue", "lightglue"):
        return [(48, 56)]
    if config["model_type"] == "swin2sr":
        return [(8, 16)]
    if config["model_type"] == "clipseg":
        return [(32, 32)]  # its positions are stretched
    first = (own, own) if isinstance(own, int) else tuple(own)
    placed = config.get("use_absolute_embeddings")  # transformers resizes these tables for square pictures only
    return [first, (16, 20)] if config["model_type"] in ANY_SIZE and not placed else [first]


ANY_SIZE = (
    "vilt radio dinov2 dinov2_with_registers dinov3_vit depth_anything zoedepth convnext convnextv2 regnet resnet "
    "mobilenet_v1 mobilenet_v2 efficientnet yolos segformer swin detr mobilevit pvt_v2 poolformer dinov3_convnext "
    "table-transformer bit focalnet swiftformer cvt aimv2_vision_model"
).split()
