"""Prints the medians of the figures that run collects, and the bound that memory sets."""

import collections
import json
import statistics
import sys

rates = collections.defaultdict(list)  # (shape, program, what)
size, roof = {}, []
for line in open(sys.argv[1]):
    shape, program, rest = line.split(" ", 2)
    if program == "bytes":
        size[shape] = int(rest)
    elif program == "roof":
        roof.append(float(rest))
    else:
        j = json.loads(rest)
        if program == "llama.cpp":
            rates[shape, program, j["streams"]].append(j["decode"])
            if "prefill" in j:
                rates[shape, program, "prompts of 512"].append(j["prefill"])
            continue
        for d in j["decode"]:
            rates[shape, program, d["streams"]].append(d["tokens_per_s"])
        rates[shape, program, "prompts of 512"].append(j["prefill_tokens_per_s"])

programs = [p for p in ("tgi", "base", "llama.cpp") if any(k[1] == p for k in rates)]
print("| shape | streams | " + " | ".join(programs) + " | " + " | ".join(f"of {p}" for p in programs[1:]) + " |")
print("|---" * (2 * len(programs) + 1) + "|")
for shape in size:
    for what in (1, 4, 16, "prompts of 512"):
        m = [statistics.median(rates[shape, p, what]) for p in programs]
        cells = [f"{x:.0f}" for x in m] + [f"{m[0] / x:.1f}" for x in m[1:]]
        print(f"| {shape} | {what} | " + " | ".join(cells) + " |")
bandwidth = max(roof)  # a bound: other work on the machine can only lower it
print(f"\nMemory is read at {bandwidth:.1f} GB/s, so one stream can have at most:")
for shape, n in size.items():
    print(f"  {shape}: {bandwidth * 1e9 / n:.0f} tokens/s ({n / 1e6:.0f} MB of 4-bit weights for each token)")
