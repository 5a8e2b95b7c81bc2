"""Writes no_repeat_ngram.txt: what NoRepeatNGramLogitsProcessor of transformers denies.

    pip install torch transformers && python make_no_repeat_ngram.py

Each case is a line "n prompt tokens..." (prompt: how many of the tokens), and for
every length from the prompt's to that of all tokens a line of the ids denied there.
Made with transformers 5.23.0 and torch 2.15.0.
"""

import pathlib
import random

import torch
from transformers import NoRepeatNGramLogitsProcessor

VOCABULARY = 16


def denied(n, tokens):
    scores = NoRepeatNGramLogitsProcessor(n)(torch.tensor([tokens]), torch.zeros(1, VOCABULARY))
    return torch.isinf(scores[0]).nonzero().flatten().tolist()


def cases(draw):
    for n in (1, 2, 3, 4, 6):
        for vocabulary, prompt in ((2, 9), (3, 30), (5, 1), (13, 40)):
            yield n, prompt, [draw.randrange(vocabulary) for _ in range(prompt + 12)]
    # Periods, as of text that loops, broken at times.
    for n in (2, 3, 5, 9):
        period = [draw.randrange(7) for _ in range(6)]
        tokens = (period * 6)[:32]
        tokens[20] = 9
        yield n, 12, tokens


def main():
    lines = []
    for n, prompt, tokens in cases(random.Random(20)):
        lines.append([n, prompt] + tokens)
        lines += [denied(n, tokens[:k]) for k in range(prompt, len(tokens) + 1)]
    text = "\n".join(" ".join(map(str, line)) for line in lines)
    pathlib.Path(__file__).with_name("no_repeat_ngram.txt").write_text(text + "\n")


main()
