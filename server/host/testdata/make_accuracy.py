#!/usr/bin/env python3
"""Records how likely the demo model takes each of its held-out answers for, computed with numpy in 64-bit floats.

    python3 -m pip install numpy==2.3.5 tokenizers==0.23.3
    python3 make_accuracy.py    # writes accuracy.json

The mean over all, 0.137 nats a token, is what train.py printed after the training, as models/demo/README.md says.
"""

import json
import pathlib

import numpy as np
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[2] / "models/demo"
END = 2  # <|im_end|>


def weights():
    """The checkpoint's tensors: 16-bit floats that are the upper halves of 32-bit ones."""
    data = (DEMO / "checkpoint/model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            halves = np.frombuffer(data[8 + size + begin:8 + size + end], np.uint16)
            yield name, (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(t["shape"])


def log_probabilities(w, c, ids):
    """Those of all tokens behind each token."""
    heads, kv, size = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[name + ".weight"]

    def split(x, n):
        return x.reshape(len(ids), n, size).swapaxes(0, 1)

    angle = np.arange(len(ids))[:, None] / c["rope_theta"] ** (np.arange(0, size, 2) / size)
    cos, sin = np.cos(angle), np.sin(angle)

    def turn(x):
        a, b = x[..., :size // 2], x[..., size // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    hidden = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        y = norm(x, p + "input_layernorm")
        q, k, v = (split(y @ w[f"{p}self_attn.{n}_proj.weight"].T, h) for n, h in (("q", heads), ("k", kv), ("v", kv)))
        k, v = (np.repeat(a, heads // kv, 0) for a in (turn(k), v))
        scores = turn(q) @ k.swapaxes(1, 2) / np.sqrt(size) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        y = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(ids), -1)
        x = x + y @ w[p + "self_attn.o_proj.weight"].T
        y = norm(x, p + "post_attention_layernorm")
        gate, up = y @ w[p + "mlp.gate_proj.weight"].T, y @ w[p + "mlp.up_proj.weight"].T
        x = x + gate / (1 + np.exp(-gate)) * up @ w[p + "mlp.down_proj.weight"].T
    logits = norm(x, "model.norm") @ w["model.embed_tokens.weight"].T
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def main():
    c = json.loads((DEMO / "checkpoint/config.json").read_text())
    tok = Tokenizer.from_file(str(DEMO / "checkpoint/tokenizer.json"))
    w = dict(weights())
    out = []
    for line in (DEMO / "heldout.jsonl").read_text().splitlines():
        case = json.loads(line)
        prompt = tok.encode(case["prompt"], add_special_tokens=False).ids
        answer = tok.encode(case["expected"], add_special_tokens=False).ids + [END]
        table = log_probabilities(w, c, np.array(prompt + answer))
        at = len(prompt) - 1
        out.append([len(answer), round(-sum(table[at + i, t] for i, t in enumerate(answer)), 6)])
    print(sum(loss for _, loss in out) / sum(n for n, _ in out), "nats a token")
    (HERE / "accuracy.json").write_text("[\n" + ",\n".join(map(json.dumps, out)) + "\n]\n")


if __name__ == "__main__":
    main()
