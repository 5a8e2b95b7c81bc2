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
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 160
PROMPT_LENGTHS = (1, 7, 45)
NEW_TOKENS = 64
MIN_MARGIN = 2e-3
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


def randomise(model, generator):
    """Draw every weight; matrices keep the scale of what passes through them, biases and norms are far from neutral."""
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if name.endswith("norm.weight"):
            value = 1.0 + 0.4 * noise
        elif name.endswith("bias"):
            value = 0.5 * noise
        elif "embed_tokens" in name:
            value = 0.4 * noise
        elif "lm_head" in name:
            value = 0.4 * noise
        elif any(part in name for part in ("q_proj", "k_proj")):
            value = noise * 2.2 / p.shape[1] ** 0.5  # sharp attention: what is attended to matters
        else:
            value = noise * 1.6 / p.shape[1] ** 0.5
        p.data.copy_(value)


def to_v4(path):
    """Rewrite config.json as transformers 4 wrote it: rope_theta and rope_scaling in place of rope_parameters."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {("type" if kind == "linear" else "rope_type"): kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
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
        # What the file holds after rounding is what both sides compute with, in float32.
        model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
        prompts = [torch.randint(3, VOCAB, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
        results = [greedy(model, p) for p in prompts]
        margin = min(r[2] for r in results)
        distinct = min(len(set(r[1])) for r in results)
        if margin >= MIN_MARGIN and distinct >= MIN_DISTINCT:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy choices")
    if v4:
        to_v4(out / "config.json")
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
