"""Writes a Llama checkpoint of random weights in GPTQ's form, 4 bits in groups of 32, for vLLM: gptq.py SHAPE FOLDER.

SHAPE is one of those of gguf.py. The embedding, which is the head too, has 16 bits, as such checkpoints have it.
"""

import json
import os
import struct
import sys

import numpy as np

from gguf import SHAPES

BITS, GROUP = 4, 32
rng = np.random.default_rng(0)


def half(*dims):
    """Small random numbers as bfloat16."""
    return "BF16", dims, (rng.standard_normal(dims).astype(np.float32) * 0.02).view(np.uint32) >> 16


def linear(name, columns, rows):
    codes = rng.integers(0, 2**32, (columns * BITS // 32, rows), dtype=np.uint32)
    groups = columns // GROUP
    yield name + ".qweight", ("I32", codes.shape, codes)
    yield name + ".qzeros", ("I32", (groups, rows * BITS // 32), np.full((groups, rows * BITS // 32), 0x77777777))
    yield name + ".scales", ("F16", (groups, rows), (rng.random((groups, rows)) * 0.004).astype(np.float16))
    yield name + ".g_idx", ("I32", (columns,), np.arange(columns) // GROUP)


def ones(n):
    return "BF16", (n,), np.full(n, 0x3F80)


def tensors(hidden, layers, heads, kv, size, inner, vocab):
    yield "model.embed_tokens.weight", half(vocab, hidden)
    yield "model.norm.weight", ones(hidden)
    for i in range(layers):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", ones(hidden)
        yield p + "post_attention_layernorm.weight", ones(hidden)
        for name, columns, rows in [
            ("self_attn.q_proj", hidden, heads * size), ("self_attn.k_proj", hidden, kv * size),
            ("self_attn.v_proj", hidden, kv * size), ("self_attn.o_proj", heads * size, hidden),
            ("mlp.gate_proj", hidden, inner), ("mlp.up_proj", hidden, inner), ("mlp.down_proj", inner, hidden),
        ]:
            yield from linear(p + name, columns, rows)


def main(shape, folder):
    hidden, layers, heads, kv, size, inner, vocab, positions = SHAPES[shape]
    os.makedirs(folder, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16", "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv, "head_dim": size, "vocab_size": vocab, "max_position_embeddings": positions,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": 256,
        "eos_token_id": 257,
        "quantization_config": {"quant_method": "gptq", "bits": BITS, "group_size": GROUP, "sym": True,
                                "desc_act": False, "lm_head": False},
    }
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    kinds = {"BF16": np.uint16, "F16": np.float16, "I32": np.uint32}
    header, data, at = {}, [], 0
    for name, (kind, dims, values) in tensors(hidden, layers, heads, kv, size, inner, vocab):
        b = np.ascontiguousarray(values, dtype=kinds[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(dims), "data_offsets": [at, at + len(b)]}
        data.append(b)
        at += len(b)
    head = json.dumps(header).encode()
    file = os.path.join(folder, "model.safetensors")
    with open(file + ".partial", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.writelines(data)
    os.replace(file + ".partial", file)  # run takes a file of this name for a whole one


main(*sys.argv[1:3])
