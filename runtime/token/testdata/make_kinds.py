#!/usr/bin/env python3
"""Trains a small tokenizer of each kind that make_goldens.py does not have (Unigram, WordPiece, WordLevel, BPE with
affixes) and records what the reference library does with hostile strings.

    pip install -r requirements.txt
    python3 make_kinds.py                        # writes kinds/NAME.json.gz and kinds/NAME.gz, a few hundred strings
    python3 make_kinds.py --count 10240 --out D  # the same tokenizers with more strings, for TOKEN_KINDS=D go test

NAME.gz has one JSON value a line: the strings; for each the tokens as [id, start, end, ...], every other string with
special tokens; and sequences of ids with their text, with and without special tokens.
"""

import argparse
import gzip
import io
import json
import os
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import charsmap
import corpus
from make_goldens import pack, sequences, special

HERE = os.path.dirname(os.path.abspath(__file__))
n, p, d = normalizers, pre_tokenizers, decoders
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def lines():
    out = []
    for t in corpus.training(1):
        out += [line for line in t.replace("\0", "").splitlines() if line.strip()]
    return out


def spm(rule="nmt_nfkc", size=1400, **options):
    """A model of SentencePiece: its vocabulary with scores and its charsmap."""
    from sentencepiece import sentencepiece_model_pb2 as pb

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()), model_writer=model, vocab_size=size, model_type="unigram",
        normalization_rule_name=rule, num_threads=1, character_coverage=0.98, hard_vocab_limit=False, minloglevel=2, **options)
    proto = pb.ModelProto.FromString(model.getvalue())
    return [(x.piece, x.score) for x in proto.pieces], proto.normalizer_spec.precompiled_charsmap


def around(tok, begin, end):
    parts = [(t, tok.token_to_id(t)) for t in (begin, end) if t]
    single = " ".join(filter(None, [begin, "$A", end]))
    tok.post_processor = processors.TemplateProcessing(single=single, special_tokens=parts)


def t5():
    vocab, charmap = spm(unk_id=2, pad_id=0, eos_id=1, bos_id=-1)
    tok = Tokenizer(models.Unigram(vocab, 2, False))
    tok.normalizer = n.Sequence([n.Precompiled(charmap), n.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer, tok.decoder = p.Metaspace(), d.Metaspace()
    around(tok, None, "</s>")
    tok.add_special_tokens(special("<pad>", "</s>", "<unk>", "<extra_id_0>"))
    return tok


def xlmr():
    vocab, charmap = spm("nmt_nfkc_cf", unk_id=0, bos_id=1, eos_id=2)
    tok = Tokenizer(models.Unigram([("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + vocab[3:], 3, False))
    tok.normalizer = n.Precompiled(charmap)
    tok.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), p.Metaspace()])
    tok.decoder = d.Metaspace()
    around(tok, "<s>", "</s>")
    tok.add_special_tokens(special("<s>", "<pad>", "</s>", "<unk>") + [AddedToken("<mask>", lstrip=True, special=True)])
    return tok


def albert():
    vocab, charmap = spm("nfkc")
    tok = Tokenizer(models.Unigram(vocab, 0, False))
    tok.normalizer = n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(),
                                 n.Precompiled(charmap), n.Replace(Regex(" {2,}"), " "), n.Strip(left=False)])
    tok.pre_tokenizer, tok.decoder = p.Metaspace(prepend_scheme="first"), d.Metaspace(prepend_scheme="first")
    around(tok, "<s>", "</s>")
    tok.add_special_tokens(special("<s>", "</s>", "<unk>"))
    return tok


def pieces(split, scheme):
    """Unigram with byte_fallback, as newer models have it."""
    vocab, _ = spm("identity", 1600, byte_fallback=True, remove_extra_whitespaces=False, user_defined_symbols=["<tool>"])
    tok = Tokenizer(models.Unigram(vocab, 0, True))
    tok.pre_tokenizer = p.Metaspace(prepend_scheme=scheme, split=split)
    tok.decoder = d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    around(tok, "<s>", None)
    tok.add_special_tokens(special("<s>", "</s>", "<unk>"))
    tok.add_tokens([AddedToken("New York"), AddedToken("<right>", rstrip=True, normalized=False)])
    return tok


def rules():
    """A charsmap that no model has: rules over several characters, some of which nothing is left of."""
    rng = random.Random(3)
    alphabet = [chr(c) for c in range(1, 0x250)] + corpus.RARE + list(corpus.MARKS) + list("가각नमস্ত日本😀\u200d\ufe0f") + ["\r\n"]
    out = {"": ""}
    while len(out) < 700:
        out["".join(rng.choices(alphabet, k=rng.choice([1, 1, 1, 2, 3])))] = "".join(
            rng.choices(alphabet, k=rng.choice([0, 1, 1, 2, 5])))
    del out[""]
    vocab, _ = spm()
    tok = Tokenizer(models.Unigram(vocab, 0, False))
    tok.normalizer = n.Sequence([n.Precompiled(charsmap.build(out)), n.Prepend("x"), n.Precompiled(charsmap.build({"x": "yy", "yy": "", "é": "e"}))])
    tok.pre_tokenizer = p.Sequence([p.UnicodeScripts(), p.Metaspace(prepend_scheme="never")])
    tok.decoder = d.CTC("<unk>", "▁", True)
    tok.add_special_tokens(special("<unk>"))
    return tok


def word_piece(normalizer, pre, post=True, size=700, **options):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer, tok.pre_tokenizer = normalizer, pre
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    prefix = options.get("continuing_subword_prefix", "##")
    tok.train_from_iterator(lines(), trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=names, show_progress=False, limit_alphabet=300, continuing_subword_prefix=prefix))
    spec = json.loads(tok.to_str())
    spec["model"].update(options)
    tok = Tokenizer.from_str(json.dumps(spec))
    if post:
        tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


def bert():
    tok = word_piece(n.BertNormalizer(), p.BertPreTokenizer())
    tok.decoder = d.WordPiece()
    return tok


def bert_cased():
    tok = word_piece(n.BertNormalizer(lowercase=False), p.BertPreTokenizer(), max_input_chars_per_word=7)
    tok.decoder = d.WordPiece(cleanup=False)
    around(tok, "[CLS]", "[SEP]")
    return tok


def accents():
    """The other settings of BertNormalizer."""
    tok = word_piece(n.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
                     p.Sequence([p.WhitespaceSplit(), p.FixedLength(9)]), False, continuing_subword_prefix="@@")
    tok.decoder = d.WordPiece("@@", True)
    return tok


def nmt():
    tok = word_piece(n.Sequence([n.Nmt(), n.NFKC(), n.BertNormalizer(strip_accents=False)]), p.CharDelimiterSplit(" "), False)
    return tok


def word_level():
    tok = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tok.normalizer = n.Sequence([n.NFKD(), n.StripAccents(), n.Lowercase()])
    tok.pre_tokenizer = p.Sequence([p.Whitespace(), p.Digits(True), p.Punctuation("isolated")])
    tok.train_from_iterator(lines(), trainers.WordLevelTrainer(vocab_size=600, special_tokens=["<unk>", "<s>"], show_progress=False))
    around(tok, "<s>", None)
    return tok


def byte_pair(tok, size=800, **options):
    names = ["<unk>", "<|startoftext|>", "<|endoftext|>"]
    tok.train_from_iterator(lines(), trainers.BpeTrainer(vocab_size=size, special_tokens=names, show_progress=False, limit_alphabet=300, **options))
    return tok


def clip():
    tok = Tokenizer(models.BPE(unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"))
    tok.normalizer = n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()])
    tok.pre_tokenizer = p.Sequence([p.Split(Regex(CLIP), "removed", invert=True), p.ByteLevel(add_prefix_space=False)])
    byte_pair(tok, end_of_word_suffix="</w>")
    tok.decoder = d.ByteLevel()
    tok.post_processor = processors.RobertaProcessing(("<|endoftext|>", 2), ("<|startoftext|>", 1), trim_offsets=False, add_prefix_space=False)
    return tok


def gpt1():
    tok = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    tok.normalizer, tok.pre_tokenizer = n.BertNormalizer(), p.BertPreTokenizer()
    byte_pair(tok, end_of_word_suffix="</w>")
    tok.decoder = d.BPEDecoder("</w>")
    return tok


def prefixed():
    tok = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>", fuse_unk=True))
    tok.pre_tokenizer = p.Whitespace()
    byte_pair(tok, continuing_subword_prefix="##", end_of_word_suffix="</w>")
    tok.decoder = d.Sequence([d.WordPiece("##", True), d.Replace("</w>", ""), d.Fuse(), d.Strip(" ", 0, 1)])
    return tok


KINDS = {
    "t5": t5, "xlmr": xlmr, "albert": albert, "pieces": lambda: pieces(False, "first"),
    "pieces-split": lambda: pieces(True, "always"), "pieces-never": lambda: pieces(False, "never"), "rules": rules,
    "bert": bert, "bert-cased": bert_cased, "accents": accents, "nmt": nmt, "word-level": word_level, "clip": clip,
    "gpt1": gpt1, "prefixed": prefixed,
}

SPECIAL = ["</s>", "<s>", "<unk>", "<pad>", "[CLS]", "[SEP]", "[UNK]", "<mask>", "<tool>", "<extra_id_0>", "<|endoftext|>",
           "<0x41>", "▁", "▁▁", "##a", "</w>", "``", "''", "a b  c   d"]
JOINED = ["\u0915\u094d\u0937", "\u0915\u094d\u200d\u0937", "\u0995\u09cd\u09a4\u0301", "\u0915\u093c\u0301", "각", "ᄀ각ᆨ", "각ᆨ", "\u0600a", "\u110bdx",
          "😀\u200d😀", "©\u200d©\u0301", "😀\u0301\u200d©\u0301", "🇩🇪🇯", "a\u200db", "é\u0301\u0323", "\r\n\r", "\r\u0301", "ก\u0e33", "\u0d4eക"]


def strings(count):
    """Those of the corpus, and more of what divides and joins characters."""
    rng = random.Random(23)
    out = corpus.strings(count, 20)[: count * 7 // 10]
    pools = [SPECIAL, JOINED, corpus.RARE, list(corpus.MARKS), corpus.EMOJI, corpus.SPACES, list(corpus.PUNCT), corpus.WORDS]
    while len(out) < count:
        kind = rng.randrange(6)
        if kind == 0:  # any characters of any plane
            s = "".join(chr(c) for c in (rng.randrange(0x110000) for _ in range(rng.randint(1, 20))) if not 0xD800 <= c <= 0xDFFF)
        elif kind == 1:  # one letter, many marks
            s = rng.choice("aéक가ぁ") + "".join(rng.choices(corpus.MARKS, k=rng.randint(1, 60)))
        elif kind == 2:  # a long word
            s = "".join(rng.choices(rng.choice(["ab", "the", "日本語", "éa\u0301", "▁a", "🙂x"]), k=rng.randint(50, 600)))
        else:
            s = "".join(rng.choice(rng.choice(pools)) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 25)))
        out.append(s)
    return out


def build(name):
    path = os.path.join(HERE, "kinds", name + ".json.gz")
    if not os.path.exists(path):
        pack(os.path.join("kinds", name + ".json.gz"), KINDS[name]().to_str().encode())
    with gzip.open(path) as f:
        return Tokenizer.from_str(f.read().decode())


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--count", type=int, default=320)
    args.add_argument("--out", default=os.path.join(HERE, "kinds"))
    args.add_argument("names", nargs="*")
    args = args.parse_args()
    os.makedirs(os.path.join(HERE, "kinds"), exist_ok=True)
    os.makedirs(args.out, exist_ok=True)
    for name in args.names or KINDS:
        tok = build(name)
        rng, texts, tokens, decoded = random.Random(name), [], [], []
        for s in strings(args.count):
            try:
                enc = tok.encode(s, add_special_tokens=len(texts) % 2 == 0)
            except BaseException:  # where the library itself panics there is nothing to match
                continue
            texts.append(s)
            tokens.append([x for i, (a, b) in zip(enc.ids, enc.offsets) for x in (i, a, b)])
        for ids in sequences(tok, texts, rng, args.count // 3):
            try:
                decoded.append([ids, tok.decode(ids, skip_special_tokens=False), tok.decode(ids, skip_special_tokens=True)])
            except BaseException:  # its Strip and BPEDecoder panic on short sequences
                continue
        with open(os.path.join(args.out, name + ".gz"), "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
            for value in (texts, tokens, decoded):
                z.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
        print(name, len(texts), "strings", len(decoded), "decoded")


if __name__ == "__main__":
    main()
