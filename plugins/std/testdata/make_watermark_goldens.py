#!/usr/bin/env python3
"""Makes watermark_goldens.json: which candidates transformers' own
WatermarkLogitsProcessor(seeding_scheme="selfhash") favours, what its
WatermarkDetector counts in texts, and the same for the plugin's keyed scheme
by detect.py, which shares no code with the plugin.

    pip install torch==2.15.0 transformers==5.23.0 numpy
    python make_watermark_goldens.py > watermark_goldens.json
"""
import json
import pathlib
import random
import sys

import torch
from transformers import PretrainedConfig, WatermarkDetector, WatermarkLogitsProcessor

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "watermark"))
import detect  # noqa: E402

TOP = 40


def steps(vocab, ratio, key, width, rng, count):
    processor = WatermarkLogitsProcessor(vocab, "cpu", ratio, 2.0, key, "selfhash", width)
    out = []
    for n in range(count):
        tokens = [rng.randrange(vocab) for _ in range(width + n)]
        candidates = rng.sample(range(vocab), TOP)
        scores = torch.full((1, vocab), -1e9)
        for rank, c in enumerate(candidates):
            scores[0, c] = 40 - rank
        after = processor(torch.tensor([tokens]), scores)
        green = [c for c in candidates if after[0, c] != scores[0, c]]
        rule = detect.Rule(ratio, key, width)
        keyed = [c for c in candidates if rule.green((tokens + [c])[-width:])]
        out.append({"tokens": tokens, "candidates": candidates, "green": green, "keyed": keyed})
    return out


def text(vocab, ratio, key, width, rng, bias):
    """Draws from 40 random candidates, with the bias of transformers."""
    processor = WatermarkLogitsProcessor(vocab, "cpu", ratio, bias, key, "selfhash", width)
    tokens = [rng.randrange(vocab) for _ in range(width)]
    g = torch.Generator().manual_seed(rng.randrange(2**31))
    while len(tokens) < 120:
        scores = torch.full((1, vocab), -1e9)
        for c in rng.sample(range(vocab), TOP):
            scores[0, c] = rng.gauss(0, 2)
        if bias:
            scores = processor(torch.tensor([tokens]), scores)
        tokens.append(torch.multinomial(torch.softmax(scores, -1), 1, generator=g).item())
    return tokens


def main():
    rng = random.Random(1)
    cases, texts = [], []
    for vocab, ratio, key, width, count in [
        (259, 0.25, 15485863, 4, 6),
        (2048, 0.25, 15485863, 4, 6),
        (2048, 0.5, 7, 2, 4),
        (2048, 0.9, 9007199254740991, 1, 3),
        (32000, 0.25, 123456789012, 6, 3),
        (50257, 0.25, 15485863, 4, 3),
        (128256, 0.25, 15485863, 4, 3),
        (151936, 0.5, 15485863, 4, 2),
    ]:
        cases.append({"vocab": vocab, "ratio": ratio, "key": key, "width": width, "steps": steps(vocab, ratio, key, width, rng, count)})
    vocab, ratio, key, width = 2048, 0.25, 15485863, 4
    config = {"greenlist_ratio": ratio, "bias": 2.0, "hashing_key": key, "seeding_scheme": "selfhash", "context_width": width}
    detector = WatermarkDetector(PretrainedConfig(vocab_size=vocab, bos_token_id=vocab), "cpu", config, True)
    rule = detect.Rule(ratio, key, width)
    for bias in [0, 2.0]:
        tokens = text(vocab, ratio, key, width, rng, bias)
        found = detector(torch.tensor([tokens]), return_dict=True)
        own = rule.score(tokens)
        texts.append({
            "vocab": vocab, "ratio": ratio, "key": key, "width": width, "bias": bias, "tokens": tokens,
            "scored": int(found.num_tokens_scored[0]), "green": int(found.num_green_tokens[0]), "z": float(found.z_score[0]),
            "keyed": own.green, "keyed_z": own.z,
        })
    json.dump({"cases": cases, "texts": texts}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
