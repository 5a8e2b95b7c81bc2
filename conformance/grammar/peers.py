"""Times another engine on the cases, in the way that ours/main.go times ours.

    peers.py llguidance|xgrammar [--from N] TOKENIZER CASES > RESULTS

Each result is a line of JSON: the case's number, the time that compiling took, why it was refused if it was, and for each
text whether it was admitted with the time of every mask, the first time and again. Times are in nanoseconds. They include
the call from Python, whose cost is measured with calls that do nothing and written as the last line.
"""

import argparse
import json
import sys
from time import perf_counter_ns as now

import numpy as np


class LLGuidance:
    def __init__(self, tokenizer, end, flexible):
        import llguidance

        self.m = llguidance
        one = llguidance.LLTokenizer(tokenizer, eos_token=end)
        self.tokenizer = one.with_slices(llguidance.LLTokenizer.json_slices())
        self.options = {"whitespace_flexible": flexible}
        if not flexible:
            self.options |= {"item_separator": ",", "key_separator": ":"}
        self.words = (one.vocab_size + 31) // 32
        self.bits = np.zeros((1, self.words), dtype=np.int32)
        self.at, self.size = self.bits.ctypes.data, self.bits.nbytes

    def compile(self, schema):
        grammar = self.m.LLMatcher.grammar_from_json_schema(schema, overrides=self.options)
        matcher = self.m.LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, compiled):
        # A matcher that is set back keeps what its automata have learned; only the first time it knows nothing.
        compiled.reset()
        return compiled

    def mask(self, matcher):
        matcher.unsafe_compute_mask_ptr(self.at, self.size)

    def accept(self, matcher, token):
        return matcher.consume_token(token)

    def nothing(self, matcher):
        matcher.is_error()


class XGrammar:
    def __init__(self, tokenizer, end, flexible):
        import xgrammar

        self.m = xgrammar
        with open(tokenizer) as f:
            data = json.load(f)
        tokens = {i: t for t, i in data["model"]["vocab"].items()}
        tokens |= {a["id"]: a["content"] for a in data["added_tokens"]}
        vocab = [tokens.get(i, "") for i in range(max(tokens) + 1)]
        info = xgrammar.TokenizerInfo(vocab, xgrammar.VocabType.BYTE_LEVEL, stop_token_ids=[end])
        self.compiler = xgrammar.GrammarCompiler(info)
        self.options = {"any_whitespace": flexible, "strict_mode": False}
        if not flexible:
            self.options["separators"] = (",", ":")
        tensor = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.tensor, self.bits = tensor, tensor.numpy()

    def compile(self, schema):
        return self.compiler.compile_json_schema(schema, **self.options)

    def start(self, compiled):
        return self.m.GrammarMatcher(compiled)

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.tensor)

    def accept(self, matcher, token):
        return matcher.accept_token(token)

    def nothing(self, matcher):
        matcher.is_terminated()


def walk(engine, matcher, tokens):
    """Follows a text to its end or to the first token that may not come, with a mask before each token."""
    masks, accepts, bits = [], [], engine.bits
    for token in tokens:
        start = now()
        engine.mask(matcher)
        masks.append(now() - start)
        if not int(bits[0, token // 32]) >> (token % 32) & 1:
            return masks, accepts, False
        start = now()
        ok = engine.accept(matcher, token)
        accepts.append(now() - start)
        if not ok:
            return masks, accepts, False
    return masks, accepts, True


def follow(engine, case, number, end):
    out = {"case": number, "texts": []}
    start = now()
    try:
        compiled = engine.compile(case["Schema"])
    except Exception as e:  # each engine has its own
        out["refused"] = str(e) or type(e).__name__
    out["compile"] = now() - start
    if "refused" in out:
        return out
    for tokens in case["Tokens"]:
        text = {}
        text["first"], text["accept"], text["admitted"] = walk(engine, engine.start(compiled), tokens + [end])
        text["again"], _, _ = walk(engine, engine.start(compiled), tokens + [end])
        out["texts"].append(text)
    return out


def main():
    args = argparse.ArgumentParser()
    args.add_argument("engine", choices=["llguidance", "xgrammar"])
    args.add_argument("--from", dest="first", type=int, default=0)
    args.add_argument("tokenizer")
    args.add_argument("cases")
    args = args.parse_args()
    with open(args.cases) as f:
        data = json.load(f)
    kind = {"llguidance": LLGuidance, "xgrammar": XGrammar}[args.engine]
    engine = kind(args.tokenizer, data["End"], data["Whitespace"] == "flexible")
    warm = engine.compile('{"type":"null"}')  # as ours does
    for number, case in enumerate(data["Cases"]):
        if number >= args.first:
            print(json.dumps(follow(engine, case, number, data["End"])), flush=True)
    matcher, calls = engine.start(warm), []
    for _ in range(10000):
        start = now()
        engine.nothing(matcher)
        calls.append(now() - start)
    print(json.dumps({"call": sorted(calls)[len(calls) // 2]}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
