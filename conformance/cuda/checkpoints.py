#!/usr/bin/env python3
"""Writes tiny random checkpoints whose heads and experts have sizes that GPUs take, one for each folder of reference
data, whose own heads have 8 numbers mostly. It needs PyTorch and transformers; nothing is fetched.

    python3 conformance/cuda/checkpoints.py FOLDER [NAME ...]

Each has the settings of its reference data (windows, sinks, norms, caps, scalings of rotary embeddings), other sizes,
and 1024 positions, so that sequences cross blocks of the cache. golden.json and golden.safetensors hold prompts and
the logits that transformers computes for them in float32. The output says how many were made, and which were not: of
classes that the installed transformers does not have.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import zlib

POSITIONS = 1024
PROMPT_LENGTHS = (1, 40, 600)
# Tables over which sizes go, each with a number of entries of its own, so that they meet in many ways.
HEAD_DIMS = (64, 32, 128, 16)
HIDDEN = (128, 64, 96)
INNER = (160, 192, 200)
EXPERT_INNER = (64, 128, 72, 96, 24)
VOCABS = (193, 257)
# Names that configurations have for the same thing.
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
WIDTH = ("hidden_size", "n_embd", "d_model")
LENGTH = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len")
WINDOW = ("sliding_window", "window_size")
MIXTURE = ("num_local_experts", "num_experts")


def put(config, names, value):
    """Sets those of the names that the configuration has."""
    for name in names:
        if config.get(name) is not None:
            config[name] = value


def fitted(config, place):
    """The configuration with other sizes; place chooses them."""
    c = json.loads(json.dumps(config))
    c.pop("quantization_config", None)
    heads = next(c[name] for name in HEADS if name in c)
    share = c.get("partial_rotary_factor") or c.get("rotary_pct") or 1.0
    order = HEAD_DIMS[place % len(HEAD_DIMS):] + HEAD_DIMS
    dim = next(d for d in order if d * share % 16 == 0)
    latent = c.get("kv_lora_rank") is not None
    old = c.get("head_dim") or next(c[name] for name in WIDTH if name in c) // heads
    own = c.get("head_dim") is not None and not latent and c["model_type"] not in ("jais2", "helium")
    put(c, WIDTH, HIDDEN[place % len(HIDDEN)] if own or latent else heads * dim)
    if latent:
        rank, rope = ((112, 16), (512, 64), (48, 16))[place % 3]
        c |= dict(kv_lora_rank=rank, qk_rope_head_dim=rope, qk_nope_head_dim=32, qk_head_dim=32 + rope, v_head_dim=48)
        put(c, ("head_dim",), rope)
        put(c, ("q_lora_rank",), 80)
    elif c.get("head_dim") is not None:
        c["head_dim"] = dim
    put(c, ("rotary_dim",), max(16, dim // 2))
    put(c, ("word_embed_proj_dim",), heads * dim)
    put(c, ("query_pre_attn_scalar",), dim * 3 // 2)
    if c.get("attention_multiplier") is not None:  # which is no longer what it was to heads of the old size
        c["attention_multiplier"] *= (old / dim) ** 0.5
    put(c, LENGTH, POSITIONS)
    put(c, ("vocab_size",), VOCABS[place % len(VOCABS)])
    for name in WINDOW:
        if c.get(name) is not None and place % 2 == 0:
            c[name] *= 8
    inner, expert = INNER[place % len(INNER)], EXPERT_INNER[place % len(EXPERT_INNER)]
    put(c, ("intermediate_size", "ffn_dim", "ffn_hidden_size", "shared_intermediate_size",
            "shared_expert_intermediate_size"), inner)
    if c.get("moe_intermediate_size") is not None:
        c["moe_intermediate_size"] = expert
    elif any(c.get(name) is not None for name in MIXTURE):
        c["intermediate_size"] = expert
    long_rope(c, dim)
    for name in ("dtype", "torch_dtype"):
        if name in c:
            c[name] = "bfloat16"
    return c


def long_rope(c, dim):
    """Stretches the factors of rotary frequencies that change with the length to heads of another size."""
    rope = c.get("rope_scaling") or {}
    if "long_factor" not in rope:
        return
    original = 4 * rope["original_max_position_embeddings"]
    rope["original_max_position_embeddings"] = c["original_max_position_embeddings"] = original
    c["max_position_embeddings"] = 4 * POSITIONS
    for name in ("short_factor", "long_factor"):
        old = rope[name]
        rope[name] = [old[i * len(old) // (dim // 2)] for i in range(dim // 2)]


def randomise(torch, model, generator):
    """Draws all weights. Matrices keep the scale of what passes through them; biases and norms are far from neutral."""
    modules = dict(model.named_modules())
    corrections = [(n, b) for n, b in model.named_buffers() if n.endswith("correction_bias")]
    for name, p in [*model.named_parameters(), *corrections]:
        noise = torch.randn(p.shape, generator=generator)
        kind = type(modules[name.rpartition(".")[0]]).__name__
        if name.endswith("correction_bias"):
            value = 0.2 * noise
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "Norm" in kind:
            offset = 0.0 if kind.startswith("Gemma") or kind.endswith("1P") else 1.0  # added in the computation
            value = offset + 0.3 * noise
        elif p.dim() < 2:
            value = noise
        elif "Embedding" in kind:
            value = (0.06 if "Scaled" in kind else 0.4) * noise
        elif kind == "Conv1D":
            value = noise * 1.5 / p.shape[0] ** 0.5
        elif "lm_head" in name:
            value = 0.4 * noise
        elif any(part in name for part in ("q_proj", "k_proj")):  # sharp attention: what is attended to matters
            value = noise * (0.8 if model.config.model_type == "gpt_neo" else 2.0) / p.shape[1] ** 0.5  # unscaled there
        else:
            value = noise * 1.4 / p.shape[-1] ** 0.5
        p.data.copy_(value)


def write(config, name, out):
    """Writes a checkpoint, and what transformers computes with it."""
    import torch
    import transformers
    from safetensors.torch import save_file
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "config.json").write_text(text)
    settings = transformers.AutoConfig.from_pretrained(out)
    model = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
    randomise(torch, model, generator)
    model.to(torch.bfloat16).save_pretrained(out)
    (out / "config.json").write_text(text)  # as it was, and not as this version of transformers writes it
    model = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager")
    if any(hasattr(m, "limit") and m.limit != config.get("swiglu_limit", m.limit) for m in model.modules()):
        return  # a version that knows no other limit than the published one
    model.eval()
    longest = config.get("original_max_position_embeddings") or POSITIONS  # where CUDA's sequences end
    prompts = [torch.randint(3, config["vocab_size"], (min(n, longest),), generator=generator).tolist()
               for n in PROMPT_LENGTHS]
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([p]), use_cache=False).logits[0].float().contiguous() for p in prompts]
    save_file({f"logits.{i}": x for i, x in enumerate(logits)}, out / "golden.safetensors")
    (out / "golden.json").write_text(json.dumps({"prompts": prompts}) + "\n")


def attempt(job):
    """Writes one checkpoint, and returns why it could not be."""
    golden, out, place, name = job
    config = json.loads((golden / name / "config.json").read_text())
    try:
        write(fitted(config, place), name, out / name)
        return None
    except Exception as e:  # of many kinds, for a class that this version has otherwise, or not at all
        shutil.rmtree(out / name, ignore_errors=True)
        return f"- not made: {name}: {type(e).__name__}: {(str(e).strip() or '-').splitlines()[0][:150]}"


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("out", type=pathlib.Path, help="folder that they are written to")
    parse.add_argument("names", nargs="*", help="folders of reference data; all if none is named")
    parse.add_argument("--golden", type=pathlib.Path, default="models/testdata/golden", help="folder of reference data")
    args = parse.parse_args()
    import torch
    import transformers
    names = sorted(f.parent.name for f in args.golden.glob("*/config.json"))
    jobs = [(args.golden, args.out, i, n) for i, n in enumerate(names) if not args.names or n in args.names]
    with concurrent.futures.ProcessPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        missing = list(filter(None, pool.map(attempt, jobs)))
    print(f"{len(jobs) - len(missing)} were made, by transformers {transformers.__version__} and torch "
          f"{torch.__version__}")
    print("\n".join(missing))


if __name__ == "__main__":
    main()
