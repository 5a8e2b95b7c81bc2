#!/usr/bin/env python3
"""Records the perplexity of the demo model on the licence, as Python's transformers computes it.

    python3 -m pip install torch==2.15.0 transformers==5.23.0
    python3 make_perplexity.py    # writes perplexity.json
"""

import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@torch.inference_mode()
def main():
    folder = ROOT / "models/demo/checkpoint"
    tok = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = tok((ROOT / "LICENSE").read_text(), return_tensors="pt").input_ids
    out = []
    for window, stride in ((1000, 500), (256, 128), (100, 100), (64, 1000)):
        stride, scored, total, before, windows = min(stride, window), 0, 0.0, 0, 0
        for begin in range(0, ids.size(1), stride):
            end = min(begin + window, ids.size(1))
            logits = model(ids[:, begin:end]).logits[0].double().log_softmax(-1)
            for i in range(max(before - begin, 1), end - begin):
                total -= logits[i - 1, ids[0, begin + i]].item()
                scored += 1
            before, windows = end, windows + 1
            if end == ids.size(1):
                break
        out.append(dict(window=window, stride=stride, tokens=ids.size(1), scored=scored, windows=windows, nll=total / scored,
                        perplexity=math.exp(total / scored)))
    (HERE / "perplexity.json").write_text("[\n" + ",\n".join(map(json.dumps, out)) + "\n]\n")


if __name__ == "__main__":
    main()
