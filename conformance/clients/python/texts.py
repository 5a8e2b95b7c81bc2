"""What the scripts about vectors and ranks share.

The server at TGI_TEXTS_URL has the demo model and the models roberta, bert-rank and distilbert-labels of
models/testdata/embeddings, where sentence-transformers' results lie beside them.
"""

import gzip
import json
import math
import os

URL = os.environ["TGI_TEXTS_URL"]
FOLDER = os.environ["TGI_TEXTS"]


def golden(name):
    with gzip.open(os.path.join(FOLDER, name, "golden.json.gz")) as f:
        return json.load(f)


ROBERTA = golden("roberta")
TEXTS = [ROBERTA["texts"][0], ROBERTA["texts"][4], "a"]
VECTORS = [ROBERTA["prompts"][""][i] for i in (0, 4, 2)]
RANKS = golden("bert-rank")
QUERY, DOCUMENTS = RANKS["query"], RANKS["texts"]
# Without the empty one: to some clients such are none.
FULL = {i: d for i, d in enumerate(DOCUMENTS) if d}


def like(got, want):
    """Holds that two vectors point the same way."""
    dot = sum(a * b for a, b in zip(got, want, strict=True))
    size = math.sqrt(sum(a * a for a in got) * sum(b * b for b in want))
    assert dot / size > 0.99999, dot / size


def all_like(got, want=VECTORS):
    for a, b in zip(got, want, strict=True):
        like(a, b)


def probability(index):
    """What sentence-transformers' CrossEncoder gives a document."""
    return 1 / (1 + math.exp(-RANKS["pairs"][index][0]))


def ranked(pairs, among=FULL, n=3):
    """Holds that pairs of index and score are the n best among some documents, in their order."""
    pairs = list(pairs)
    best = sorted(among, key=lambda i: -probability(i))[:n]
    assert sorted(i for i, _ in pairs) == sorted(best), (pairs, best)
    for index, score in pairs:
        assert abs(score - probability(index)) < 1e-4, (index, score, probability(index))
    scores = [s for _, s in pairs]
    assert scores == sorted(scores, reverse=True), scores
