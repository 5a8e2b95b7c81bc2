#!/usr/bin/env python3
"""Writes goldens.json: processed distributions by transformers' own processors.

    python3 -m pip install -r requirements.txt
    python3 make_goldens.py

Rows are not stored. The test rebuilds them: `row` below uses only operations
that IEEE 754 defines exactly, so that both languages get the same float32s.

transformers has the stages that TGI uses; it lacks TGI's frequency penalty and
the presence penalty and bias of OpenAI, which are written out from their
definitions. Everything is computed in float64, so that a token at the border of
top_p is kept or dropped by the definition and not by rounding; rows in which a
border is nearer than MARGIN are not used.
"""
import json
import pathlib

import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

MARGIN = 2e-6
M64 = (1 << 64) - 1


def row(seed, n, sigma, grid):
    """n logits: sums of four uniforms of a 64-bit LCG, on a grid for ties if grid > 0."""
    state, out = seed, []
    for _ in range(n):
        s = -2.0
        for _ in range(4):
            state = (state * 6364136223846793005 + 1442695040888963407) & M64
            s += (state >> 11) * 2.0**-53
        v = s * sigma
        if grid > 0:
            v = float(int(v / grid)) * grid
        out.append(v)
    return torch.tensor(out, dtype=torch.float64).to(torch.float32).to(torch.float64)


def process(x, p, prompt, output):
    """The pipeline in TGI's order. Returns the row, and the least distance of a border."""
    scores, margin = x[None].clone(), 1.0
    ids = torch.tensor([prompt + output])
    for token, add in p.get("bias", []):
        scores[0, token] += add
    if "repetition_penalty" in p:
        scores = RepetitionPenaltyLogitsProcessor(p["repetition_penalty"])(ids, scores)
    if "frequency_penalty" in p:
        counts = torch.bincount(ids[0], minlength=len(x)).double()
        scores -= p["frequency_penalty"] * counts / ids.shape[1]
    if "presence_penalty" in p:
        scores[0, list(set(output))] -= p["presence_penalty"]
    if "temperature" in p:
        scores = TemperatureLogitsWarper(p["temperature"])(ids, scores)
    if "top_k" in p:
        scores = TopKLogitsWarper(p["top_k"])(ids, scores)
    if "top_p" in p:
        cumulative = scores.softmax(-1).sort().values.cumsum(-1)
        margin = min(margin, (cumulative - (1 - p["top_p"])).abs().min().item())
        scores = TopPLogitsWarper(p["top_p"])(ids, scores)
    if "typical_p" in p:
        logp = scores.log_softmax(-1)
        away = (-logp - -(logp.exp() * logp).nansum()).abs()
        cumulative = logp.exp()[0, away[0].argsort()].cumsum(-1)
        margin = min(margin, (cumulative - p["typical_p"]).abs().min().item())
        scores = TypicalLogitsWarper(p["typical_p"])(ids, scores)
    if "min_p" in p:
        ratio = scores.softmax(-1) / scores.softmax(-1).max()
        margin = min(margin, (ratio - p["min_p"]).abs().min().item())
        scores = MinPLogitsWarper(p["min_p"])(ids, scores)
    return scores[0], margin


def case(name, n, sigma, grid, p, prompt=(), output=()):
    prompt, output = list(prompt), list(output)
    # Settings are float32 on the wire.
    f32 = lambda v: torch.tensor(v, dtype=torch.float32).item() if isinstance(v, float) else v
    p = {k: f32(v) if not isinstance(v, list) else [[t, f32(a)] for t, a in v] for k, v in p.items()}
    for seed in range(1, 100):
        x = row(seed, n, sigma, grid)
        y, margin = process(x, p, prompt, output)
        if margin > MARGIN:
            break
    else:
        raise SystemExit(f"{name}: no row without a border case")
    logp = y.log_softmax(-1)
    kept = torch.nonzero(y > -torch.inf)[:, 0].tolist()
    best = sorted(kept, key=lambda i: (-y[i].item(), i))
    shown = sorted(set(best[:8] + best[-4:] + best[:: max(1, len(best) // 8)]))
    return {
        "name": name, "n": n, "sigma": sigma, "grid": grid, "seed": seed,
        "params": p, "prompt": prompt, "output": output,
        "kept": len(kept), "id_sum": sum(kept), "best": best[0],
        "logprobs": [[i, round(logp[i].item(), 9)] for i in shown],
    }


def main():
    history = dict(prompt=[0, 1, 2, 3, 3, 3, 1], output=[4, 4, 2, 0])
    cases = []
    for n in (5, 33, 1000, 8192):
        for sigma in (0.5, 2.0, 6.0):
            for name, p in {
                "plain": {},
                "temperature": {"temperature": 0.6},
                "top_k": {"top_k": 4},
                "top_p": {"top_p": 0.9},
                "typical_p": {"typical_p": 0.8},
                "min_p": {"min_p": 0.1},
                "k+p": {"temperature": 1.3, "top_k": 20, "top_p": 0.7},
                "all warpers": {"temperature": 0.8, "top_k": 300, "top_p": 0.95, "typical_p": 0.9, "min_p": 0.02},
                "p+typical": {"top_p": 0.97, "typical_p": 0.5},
            }.items():
                cases.append(case(f"{name} n={n} sigma={sigma}", n, sigma, 0, p))
            for name, p in {
                "repetition up": {"repetition_penalty": 1.3},
                "repetition down": {"repetition_penalty": 0.7},
                "frequency": {"frequency_penalty": 1.5},
                "presence": {"presence_penalty": 0.9},
                "bias": {"bias": [[0, 2.5], [3, -100.0]]},
                "everything": {"bias": [[1, 1.5]], "repetition_penalty": 1.2, "frequency_penalty": -0.5,
                               "presence_penalty": 0.4, "temperature": 0.9, "top_k": 100, "top_p": 0.9,
                               "typical_p": 0.95, "min_p": 0.01},
            }.items():
                cases.append(case(f"{name} n={n} sigma={sigma}", n, sigma, 0, p, **history))
    for name, p in {
        "ties at top_k": {"top_k": 7},
        "ties at typical_p": {"typical_p": 0.6},
        "ties at min_p": {"min_p": 0.3},
    }.items():
        cases.append(case(name, 1000, 3.0, 0.25, p))
    cases.append(case("one token", 1, 1.0, 0, {"top_p": 0.5, "typical_p": 0.5, "top_k": 3}))

    text = "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n"
    pathlib.Path(__file__).with_name("goldens.json").write_text(text)


main()
