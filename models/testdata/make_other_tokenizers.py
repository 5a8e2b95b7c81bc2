#!/usr/bin/env python3
"""Trains small tokenizers in the forms that are read where there is no tokenizer.json, and records what their own
libraries encode hostile strings to.

    python3 -m pip install -r requirements.txt
    python3 make_other_tokenizers.py                        # writes othertokenizers/NAME, a few hundred strings
    python3 make_other_tokenizers.py --count 10240 --out D  # more strings, for OTHER_TOKENIZERS=D go test

SentencePiece's files are compared with the package sentencepiece, tekken.json with mistral_common, ranks with tiktoken.
"""

import argparse
import base64
import gzip
import io
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "runtime/token/testdata"))

import sentencepiece  # noqa: E402
import tiktoken  # noqa: E402
from mistral_common.tokens.tokenizers.tekken import Tekkenizer  # noqa: E402
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers  # noqa: E402

import corpus  # noqa: E402
import make_kinds  # noqa: E402

OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
THREE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + OTHERS
ONE = THREE.replace("{1,3}", "")
HAN = r"&&[^\p{Han}]]"
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + HAN + r"*[\p{Ll}\p{Lm}\p{Lo}\p{M}" + HAN + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + HAN + r"+[\p{Ll}\p{Lm}\p{Lo}\p{M}" + HAN + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}"]) + OTHERS
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

PIECES = {
    "nmt-nfkc": dict(model_type="unigram", normalization_rule_name="nmt_nfkc"),
    "fallback": dict(model_type="unigram", normalization_rule_name="nfkc_cf", byte_fallback=True, user_defined_symbols=["<tool>", "Ａx", "ab "],
                     remove_extra_whitespaces=False),
    "suffix": dict(model_type="unigram", normalization_rule_name="identity", treat_whitespace_as_suffix=True),
    "bare": dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf", add_dummy_prefix=False, byte_fallback=True),
    "pairs": dict(model_type="bpe", normalization_rule_name="nmt_nfkc", byte_fallback=True),
}


def strings(count):
    """Those of make_kinds.py without the texts of control symbols and bytes, which sentencepiece takes for text."""
    out = []
    for s in make_kinds.strings(count):
        for t in ("</s>", "<s>", "<unk>", "<pad>", "<0x", "<|", "[INST]", "[BOS]", "[EOS]"):
            s = s.replace(t, "")
        out.append(s)
    return out


def sentence_piece(name, folder):
    path = folder / "tokenizer.model"
    if not path.exists():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(make_kinds.lines()), model_writer=model, vocab_size=1500, num_threads=1, character_coverage=0.98,
            hard_vocab_limit=False, minloglevel=2, control_symbols=["<|user|>"], **PIECES[name])
        path.write_bytes(model.getvalue())
    sp = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    return sp.encode, sp.decode


def ranks(pattern):
    """Byte strings in the order of their ranks."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern.replace("&&[^\\p{Han}]", "")), "isolated"),
                                                 pre_tokenizers.ByteLevel(False, use_regex=False)])
    tok.train_from_iterator(corpus.training(1), trainers.BpeTrainer(vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    codes = {c: b for b, c in enumerate(alphabet())}
    vocab = tok.get_vocab()
    words = [bytes(codes[c] for c in t) for t in sorted(vocab, key=vocab.get)]
    return [bytes([b]) for b in range(256)] + [w for w in words if len(w) > 1]


def alphabet():
    """The characters that stand for bytes, in order."""
    out, following = [], 256
    for b in range(256):
        if chr(b) in "!~" or "!" < chr(b) < "~" or 0xA1 <= b <= 0xAC or 0xAE <= b <= 0xFF:
            out.append(chr(b))
        else:
            out.append(chr(following))
            following += 1
    return out


def tekken(name, folder):
    path = folder / "tekken.json"
    if not path.exists():
        words = ranks(TEKKEN)
        spec = dict(config=dict(pattern=TEKKEN, num_vocab_tokens=len(words), default_vocab_size=900, default_num_special_tokens=100, version="v3"),
                    vocab=[dict(rank=i, token_bytes=base64.b64encode(w).decode(), token_str=None) for i, w in enumerate(words)])
        if name == "tekken-named":
            spec["config"]["version"] = "v11"
            spec["special_tokens"] = [dict(rank=i, token_str=t, is_control=True) for i, t in enumerate(
                ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[THINK]", "[/THINK]"])]
        path.write_text(json.dumps(spec))
    tok = Tekkenizer.from_file(path)
    return lambda s: tok.encode(s, bos=False, eos=False), lambda ids: tok.decode(ids)


def listed(name, folder):
    pattern, file = {"llama": (THREE, "tokenizer.model"), "qwen": (ONE, "qwen.tiktoken"), "kimi": (KIMI, "tiktoken.model")}[name]
    path = folder / file
    if not path.exists():
        path.write_text("".join(f"{base64.b64encode(w).decode()} {i}\n" for i, w in enumerate(ranks(pattern))))
        if name == "kimi":
            (folder / "tokenizer_config.json").write_text(json.dumps(dict(added_tokens_decoder={
                str(10000 + i): dict(content=t, special=True) for i, t in enumerate(["[BOS]", "[EOS]", "<|im_end|>"])})))
    words = [line.split() for line in path.read_text().splitlines()]
    enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks={base64.b64decode(w): int(r) for w, r in words}, special_tokens={})
    encode = enc.encode_ordinary
    if name == "qwen":
        encode = lambda s: enc.encode_ordinary(normalizers.NFC().normalize_str(s))  # noqa: E731
    return encode, enc.decode


CASES = {**{n: sentence_piece for n in PIECES}, "tekken": tekken, "tekken-named": tekken, "llama": listed, "qwen": listed, "kimi": listed}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--count", type=int, default=320)
    args.add_argument("--out", default=str(HERE / "othertokenizers"))
    args.add_argument("names", nargs="*")
    args = args.parse_args()
    for name in args.names or CASES:
        folder, out = HERE / "othertokenizers" / name, pathlib.Path(args.out) / name
        folder.mkdir(parents=True, exist_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        encode, decode = CASES[name](name, folder)
        rows = []
        for s in strings(args.count):
            ids = encode(s)
            rows.append(dict(text=s, ids=ids, decoded=decode(ids)))
        with open(out / "golden.json.gz", "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
            z.write(json.dumps(rows, ensure_ascii=False).encode())
        print(name, len(rows))


if __name__ == "__main__":
    main()
