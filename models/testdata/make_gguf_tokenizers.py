"""Train small tokenizers, write each with a tiny model in the GGUF format as llama.cpp's converter does, to
tokenizers/NAME, and what transformers or sentencepiece encodes hostile texts to.

    python3 -m pip install -r requirements.txt
    python3 make_gguf_tokenizers.py LLAMA.CPP
"""
import io
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
LLAMA = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]

import conversion  # noqa: E402
import gguf  # noqa: E402
import sentencepiece  # noqa: E402
import torch  # noqa: E402
from conversion.base import TextModel  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, LlamaTokenizer  # noqa: E402

TEXT = [line for f in sorted(HERE.parents[1].glob("docs/*.md")) for line in f.read_text().splitlines()] + [
    "Der schnelle Fuchs überspringt den faulen Hund; 12345 Straßen, 3,50 €.", "ναι, μάλιστα!", "быстрая лиса",
    "快速的棕色狐狸跳过懒狗。", "素早い茶色の狐", "नमस्ते दुनिया", "don't WON'T I'll we've you're", "a  b   c\t\td\n\n\ne"] * 20
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"


def split(regex):
    return pre_tokenizers.Split(Regex(regex), "isolated")


LEVEL, PLAIN = pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.ByteLevel(False, use_regex=False)
BYTES = {
    "gpt-2": ([LEVEL], None),
    "llama-bpe": ([split(WORDS + r"\p{N}{1,3}" + REST), PLAIN], None),
    "qwen2": ([split(WORDS + r"\p{N}" + REST), PLAIN], normalizers.NFC()),
    "falcon": ([pre_tokenizers.Punctuation("contiguous"), LEVEL, pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")],
               None),
    "smollm": ([pre_tokenizers.Digits(True), LEVEL], None),
}
SPECIAL = ["<|begin|>", "<|end|>", "<|user|>"]


def byte_level(name, folder):
    pre, normalizer = BYTES[name]
    tok = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    tok.pre_tokenizer, tok.decoder = pre_tokenizers.Sequence(pre), decoders.ByteLevel()
    if normalizer:
        tok.normalizer = normalizer
    tok.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_tokens([AddedToken("<tool>", normalized=False)])
    tok.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[1],
        "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}))
    TextModel.get_vocab_base_pre = lambda self, _: name
    return AutoTokenizer.from_pretrained(folder), TextModel._set_vocab_gpt2


def piece_level(prefix, folder):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=800, model_type="bpe", byte_fallback=True,
        add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity",
        control_symbols=["<|user|>"], num_threads=1, character_coverage=0.98)
    (folder / "tokenizer.model").write_bytes(model.getvalue())

    def write(self):
        self._set_vocab_sentencepiece()
        self.gguf_writer.add_add_space_prefix(prefix)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()), write


def texts():
    rng = random.Random(11)
    pieces = ["the", " The", "don't", "'LL", "12", "3456", " ", "  ", "\n", "\r\n", "\t", "é", "e\u0301", "ß", "漢字", "かな",
              "🙂", "\u200d", "\u00a0", "\u3000", ".", "...", "!?", "$5", "<tool>", "naïve", "под", "नम", "_x_", "ͅ", "\ufeff", "▁"]
    out = ["", " ", "a", "  a", "hello world", "Hello, world! 12345", "<tool>x <tool>"]
    while len(out) < 200:
        out.append("".join(rng.choice(pieces) for _ in range(rng.randint(1, 14))))
    while len(out) < 300:
        out.append("".join(chr(c) for c in rng.choices(range(32, 0x3000), k=8) if unicodedata.category(chr(c)) != "Cs"))
    return out


def as_llama(name, folder, legacy, out):
    """What transformers makes of tokenizer.model, with added tokens: with the spaces of its older way, and the newer."""
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
              "legacy": legacy, "add_bos_token": True, "add_eos_token": False, "add_prefix_space": name == "pieces",
              "added_tokens_decoder": {"0": added("<unk>"), "1": added("<s>"), "2": added("</s>"),
                                       "800": added("<|extra|>"), "801": added("<tool>", False)}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tok = LlamaTokenizer.from_pretrained(folder)
    rows = [{"text": t, "ids": tok.encode(t)} for t in texts()[:200] + ["a<|extra|>b", "<s>x</s> y", "<|extra|> <tool>z"]]
    kind = "legacy" if legacy else "newer"
    (out / f"{kind}_config.json").write_text(json.dumps(config) + "\n")
    (out / f"{kind}_golden.json").write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")


def added(text, special=True):
    return {"content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
            "special": special}


def main(name):
    out = HERE / "tokenizers" / name
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        tok, write = byte_level(name, folder) if name in BYTES else piece_level(name == "pieces", folder)
        torch.manual_seed(1)
        config = LlamaConfig(vocab_size=len(tok), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                             num_attention_heads=2, max_position_embeddings=2048, tie_word_embeddings=True,
                             bos_token_id=0, eos_token_id=1)
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
        kind = conversion.get_model_class("LlamaForCausalLM")
        kind.set_vocab = write
        with torch.inference_mode():
            kind(folder, gguf.LlamaFileType.GUESSED, out / "model.gguf").write()
        if name not in BYTES:
            (out / "tokenizer.model").write_bytes((folder / "tokenizer.model").read_bytes())
            as_llama(name, folder, False, out)
            if name != "pieces":  # transformers 5 puts no second space before a text, as sentencepiece and others do
                as_llama(name, folder, True, out)
    list_ = texts()
    ids = [tok.encode(t, add_special_tokens=False) if name in BYTES else tok.encode(t) for t in list_]
    rows = [{"text": t, "ids": i} for t, i in zip(list_, ids)]
    (out / "golden.json").write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")


if __name__ == "__main__":
    conversion.load_all_models()
    for case in [*BYTES, "pieces", "pieces-without-prefix"]:
        main(case)
