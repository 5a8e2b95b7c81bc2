"""Writes the demo model as GGUF files, one for each type of blocks that llama.cpp quantises to without samples, by
llama.cpp's own code:

    python3 -m pip install gguf==0.19.0 numpy==2.3.5
    python3 forms.py LIBGGML OUT [TYPE ...]

LIBGGML is libggml-base.so of a build of llama.cpp, such as that of node-llama-cpp, which `make bench-peers` fetches:
~/.cache/tgi/peers/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so. Then

    tgi eval --suite accuracy --forms fp32,OUT/q4_0.gguf,OUT/q4_k.gguf,...
"""

import ctypes
import json
import pathlib
import sys

import gguf
import numpy as np

DEMO = pathlib.Path(__file__).resolve().parents[2] / "models/demo/checkpoint"
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]


def tensors():
    """The demo's tensors, whose 16-bit floats are the upper halves of 32-bit ones."""
    data = (DEMO / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            halves = np.frombuffer(data[8 + size + begin:8 + size + end], np.uint16)
            yield name, (halves.astype(np.uint32) << 16).view(np.float32).reshape(t["shape"])


def quantised(lib, kind, x):
    """Blocks of a matrix, as llama.cpp makes them."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = x.shape
    out = np.zeros((rows, columns // elements * size), np.uint8)
    x = np.ascontiguousarray(x)
    written = lib.ggml_quantize_chunk(int(kind), x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                      0, rows, columns, None)
    if written != out.size:
        raise SystemExit(f"{kind.name}: {written} bytes, want {out.size}")
    return out


def permuted(x, heads):
    """Rows of queries and keys in llama.cpp's order: the two numbers that are turned together are neighbours."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def write(lib, kind, path):
    c = json.loads((DEMO / "config.json").read_text())
    t = json.loads((DEMO / "tokenizer.json").read_text())
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("tgi-demo " + kind.name)
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_vocab_size(c["vocab_size"])
    special = {a["content"] for a in t["added_tokens"]}
    tokens = sorted(t["model"]["vocab"] | {a["content"]: a["id"] for a in t["added_tokens"]}, key=(
        t["model"]["vocab"] | {a["content"]: a["id"] for a in t["added_tokens"]}).get)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL if s in special else gguf.TokenType.NORMAL for s in tokens])
    w.add_token_merges([" ".join(m) for m in t["model"]["merges"]])
    w.add_eos_token_id(c["eos_token_id"])
    w.add_add_bos_token(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, c["num_hidden_layers"])
    for name, x in tensors():
        to = names.get_name(name, try_suffixes=(".weight",))
        if "q_proj" in name:
            x = permuted(x, c["num_attention_heads"])
        if "k_proj" in name:
            x = permuted(x, c["num_key_value_heads"])
        if x.ndim == 1:
            w.add_tensor(to, x)
        else:
            w.add_tensor(to, quantised(lib, kind, x), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main(library, out, *types):
    lib = ctypes.CDLL(library)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_void_p]
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name in types or TYPES:
        write(lib, gguf.GGMLQuantizationType[name], out / f"{name.lower()}.gguf")


if __name__ == "__main__":
    main(*sys.argv[1:])
