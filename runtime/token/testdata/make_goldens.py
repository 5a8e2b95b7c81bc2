#!/usr/bin/env python3
"""Trains small tokenizers with the reference library and records what it does.

    pip install -r requirements.txt
    python3 make_goldens.py          # keeps tokenizer files that are there
    python3 make_goldens.py --train  # makes them anew

Writes, beside itself:
    NAME.json      the tokenizer.json files
    strings.gz     the test strings, a JSON array
    NAME.gz        ids and offsets of every string, decoded token sequences
    variants.gz    one JSON object a line: components put into a base file, and
                   what they make of some of the strings
    unicode.json   digests of what becomes of every code point

A golden is a run of varints: for each string the number of tokens, then for
each token its id, its start less the previous token's end (zigzag), and its
length. Then the number of decoded sequences and for each: the number of ids,
the ids, and the byte lengths of the text with and without special tokens; the
texts follow all together.
"""

import base64
import gzip
import hashlib
import itertools
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import corpus

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT = 10_240
VARIANT_STRINGS = 160

LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN = LLAMA.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?"
         r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# Token variants that every tokenizer gets, beside its own special tokens.
ADDED = [
    AddedToken("<mask>", lstrip=True, normalized=False, special=True),
    AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("<both>", lstrip=True, rstrip=True, normalized=True),
    AddedToken("<word>", single_word=True, normalized=False),
    AddedToken("word", single_word=True, normalized=True),
    AddedToken("    ", normalized=False),
    AddedToken("New York", normalized=True),
    AddedToken("[DAY]", normalized=False, lstrip=True, rstrip=True),
    AddedToken("<|x", normalized=False),
    AddedToken("<|x|>", normalized=False, special=True),
    AddedToken("<|x|><|y|>", normalized=True, special=True),
    AddedToken("Ångström", normalized=True),
    AddedToken("é́", normalized=False),
]


def special(*names):
    return [AddedToken(n, normalized=False, special=True) for n in names]


def train(tok, size, specials=(), alphabet=True):
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [], limit_alphabet=1000 if alphabet else 300)
    tok.train_from_iterator(corpus.training(1), trainer)


def gpt2():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.post_processor = processors.ByteLevel(trim_offsets=True)
    tok.decoder = decoders.ByteLevel()
    train(tok, 1200)
    tok.add_special_tokens(special("<|endoftext|>"))
    return tok


def llama3():
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    train(tok, 1200)
    tok.add_special_tokens(special("<|begin|>", "<|end|>"))
    begin = tok.token_to_id("<|begin|>")
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", begin)])])
    return tok


def qwen2():
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False)
    tok.decoder = decoders.ByteLevel()
    train(tok, 1200)
    tok.add_special_tokens(special("<|endoftext|>", "<|end|>"))
    return tok


def llama2():
    small = Tokenizer(models.BPE(unk_token="<unk>"))
    small.pre_tokenizer = pre_tokenizers.Metaspace()
    train(small, 900, alphabet=False)
    trained = json.loads(small.to_str())["model"]
    vocab = {t: i for i, t in enumerate(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])}
    for t in sorted(trained["vocab"], key=trained["vocab"].get):
        vocab.setdefault(t, len(vocab))
    tok = Tokenizer(models.BPE(vocab, [tuple(m) for m in trained["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.add_special_tokens(special("<unk>", "<s>", "</s>"))
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tok


FAMILIES = {"gpt2": gpt2, "llama3": llama3, "qwen2": qwen2, "llama2": llama2}


def build(name):
    path = os.path.join(HERE, name + ".json")
    if "--train" in sys.argv or not os.path.exists(path):
        tok = FAMILIES[name]()
        tok.add_tokens(ADDED)
        spec = json.loads(tok.to_str())
        if name in ("gpt2", "llama2"):  # the older way to write merges
            spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
        with open(path, "w", encoding="utf-8") as f:
            json.dump(spec, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
    return Tokenizer.from_file(path)


def varint(out, n):
    assert n >= 0
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)


def put_encoding(out, enc):
    varint(out, len(enc.ids))
    end = 0
    for i, (a, b) in zip(enc.ids, enc.offsets):
        varint(out, i)
        d = a - end
        varint(out, 2 * d if d >= 0 else -2 * d - 1)
        varint(out, b - a)
        end = b


def sequences(tok, strings, rng, n):
    """Token sequences to decode: of strings, cut, spliced with random tokens."""
    size = tok.get_vocab_size()
    for _ in range(n):
        ids = tok.encode(rng.choice(strings), add_special_tokens=rng.random() < 0.5).ids[:40]
        for _ in range(rng.choice([0, 0, 1, 3, 8])):
            ids.insert(rng.randint(0, len(ids)), rng.randrange(size + 2))
        lo = rng.randint(0, len(ids) // 2)
        yield ids[lo : rng.randint(lo, len(ids))] if rng.random() < 0.5 else ids


def golden(tok, strings):
    out = bytearray()
    for i, s in enumerate(strings):
        put_encoding(out, tok.encode(s, add_special_tokens=i % 2 == 0))
    rng = random.Random(7)
    seqs = list(sequences(tok, strings, rng, 2500))
    texts = bytearray()
    varint(out, len(seqs))
    for ids in seqs:
        varint(out, len(ids))
        for i in ids:
            varint(out, i)
        for skip in (False, True):
            text = tok.decode(ids, skip_special_tokens=skip).encode()
            varint(out, len(text))
            texts += text
    return bytes(out + texts)


def pack(name, data):
    with open(os.path.join(HERE, name), "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


def component(c):
    """What a tokenizers component is in the file."""
    tok = Tokenizer(models.BPE())
    for key, kinds in (("normalizer", normalizers.Normalizer), ("pre_tokenizer", pre_tokenizers.PreTokenizer),
                       ("post_processor", processors.PostProcessor), ("decoder", decoders.Decoder)):
        if isinstance(c, kinds):
            setattr(tok, key, c)
            return json.loads(tok.to_str())[key]
    return c


def variants():
    n, p, d = normalizers, pre_tokenizers, decoders
    level = p.ByteLevel(add_prefix_space=False, use_regex=False)
    for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            for pattern in (Regex(r"\s+|^#|;$"), Regex(r"[0-9]|[aeiou]*"), "e", Regex(LLAMA)):
                yield "llama3", dict(pre_tokenizer=p.Sequence([p.Split(pattern, behavior, invert), level]))
    yield "gpt2", dict(pre_tokenizer=p.ByteLevel(add_prefix_space=True), post_processor=processors.ByteLevel(add_prefix_space=True, trim_offsets=True))
    yield "gpt2", dict(pre_tokenizer=p.ByteLevel(add_prefix_space=True), post_processor=processors.ByteLevel(add_prefix_space=False, trim_offsets=True))
    yield "gpt2", dict(pre_tokenizer=p.ByteLevel(add_prefix_space=True, use_regex=False), post_processor=None)
    yield "gpt2", dict(pre_tokenizer=p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)]))
    yield "gpt2", dict(pre_tokenizer=p.Sequence([p.Digits(individual_digits=False), p.ByteLevel(add_prefix_space=False)]))
    yield "gpt2", dict(pre_tokenizer=p.Sequence([p.ByteLevel(add_prefix_space=False), p.Digits(individual_digits=False), p.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    yield "gpt2", dict(pre_tokenizer=p.Split(Regex(O200K), "isolated"), decoder=None)
    yield "gpt2", dict(pre_tokenizer=p.Sequence([p.Split(Regex(O200K), "removed", True), level]))
    yield "gpt2", dict(pre_tokenizer=p.Sequence([p.Split(Regex(r"\p{N}{1,3}"), "isolated"), p.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"), p.Split(
        Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"), level]))
    yield "gpt2", dict(pre_tokenizer=None, normalizer=n.ByteLevel(), post_processor=None)
    for norm in (n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Lowercase(), n.Strip(), n.Strip(left=False), n.Strip(right=False),
                 n.Sequence([n.NFKC(), n.Lowercase(), n.Strip()]), n.Sequence([n.Lowercase(), n.NFKD(), n.Replace(Regex(r"\p{M}+"), "")]),
                 n.Prepend("xyz"), n.Sequence([n.Replace("e", "éé"), n.NFD(), n.Prepend("é")]), n.Replace(Regex(r"[ \t]+"), " "),
                 n.Replace(Regex("x+"), "-"),
                 n.Sequence([n.NFD(), n.NFC(), n.NFKD(), n.NFKC()])):
        yield "qwen2", dict(normalizer=norm, pre_tokenizer=p.Sequence([p.Split(Regex(QWEN), "isolated"), level]))
        yield "gpt2", dict(normalizer=norm, pre_tokenizer=p.ByteLevel(add_prefix_space=True))
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            for norm in (None, n.NFKC(), n.Sequence([n.NFKD(), n.Lowercase()])):
                yield "llama2", dict(normalizer=norm, pre_tokenizer=p.Metaspace("▁", scheme, split), decoder=d.Metaspace("▁", scheme, split))
    yield "llama2", dict(normalizer=None, pre_tokenizer=p.Metaspace("▁", "first", False), decoder=d.Sequence([d.ByteFallback(), d.Metaspace("▁", "first", False)]))
    yield "llama2", dict(decoder=d.Sequence([d.Replace("▁", " "), d.Strip(" ", 2, 1), d.ByteFallback(), d.Fuse()]))
    yield "llama2", dict(decoder=d.Sequence([d.Fuse(), d.Replace("the", "a"), d.Replace("▁", ""), d.Strip("a", 1, 2)]))
    for flags in (dict(byte_fallback=False), dict(byte_fallback=False, fuse_unk=False), dict(byte_fallback=False, unk_token=None),
                  dict(byte_fallback=True, unk_token=None, ignore_merges=True)):
        yield "llama2", dict(model=flags)
        yield "llama2", dict(model=flags, normalizer=None, pre_tokenizer=p.Metaspace("▁", "first", True))


def later_variants():
    """Those that came later, so that the strings of the others stay what they were."""
    p = pre_tokenizers
    level = p.ByteLevel(add_prefix_space=False, use_regex=False)
    for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield "gpt2", dict(pre_tokenizer=p.Sequence([p.Punctuation(behavior), level]))
    # Falcon's
    yield "gpt2", dict(pre_tokenizer=p.Sequence([p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(individual_digits=False),
                                                 p.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    for splitter in (p.Whitespace(), p.WhitespaceSplit()):
        yield "gpt2", dict(pre_tokenizer=p.Sequence([splitter, level]))
        yield "llama2", dict(normalizer=None, pre_tokenizer=splitter)
    for trim in (False, True):
        for prefix in (False, True):
            yield "gpt2", dict(pre_tokenizer=p.ByteLevel(add_prefix_space=prefix), post_processor=processors.RobertaProcessing(
                ("a", 64), ("b", 65), trim_offsets=trim, add_prefix_space=prefix))
    yield "llama2", dict(post_processor=processors.BertProcessing(("</s>", 2), ("<s>", 1)))


CATEGORIES = "|".join(r"\p{%s}" % c for c in (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn").split()) + r"|\s|\d"


def blocks():
    """Every code point that is or may soon be assigned, 1024 at a time."""
    for lo in [*range(0, 0x33000, 0x400), 0xE0000, 0xF0000, 0x10FC00]:
        chars = [chr(c) for c in range(lo, lo + 0x400) if not 0xD800 <= c <= 0xDFFF]
        if chars:
            yield chars


def write_unicode():
    """Digests of what becomes of each code point, alone and among others."""
    def normalize(n):
        return lambda chars: n.normalize_str("".join(
            f"{c}\na{c}\n\u0315{c}\u0334\n\u1100{c}\u11a8\n{c}\u0301\u3099\n\u09c7{c}\n" for c in chars))

    def split(s):
        return lambda chars: ",".join(str(len(piece)) for piece, _ in s.pre_tokenize_str("".join(
            f"'{c}x'l{c}x {c}x{c}1{c}\n{c}{c}!{c} {c} " for c in chars)))

    def plain(s):
        return lambda chars: ",".join(str(len(piece)) for piece, _ in s.pre_tokenize_str("".join(chars)))

    p, n = pre_tokenizers, normalizers
    checks = {
        "NFC": normalize(n.NFC()), "NFD": normalize(n.NFD()), "NFKC": normalize(n.NFKC()), "NFKD": normalize(n.NFKD()),
        "Lowercase": normalize(n.Lowercase()),
        "gpt2": split(p.Split(Regex(GPT2), "isolated")), "llama": split(p.Split(Regex(LLAMA), "isolated")),
        "qwen": split(p.Split(Regex(QWEN), "isolated")), "digits": split(p.Digits(False)),
        "punctuation": split(p.Punctuation("contiguous")), "whitespace": split(p.Whitespace()),
        "whitespace split": split(p.WhitespaceSplit()),
        "categories": plain(p.Split(Regex(CATEGORIES.replace("|", "+|")), "isolated")),
        "contractions": split(p.Split(Regex("(?i:'s|'t|'re|'ve|'m|'ll|'d)|'(?i:[sdmt]|ll|ve|re)"), "isolated")),
    }
    out = {name: "".join(hashlib.sha256(check(chars).encode()).hexdigest()[:8] for chars in blocks()) for name, check in checks.items()}
    with open(os.path.join(HERE, "unicode.json"), "w", encoding="utf-8") as f:
        json.dump(dict(categories=CATEGORIES.replace("|", "+|"), digests=out), f, indent=0)


def write_variants(strings):
    rng = random.Random(11)
    lines = []
    for base, parts in itertools.chain(variants(), later_variants()):
        with open(os.path.join(HERE, base + ".json"), encoding="utf-8") as f:
            spec = json.load(f)
        parts = {k: component(v) for k, v in parts.items()}
        for k, v in parts.items():
            if k == "model":
                spec["model"].update(v)
            else:
                spec[k] = v
        tok = Tokenizer.from_str(json.dumps(spec))
        picks, out = [], bytearray()
        for i in sorted(rng.sample(range(len(strings)), VARIANT_STRINGS)):
            try:
                enc = tok.encode(strings[i], add_special_tokens=i % 2 == 0)
            except BaseException:  # where the library itself panics there is nothing to match
                print("panic in", base, parts, repr(strings[i]), file=sys.stderr)
                continue
            picks.append(i)
            put_encoding(out, enc)
        decoded = []
        for ids in sequences(tok, strings, rng, 60 if "decoder" in parts else 0):
            try:
                decoded.append([ids, tok.decode(ids, skip_special_tokens=False)])
            except BaseException:  # its Strip decoder panics on short tokens
                continue
        lines.append(json.dumps(dict(base=base, parts=parts, strings=picks, tokens=base64.b64encode(out).decode(), decoded=decoded), ensure_ascii=False))
    pack("variants.gz", "\n".join(lines).encode())


def main():
    strings = corpus.strings(COUNT, 20)
    pack("strings.gz", json.dumps(strings, ensure_ascii=False).encode())
    for name in FAMILIES:
        pack(name + ".gz", golden(build(name), strings))
    write_variants(strings)
    write_unicode()


if __name__ == "__main__":
    main()
