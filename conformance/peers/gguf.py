"""Writes a GGUF of random weights in the shape of a public model, for llama.cpp: gguf.py QUANT SHAPE FILE.

QUANT is q4_0, q8_0 or q6_k (whose rows must be a multiple of 256), SHAPE one of those of `tgi bench --shape`. All have
the layout of Llama, without biases. Needs numpy.
"""

import struct
import sys

import numpy as np

# hidden size, layers, heads, key/value heads, head size, intermediate size, vocabulary, positions
SHAPES = {
    "smollm2-135m": (576, 30, 9, 3, 64, 1536, 49152, 2048),
    "qwen2.5-0.5b": (896, 24, 14, 2, 64, 4864, 151936, 4096),
    "llama3.2-1b": (2048, 16, 32, 8, 64, 8192, 128256, 4096),
}
# number of the type, weights of a block, its bytes, where its scale is, and the most that the scale may be
TYPES = {"q4_0": (2, 32, 18, 0, 0.004), "q8_0": (8, 32, 34, 0, 0.004), "q6_k": (14, 256, 210, 208, 0.00002)}
FILES = {"q4_0": 2, "q8_0": 7, "q6_k": 18}  # the number of a file's type, which OpenVINO wants
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
ALIGN = 32

rng = np.random.default_rng(0)


def multiplications(shape, head):
    """The multiply-adds with weights for one token; a token of a prompt does without the head."""
    hidden, layers, heads, kv, size, inner, vocab, _ = SHAPES[shape]
    return layers * hidden * (2 * heads * size + 2 * kv * size + 3 * inner) + head * hidden * vocab


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if kind == STRING:
        return text(v)
    return struct.pack({U32: "<I", F32: "<f", I32: "<i"}[kind], v)


def entry(key, kind, v):
    return text(key) + struct.pack("<I", kind) + value(kind, v)


def array(key, kind, items):
    head = text(key) + struct.pack("<IIQ", ARRAY, kind, len(items))
    return head + b"".join(value(kind, v) for v in items)


def vocabulary(size):
    """The 256 bytes as GPT-2 writes them, and made-up tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars, n = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in chars:
            chars[b], n = chr(256 + n), n + 1
    return [chars[b] for b in range(256)] + [f"<t{i}>" for i in range(size - 256)]


def matrix(quant, columns, rows):
    """Random codes, with scales that keep activations in bounds."""
    number, block, size, at, most = TYPES[quant]
    blocks = rng.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
    scales = (rng.random(len(blocks)) * most).astype(np.float16)
    blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return number, blocks.tobytes()


def main(quant, shape, path):
    hidden, layers, heads, kv, size, inner, vocab, positions = SHAPES[shape]
    tokens = vocabulary(vocab)
    keys = [
        entry("general.architecture", STRING, "llama"), entry("general.name", STRING, shape),
        entry("general.file_type", U32, FILES[quant]),
        entry("llama.block_count", U32, layers), entry("llama.context_length", U32, positions),
        entry("llama.embedding_length", U32, hidden), entry("llama.feed_forward_length", U32, inner),
        entry("llama.attention.head_count", U32, heads), entry("llama.attention.head_count_kv", U32, kv),
        entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), entry("llama.rope.dimension_count", U32, size),
        entry("llama.rope.freq_base", F32, 10000.0), entry("llama.vocab_size", U32, vocab),
        entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "default"),
        array("tokenizer.ggml.tokens", STRING, tokens), array("tokenizer.ggml.token_type", I32, [1] * vocab),
        array("tokenizer.ggml.merges", STRING, [tokens[0] + " " + tokens[1]]),
        entry("tokenizer.ggml.bos_token_id", U32, 256), entry("tokenizer.ggml.eos_token_id", U32, 257),
    ]
    tensors = []

    def add(name, *dims):
        if len(dims) == 1:
            tensors.append((name, dims, 0, np.ones(dims, np.float32).tobytes()))
        else:
            tensors.append((name, dims, *matrix(quant, *dims)))

    add("token_embd.weight", hidden, vocab)
    add("output_norm.weight", hidden)
    for i in range(layers):
        p = f"blk.{i}."
        add(p + "attn_norm.weight", hidden)
        add(p + "ffn_norm.weight", hidden)
        add(p + "attn_q.weight", hidden, heads * size)
        add(p + "attn_k.weight", hidden, kv * size)
        add(p + "attn_v.weight", hidden, kv * size)
        add(p + "attn_output.weight", heads * size, hidden)
        add(p + "ffn_gate.weight", hidden, inner)
        add(p + "ffn_up.weight", hidden, inner)
        add(p + "ffn_down.weight", inner, hidden)
    head, at = b"", 0
    for name, dims, number, data in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at)
        at += -(-len(data) // ALIGN) * ALIGN
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + head)
        f.write(bytes(-f.tell() % ALIGN))
        for *_, data in tensors:
            f.write(data + bytes(-len(data) % ALIGN))


if __name__ == "__main__":
    main(*sys.argv[1:4])
