"""Prints the medians of the figures that run collects, and the bounds that memory and multiplications set."""

import collections
import json
import statistics
import sys

from gguf import multiplications

rates = collections.defaultdict(list)  # (shape, program, what)
size, reads, multiplies, instruction, load = {}, [], [], "", []
PROMPTS = "prompts of 512"
for line in open(sys.argv[1]):
    shape, program, rest = line.rstrip("\n").split(" ", 2)
    if program == "bytes":
        size[shape] = int(rest)
    elif program == "roof":
        read, multiply, instruction = rest.split(" ", 2)
        reads.append(float(read))
        multiplies.append(float(multiply))
    elif program == "load":
        load.append(float(rest))
    else:
        j = json.loads(rest)
        if program not in ("tgi", "base"):
            rates[shape, program, j["streams"]].append(j["decode"])
            if "prefill" in j:
                rates[shape, program, PROMPTS].append(j["prefill"])
            continue
        for d in j["decode"]:
            rates[shape, program, d["streams"]].append(d["tokens_per_s"])
        rates[shape, program, PROMPTS].append(j["prefill_tokens_per_s"])

# The bounds are the best that was measured: other work on the machine can only lower them.
bandwidth, peak = max(reads), max(multiplies)


def roof(shape, what):
    """The most tokens per second, by memory and by multiplications; a step reads the weights once for all streams."""
    streams = 512 if what == PROMPTS else what
    per_token = multiplications(shape, head=what != PROMPTS)
    return min(streams * bandwidth * 1e9 / size[shape], peak * 1e9 / per_token)


programs = [p for p in ("tgi", "base", "llama.cpp", "openvino", "vllm") if any(k[1] == p for k in rates)]
print("| shape | streams | " + " | ".join(programs) + " | " + " | ".join(f"of {p}" for p in programs[1:]) + " | roof |")
print("|---" * (2 * len(programs) + 2) + "|")
for shape in size:
    for what in (1, 4, 16, PROMPTS):
        m = [statistics.median(rates[shape, p, what] or [float("nan")]) for p in programs]
        cells = [f"{x:.0f}" for x in m] + [f"{m[0] / x:.1f}" for x in m[1:]] + [f"{roof(shape, what):.0f}"]
        print(f"| {shape} | {what} | " + " | ".join(cells) + " |")
print(f"\nThe roof: {bandwidth:.1f} GB/s of memory, {peak:.0f} billion multiply-adds a second ({instruction}).")
for shape, n in size.items():
    token, prompt = (multiplications(shape, head) / 1e6 for head in (True, False))
    print(f"  {shape}: {n / 1e6:.0f} MB of 4-bit weights for each step; {token:.0f} million multiply-adds for a token, "
          f"{prompt:.0f} for one of a prompt")
if load:
    print(f"Load of the machine before each turn: {', '.join(f'{x:.1f}' for x in load)}")
