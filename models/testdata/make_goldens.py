"""Write tiny random checkpoints of every supported architecture, with the logits and greedy tokens that Python's
transformers computes for them in float32.

    python3 -m pip install -r requirements.txt
    python3 make_goldens.py [NAME ...]

Each case becomes a folder golden/NAME in Hugging Face layout plus golden.json (prompts, greedy tokens) and
golden.safetensors (logits.I = logits of every position of prompt I, [len, vocab]). Seeds are fixed. The weights are
drawn so large that the greedy tokens vary and that windows, rope variants, biases and norms matter: the script fails
when a greedy choice is too close to call or when the output is monotonous.
"""
import json
import pathlib
import shutil
import sys
import zlib

import torch
from safetensors.torch import load_file, save_file
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 160
PROMPT_LENGTHS = (1, 7, 45)
NEW_TOKENS = 64
MIN_MARGIN = 2e-3  # a fifth of it for the small ones, whose logits are smaller
MIN_DISTINCT = 12

BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=160, bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=False)

LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=24)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=40)

# name -> (config, dtype of the file, config.json in the form of transformers 4, shard size)
CASES = {
    "llama2": (LlamaConfig(**{**BASE, "intermediate_size": 200}, num_key_value_heads=4), "bfloat16", True, None),
    "llama3": (LlamaConfig(**{**BASE, "tie_word_embeddings": True}, num_key_value_heads=2, rope_parameters=LLAMA3),
               "bfloat16", True, None),
    "llama3-v5": (LlamaConfig(**BASE, num_key_value_heads=1, head_dim=32,
                              rope_parameters={**LLAMA3, "high_freq_factor": 2.0}), "float16", False, None),
    "llama-linear-bias": (LlamaConfig(**BASE, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                      rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=3.0)),
                          "float16", True, None),
    "llama-dynamic": (LlamaConfig(**BASE, num_key_value_heads=2,
                                  rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)),
                      "bfloat16", False, None),
    "smollm2": (LlamaConfig(**{**BASE, "hidden_size": 144, "intermediate_size": 64, "num_attention_heads": 3,
                               "tie_word_embeddings": True}, num_key_value_heads=1, head_dim=16,
                            rope_parameters=dict(rope_type="default", rope_theta=100000.0)), "bfloat16", True, None),
    "mistral": (MistralConfig(**BASE, num_key_value_heads=2, head_dim=32, sliding_window=12), "float16", True, None),
    "qwen2": (Qwen2Config(**{**BASE, "tie_word_embeddings": True, "num_hidden_layers": 3}, num_key_value_heads=2,
                          use_sliding_window=True, sliding_window=10, max_window_layers=1,
                          rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), "float32", True, "120KB"),
    "qwen2-yarn": (Qwen2Config(**BASE, num_key_value_heads=1, rope_parameters=YARN), "bfloat16", True, None),
    "qwen3": (Qwen3Config(**{**BASE, "tie_word_embeddings": True}, num_key_value_heads=2, head_dim=32),
              "bfloat16", False, None),
    "qwen3-window": (Qwen3Config(**{**BASE, "num_hidden_layers": 3}, num_key_value_heads=1, head_dim=16,
                                 attention_bias=True, use_sliding_window=True, sliding_window=9,
                                 layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
                     "bfloat16", False, None),
}


def small(kind, dtype="bfloat16", form="v4", drop=(), **settings):
    """A case of another family: as small as its parts can be told apart."""
    base = dict(vocab_size=96, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=160, bos_token_id=1, eos_token_id=2, pad_token_id=None,
                tie_word_embeddings=False)
    for key in drop:
        base.pop(key)
    return getattr(transformers, kind + "Config")(**{**base, **settings}), dtype, form == "v4", None


GPT = dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=160, bos_token_id=1, eos_token_id=2)
SLIDING, FULL = "sliding_attention", "full_attention"


def rope(theta=10000.0, kind="default", **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


CASES |= {
    "gemma": small("Gemma", head_dim=16, num_key_value_heads=1, tie_word_embeddings=True),
    "gemma2": small("Gemma2", head_dim=16, num_hidden_layers=3, sliding_window=11, query_pre_attn_scalar=24,
                    attn_logit_softcapping=4.0, final_logit_softcapping=9.0, tie_word_embeddings=True),
    "gemma3": small("Gemma3Text", form="v5", head_dim=16, num_hidden_layers=3, sliding_window=11,
                    layer_types=[SLIDING, FULL, SLIDING], query_pre_attn_scalar=24, tie_word_embeddings=True,
                    rope_parameters={SLIDING: rope(), FULL: rope(1000000.0, "linear", factor=4.0)}),
    "phi3": small("Phi3", sliding_window=20, rope_parameters=rope(partial_rotary_factor=0.5)),
    "phi3-long": small("Phi3", hidden_size=64, max_position_embeddings=640, original_max_position_embeddings=160,
                       rope_parameters=rope(kind="longrope", short_factor=[1.0, 1.1, 1.3, 1.4, 1.7, 2.0, 2.5, 3.0],
                                            long_factor=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])),
    "phi3-longer": small("Phi3", hidden_size=64, max_position_embeddings=640, original_max_position_embeddings=40,
                         rope_parameters=rope(kind="longrope", short_factor=[1.0, 1.1, 1.3, 1.4, 1.7, 2.0, 2.5, 3.0],
                                              long_factor=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])),
    "phi": small("Phi", drop=["num_key_value_heads"], rope_parameters=rope(partial_rotary_factor=0.5)),
    "phi-norms": small("Phi", num_key_value_heads=2, qk_layernorm=True, rope_parameters=rope(partial_rotary_factor=0.5)),
    "gpt2": (transformers.GPT2Config(**GPT, tie_word_embeddings=True), "float32", True, None),
    "gpt-neox": small("GPTNeoX", drop=["num_key_value_heads"], rope_parameters=rope(partial_rotary_factor=0.25)),
    "gpt-neox-sequential": small("GPTNeoX", drop=["num_key_value_heads"], use_parallel_residual=False,
                                 rope_parameters=rope(partial_rotary_factor=1.0)),
    "gptj": (transformers.GPTJConfig(**GPT, rotary_dim=4, tie_word_embeddings=False), "float16", True, None),
    "falcon": small("Falcon", drop=["intermediate_size", "num_key_value_heads"], ffn_hidden_size=40, multi_query=True,
                    tie_word_embeddings=True),
    "falcon-new": small("Falcon", drop=["intermediate_size", "num_key_value_heads"], ffn_hidden_size=40, num_kv_heads=2,
                        new_decoder_architecture=True, bias=True, tie_word_embeddings=False),
    "bloom": small("Bloom", drop=["intermediate_size", "num_key_value_heads", "num_hidden_layers",
                                  "num_attention_heads", "max_position_embeddings"], n_layer=2, n_head=6,
                   hidden_size=48, seq_length=160),
    "opt": small("OPT", drop=["intermediate_size", "num_key_value_heads"], ffn_dim=40, word_embed_proj_dim=32,
                 pad_token_id=0, tie_word_embeddings=True),
    "starcoder2": small("Starcoder2", sliding_window=14, tie_word_embeddings=True),
    "stablelm": small("StableLm", use_qkv_bias=True, rope_parameters=rope(partial_rotary_factor=0.25)),
    "stablelm-2": small("StableLm", use_parallel_residual=True, qk_layernorm=True,
                        rope_parameters=rope(partial_rotary_factor=0.5)),
    "olmo": small("Olmo", clip_qkv=1.5),
    "olmo2": small("Olmo2"),
    "olmo3": small("Olmo3", form="v5", num_hidden_layers=3, sliding_window=9, layer_types=[SLIDING, SLIDING, FULL],
                   rope_parameters={SLIDING: rope(), FULL: dict(YARN)}),
    "smollm3": small("SmolLM3", num_hidden_layers=3, no_rope_layers=[1, 0, 1], tie_word_embeddings=True),
    "granite": small("Granite", embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6,
                     attention_multiplier=0.2, attention_bias=True),
    "cohere": small("Cohere", logit_scale=0.5, use_qk_norm=True, tie_word_embeddings=True),
    "cohere2": small("Cohere2", head_dim=8, num_hidden_layers=3, logit_scale=0.5, sliding_window=10,
                     layer_types=[SLIDING, FULL, SLIDING], tie_word_embeddings=True),
    "glm": small("Glm", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5)),
    "glm4": small("Glm4", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5)),
    "exaone4": small("Exaone4", num_hidden_layers=3, sliding_window=10, layer_types=[SLIDING, FULL, SLIDING]),
    "nemotron": small("Nemotron", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5)),
    "seed-oss": small("SeedOss", head_dim=16, attention_out_bias=True),
    "hunyuan": small("HunYuanDenseV1", head_dim=8,
                     rope_parameters=rope(kind="dynamic", alpha=50.0, factor=1.0)),
    "ernie4-5": small("Ernie4_5", head_dim=8, use_bias=True, tie_word_embeddings=True),
    "arcee": small("Arcee", head_dim=8, rope_parameters=rope(kind="yarn", factor=4.0, original_max_position_embeddings=40)),
    "helium": small("Helium", head_dim=8, num_attention_heads=4),
    "mixtral": small("Mixtral", intermediate_size=24, num_local_experts=6, num_experts_per_tok=2),
    "qwen2-moe": small("Qwen2Moe", num_hidden_layers=3, moe_intermediate_size=20, shared_expert_intermediate_size=28,
                       num_experts=5, num_experts_per_tok=3, decoder_sparse_step=1, mlp_only_layers=[1]),
    "qwen3-moe": small("Qwen3Moe", head_dim=16, moe_intermediate_size=20, num_experts=6, num_experts_per_tok=2,
                       norm_topk_prob=True),
    "olmoe": small("Olmoe", intermediate_size=24, num_experts=5, num_experts_per_tok=2, clip_qkv=3.0),
    "gpt-oss": small("GptOss", head_dim=16, num_hidden_layers=3, intermediate_size=24, num_local_experts=5,
                     num_experts_per_tok=2, sliding_window=10, layer_types=[SLIDING, FULL, SLIDING],
                     swiglu_limit=1.5,
                     rope_parameters=rope(150000.0, "yarn", factor=8.0, original_max_position_embeddings=20,
                                          beta_fast=32.0, beta_slow=1.0, truncate=False)),
    "gpt-oss-mxfp4": small("GptOss", dtype="float32", head_dim=16, intermediate_size=32, num_local_experts=4,
                           num_experts_per_tok=2, sliding_window=128, layer_types=[SLIDING, FULL]),
    "granite-moe": small("GraniteMoe", intermediate_size=24, num_local_experts=5, num_experts_per_tok=2,
                         embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6,
                         attention_multiplier=0.2),
    "ministral": small("Ministral", num_hidden_layers=3, head_dim=16, sliding_window=10,
                       layer_types=[SLIDING, FULL, SLIDING]),
    "ministral3": small("Ministral3", form="v5", head_dim=8,
                        rope_parameters=rope(kind="yarn", factor=8.0, original_max_position_embeddings=20, beta_fast=32.0,
                                             beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4)),
    "glm4-moe": small("Glm4Moe", num_hidden_layers=3, head_dim=16, moe_intermediate_size=20, n_routed_experts=6,
                      num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5,
                      use_qk_norm=True, attention_bias=True, rope_parameters=rope(partial_rotary_factor=0.5)),
    "solar-open": small("SolarOpen", drop=["intermediate_size"], head_dim=16, moe_intermediate_size=20,
                        n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2,
                        norm_topk_prob=False),
    "dots1": small("Dots1", num_hidden_layers=3, head_dim=8, moe_intermediate_size=20, n_routed_experts=6,
                   num_experts_per_tok=2, n_shared_experts=2, n_group=2, topk_group=1, first_k_dense_replace=1,
                   norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=9,
                   layer_types=[FULL, FULL, SLIDING]),
    "exaone-moe": small("ExaoneMoe", num_hidden_layers=3, head_dim=8, moe_intermediate_size=20, num_experts=6,
                        num_experts_per_tok=2, sliding_window=10, layer_types=[SLIDING, FULL, SLIDING],
                        routed_scaling_factor=1.2, mlp_layer_types=["dense", "sparse", "sparse"]),
    "ernie4-5-moe": small("Ernie4_5_Moe", num_hidden_layers=3, moe_intermediate_size=20, moe_num_experts=6, moe_k=2,
                          moe_num_shared_experts=2, moe_layer_start_index=1, tie_word_embeddings=True),
    "hunyuan-moe": small("HunYuanMoEV1", head_dim=8, intermediate_size=24, num_experts=5, moe_topk=2,
                         rope_parameters=rope(kind="dynamic", alpha=50.0, factor=1.0)),
    "minimax-m2": small("MiniMaxM2", head_dim=16, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2,
                        rope_parameters=rope(partial_rotary_factor=0.5)),
    "granite-moe-shared": small("GraniteMoeShared", intermediate_size=24, num_local_experts=5, num_experts_per_tok=2,
                                shared_intermediate_size=28, embedding_multiplier=3.0, logits_scaling=2.0,
                                residual_multiplier=0.6, attention_multiplier=0.2),
    "flex-olmo": small("FlexOlmo", intermediate_size=24, num_experts=5, num_experts_per_tok=2),
    "apertus": small("Apertus", head_dim=8, rope_parameters=rope(kind="llama3", factor=8.0, low_freq_factor=1.0,
                     high_freq_factor=4.0, original_max_position_embeddings=24)),
    "cwm": small("Cwm", form="v5", head_dim=8, num_hidden_layers=3, sliding_window=10, rope_parameters=rope()),
    "hyperclovax": small("HyperCLOVAX", embedding_multiplier=3.0, logits_scaling=0.5, residual_multiplier=0.6,
                         attention_multiplier=0.2),
    "jais2": small("Jais2"),
    "nanochat": small("NanoChat", final_logit_softcapping=6.0),
    "vaultgemma": small("VaultGemma", head_dim=16, num_hidden_layers=3, sliding_window=11, query_pre_attn_scalar=24,
                        attn_logit_softcapping=4.0, final_logit_softcapping=9.0, tie_word_embeddings=True),
    "gpt-bigcode": (transformers.GPTBigCodeConfig(**GPT), "float32", True, None),
    "gpt-bigcode-heads": (transformers.GPTBigCodeConfig(**GPT, multi_query=False), "float32", True, None),
    "gpt-neo": small("GPTNeo", drop=["num_hidden_layers", "num_attention_heads", "num_key_value_heads"], num_layers=3,
                     num_heads=4, window_size=10, attention_types=[[["global", "local"], 1], [["local"], 1]],
                     tie_word_embeddings=True),
    "codegen": (transformers.CodeGenConfig(**GPT, rotary_dim=4), "float16", True, None),
    "mpt": (transformers.MptConfig(vocab_size=96, d_model=48, n_layers=2, n_heads=6, max_seq_len=160, bos_token_id=1,
                                   eos_token_id=2, attn_config=dict(clip_qkv=2.0)), "bfloat16", True, None),
    "persimmon": small("Persimmon", drop=["num_key_value_heads"], rope_parameters=rope(partial_rotary_factor=0.5)),
    "biogpt": small("BioGpt", drop=["num_key_value_heads"], pad_token_id=0, tie_word_embeddings=True),
    "deepseek-v2": small("DeepseekV2", drop=["num_key_value_heads"], num_hidden_layers=3, q_lora_rank=None,
                         kv_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10,
                         moe_intermediate_size=20, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                         topk_method="greedy", first_k_dense_replace=1, routed_scaling_factor=1.0),
    "deepseek-v2-groups": small("DeepseekV2", drop=["num_key_value_heads"], q_lora_rank=20, kv_lora_rank=24,
                                qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, moe_intermediate_size=20,
                                n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2,
                                topk_method="group_limited_greedy", routed_scaling_factor=3.0, attention_bias=True,
                                rope_parameters=rope(kind="yarn", factor=8.0, original_max_position_embeddings=20,
                                                     mscale=0.707, mscale_all_dim=0.707)),
    "deepseek-v3": small("DeepseekV3", drop=["num_key_value_heads"], num_key_value_heads=4, num_hidden_layers=3,
                         q_lora_rank=20, kv_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=14,
                         moe_intermediate_size=20, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                         n_group=4, topk_group=2, first_k_dense_replace=1,
                         rope_parameters=rope(kind="yarn", factor=8.0, original_max_position_embeddings=20,
                                              beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)),
    "glm4-moe-lite": small("Glm4MoeLite", num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=24, qk_rope_head_dim=8,
                           qk_nope_head_dim=12, v_head_dim=16, moe_intermediate_size=20, n_routed_experts=6,
                           num_experts_per_tok=2, n_shared_experts=1),
}


def randomise(model, generator):
    """Draw every weight; matrices keep the scale of what passes through them, biases and norms are far from neutral."""
    modules = dict(model.named_modules())
    corrections = [(n, b) for n, b in model.named_buffers() if n.endswith("correction_bias")]
    for name, p in [*model.named_parameters(), *corrections]:
        noise = torch.randn(p.shape, generator=generator)
        module = modules[name.rpartition(".")[0]]
        kind = type(module).__name__
        if name.endswith("correction_bias"):
            value = 0.2 * noise
        elif name.endswith("bias"):
            value = (0.1 if model.config.model_type == "persimmon" else 0.5) * noise  # which would repeat itself
        elif "Norm" in kind:
            offset = 0.0 if kind.startswith("Gemma") or kind.endswith("1P") else 1.0  # added in the computation
            value = offset + 0.4 * noise
        elif p.dim() < 2:
            value = noise
        elif isinstance(module, torch.nn.Embedding):
            value = (0.06 if "Scaled" in kind else 0.4) * noise  # not so large that each token repeats itself
        elif kind == "Conv1D":
            value = noise * 1.9 / p.shape[0] ** 0.5
        elif "lm_head" in name:
            value = 0.4 * noise
        elif any(part in name for part in ("q_proj", "k_proj")):
            value = noise * 2.2 / p.shape[1] ** 0.5  # sharp attention: what is attended to matters
        else:
            value = noise * 1.6 / p.shape[1] ** 0.5
        p.data.copy_(value)


def to_mxfp4(out):
    """Rewrite the experts of a gpt-oss checkpoint as the published ones hold them: 4-bit floats in blocks of 32 inputs,
    transposed. The weights are replaced by what the blocks stand for, which transformers then computes with."""
    tensors = load_file(out / "model.safetensors")
    values = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
    packed = {}
    for name in [n for n in tensors if n.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        w = tensors[name].float().transpose(1, 2)  # [experts, out, in]
        blocks = w.reshape(*w.shape[:2], -1, 32)
        exponent = torch.floor(torch.log2(blocks.abs().amax(-1).clamp(min=1e-30))) - 2
        scaled = blocks / 2 ** exponent[..., None]
        codes = (scaled[..., None] - values).abs().argmin(-1)
        codes[(codes == 8)] = 0
        tensors[name] = (values[codes] * 2 ** exponent[..., None]).reshape(w.shape).transpose(1, 2).contiguous()
        pairs = codes.reshape(*codes.shape[:-1], 16, 2)
        packed[name + "_blocks"] = (pairs[..., 0] | pairs[..., 1] << 4).to(torch.uint8).contiguous()
        packed[name + "_scales"] = (exponent + 127).to(torch.uint8).contiguous()
        packed[name] = None
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return {**{n: t for n, t in tensors.items() if n not in packed}, **{n: t for n, t in packed.items() if t is not None}}


def to_v4(path):
    """Rewrite config.json as transformers 4 wrote it: rope_theta and rope_scaling in place of rope_parameters."""
    config = json.loads(path.read_text())
    config["torch_dtype"] = config.pop("dtype")
    if rope := config.pop("rope_parameters", None):
        theta, share = rope.pop("rope_theta"), rope.pop("partial_rotary_factor", None)
        neox = config["model_type"] == "gpt_neox"
        config["rotary_emb_base" if neox else "rope_theta"] = theta
        if share is not None:
            config["rotary_pct" if neox else "partial_rotary_factor"] = share
        kind = rope.pop("rope_type")
        older = kind in ("linear", "longrope")
        config["rope_scaling"] = None if kind == "default" else {("type" if older else "rope_type"): kind, **rope}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


@torch.no_grad()
def greedy(model, prompt):
    """Logits of the prompt, greedy continuation, and the smallest lead of a chosen token over the next best."""
    ids = torch.tensor([prompt])
    out = model(input_ids=ids, use_cache=False)
    prompt_logits = out.logits[0].float()
    tokens, margin = [], float("inf")
    last = prompt_logits[-1]
    for _ in range(NEW_TOKENS):
        top = last.topk(2)
        margin = min(margin, (top.values[0] - top.values[1]).item())
        tokens.append(top.indices[0].item())
        ids = torch.cat([ids, top.indices[:1].reshape(1, 1)], dim=1)
        last = model(input_ids=ids, use_cache=False).logits[0, -1].float()
    return prompt_logits, tokens, margin


def make(name):
    config, dtype, v4, shard = CASES[name]
    out = HERE / "golden" / name
    for seed in range(200):
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        randomise(model, generator)
        shutil.rmtree(out, ignore_errors=True)
        model.to(getattr(torch, dtype)).save_pretrained(out, **({"max_shard_size": shard} if shard else {}))
        mxfp4 = to_mxfp4(out) if name.endswith("mxfp4") else None
        # What the file holds after rounding is what both sides compute with, in float32.
        model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
        prompts = [torch.randint(3, config.vocab_size, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
        results = [greedy(model, p) for p in prompts]
        margin = min(r[2] for r in results)
        distinct = min(len(set(r[1])) for r in results)
        if margin >= (MIN_MARGIN if config.vocab_size == VOCAB else MIN_MARGIN / 5) and distinct >= MIN_DISTINCT:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy choices")
    if v4:
        to_v4(out / "config.json")
    if mxfp4:
        save_file(mxfp4, out / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((out / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
        (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file({f"logits.{i}": r[0].contiguous() for i, r in enumerate(results)}, out / "golden.safetensors")
    golden = {"seed": seed, "margin": round(margin, 5), "prompts": prompts, "greedy": [r[1] for r in results]}
    (out / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{name}: seed {seed}, margin {margin:.4f}, distinct {distinct}, logits up to {max(r[0].abs().max().item() for r in results):.1f}")


ROPES = [
    dict(rope_type="default", rope_theta=10000.0),
    dict(rope_type="default", rope_theta=1000000.0),
    dict(rope_type="linear", rope_theta=10000.0, factor=2.5),
    dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0),
    dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
         original_max_position_embeddings=8192),
    dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
         original_max_position_embeddings=8192),
    dict(rope_type="llama3", rope_theta=10000.0, factor=3.0, low_freq_factor=0.5, high_freq_factor=7.0),
    dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768),
    dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768, truncate=False),
    dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, original_max_position_embeddings=4096, beta_fast=16.0,
         beta_slow=2.0, mscale=0.707, mscale_all_dim=1.0),
    dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=4096, attention_factor=1.5),
    dict(rope_type="yarn", rope_theta=10000.0, factor=1.0, original_max_position_embeddings=131072),
    dict(rope_type="yarn", rope_theta=2.0, factor=4.0, original_max_position_embeddings=4),
]


def make_ropes():
    """Frequencies and attention factor of rope variants, for heads of 64 and 128, over 131072 positions."""
    out = []
    for dim in (64, 128):
        for rope in ROPES:
            config = LlamaConfig(head_dim=dim, max_position_embeddings=131072, rope_parameters=dict(rope))
            embedding = LlamaRotaryEmbedding(config)
            out.append({"head_dim": dim, "rope_parameters": rope, "attention": embedding.attention_scaling,
                        "frequencies": embedding.inv_freq.tolist()})
    (HERE / "ropes.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_ropes()
    for case in sys.argv[1:] or CASES:
        make(case)
