"""Writes dry.txt, xtc.txt and mirostat.txt: what the samplers of llama.cpp do.

    npm install node-llama-cpp        # has llama.cpp built for many machines
    pip install gguf                  # writes the vocabulary for it
    python make_llama_cpp.py node_modules/@node-llama-cpp/linux-x64/bins/linux-x64

Made with node-llama-cpp 3.22.1 (llama.cpp v0.5.0) and gguf 0.19.0. The tests that
read the files say what is in them.
"""

import ctypes
import pathlib
import random
import sys
import tempfile

import gguf

HERE = pathlib.Path(__file__).parent
WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c", "d", "x", "y", " ", "\n", ":", '"', "*", "\n\n", " the", "the",
         "ab", "bc", "a:", "*b", "##", "#", "x#", "E", "N", "D", "ND", "-E", "Ex", "XEN", "é", ".", " d"]


class Token(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class Tokens(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(Token)), ("size", ctypes.c_size_t), ("selected", ctypes.c_int64), ("sorted", ctypes.c_bool)]


class ModelParams(ctypes.Structure):  # opaque but for one member; the rest is room for later versions
    _fields_ = [("before", ctypes.c_char * 72), ("vocab_only", ctypes.c_bool), ("after", ctypes.c_char * 183)]


def load(folder):
    folder = pathlib.Path(folder)
    for name in ("libggml-base*.so", "libggml.*so", "libllama.*so"):
        (path,) = folder.glob(name)
        lib = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    f, i, p, n = ctypes.c_float, ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in [
        ("llama_model_default_params", ModelParams, []),
        ("llama_model_load_from_file", p, [ctypes.c_char_p, ModelParams]),
        ("llama_model_get_vocab", p, [p]),
        ("llama_sampler_init_dry", p, [p, f, f, i, i, ctypes.POINTER(ctypes.c_char_p), n]),
        ("llama_sampler_init_xtc", p, [f, f, n, ctypes.c_uint32]),
        ("llama_sampler_init_mirostat_v2", p, [ctypes.c_uint32, f, f]),
        ("llama_sampler_accept", None, [p, i]),
        ("llama_sampler_apply", None, [p, ctypes.POINTER(Tokens)]),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def vocabulary(lib):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/vocabulary.gguf"
        w = gguf.GGUFWriter(path, "llama")
        w.add_tokenizer_model("llama")
        w.add_token_list([t.replace(" ", "▁") for t in WORDS])
        w.add_token_scores([float(len(t)) for t in WORDS])
        w.add_token_types([2, 3, 3] + [1] * (len(WORDS) - 3))
        w.add_add_space_prefix(False)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()
        params = lib.llama_model_default_params()
        params.vocab_only = True
        model = lib.llama_model_load_from_file(path.encode(), params)
    assert model, "the vocabulary does not load"
    return lib.llama_model_get_vocab(model)


def apply(lib, sampler, logits):
    """The candidates that the sampler leaves, and which it chose."""
    data = (Token * len(logits))(*[Token(i, x, 0) for i, x in enumerate(logits)])
    array = Tokens(data, len(logits), -1, False)
    lib.llama_sampler_apply(sampler, ctypes.byref(array))
    return [array.data[i] for i in range(array.size)], array.selected


class Lcg:
    """Logits that the tests make as well: multiples of 1/65536, so that they are exact."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def row(self, n, span):
        return [self.below(span * 65536) / 65536 for _ in range(n)]


def dry(lib):
    vocab = vocabulary(lib)
    draw = random.Random(5)
    usual = ["\n", ":", '"', "*"]
    lines = ["words " + " ".join(w.encode().hex() for w in WORDS)]

    def case(multiplier, base, allowed, window, breakers, prompt, tokens):
        texts = (ctypes.c_char_p * max(1, len(breakers)))(*[b.encode() for b in breakers])
        sampler = lib.llama_sampler_init_dry(vocab, multiplier, base, allowed, window or 4096, texts, len(breakers))
        head = ["case", multiplier, base, allowed, window, prompt, ",".join(b.encode().hex() for b in breakers) or "-"]
        lines.append(" ".join(map(str, head + tokens)))
        for at, token in enumerate(tokens):
            lib.llama_sampler_accept(sampler, token)
            if at + 1 >= prompt:
                left, _ = apply(lib, sampler, [0.0] * len(WORDS))
                lines.append(" ".join(f"{t.id}:{-t.logit:.9g}" for t in left if t.logit != 0))

    for multiplier, base, allowed in ((0.75, 1.75, 2), (1.0, 1.0, 1), (2.5, 1.25, 3)):
        for window in (0, 11):
            for kinds in (2, 3, len(WORDS)):
                tokens = [3 + draw.randrange(min(kinds, len(WORDS) - 3)) for _ in range(50)]
                case(multiplier, base, allowed, window, usual, 25, tokens)
    # Loops, with and without breakers in them; the last grows past the bound of the exponent.
    case(0.5, 1.75, 2, 0, usual, 8, [3, 4, 5, 6, 7] * 8)
    case(0.5, 1.75, 2, 0, usual, 8, [3, 4, 10, 5, 6, 7] * 6)
    case(0.5, 1.75, 2, 20, usual, 30, [3, 4, 19, 5, 6, 7] * 7)
    case(0.5, 8.0, 1, 0, [], 50, [3] * 56)
    # Breakers of several tokens, and tokens that hold one in part or with more around it.
    parts = [WORDS.index(w) for w in ("##", "#", "x#", "E", "N", "D", "ND", "-E", "Ex", "XEN", "a", "\n")]
    for breakers in (["##"], ["END"], ["#\n"], ["END", "##\n", "a"], ["EN", "ND"], ["###a"], ["NDa", "ND##"]):
        tokens = ([draw.choice(parts) for _ in range(7)] * 6)[:36]
        case(0.5, 1.5, 1, 0, breakers, 1, tokens)
        case(0.5, 1.5, 1, 9, breakers, 20, [draw.choice(parts[:6]) for _ in range(40)])
    HERE.joinpath("dry.txt").write_text("\n".join(lines) + "\n")


def xtc(lib):
    lines = []
    for seed in range(12):
        for threshold in (0.02, 0.0625, 0.125, 0.25, 0.4):
            sampler = lib.llama_sampler_init_xtc(1.0, threshold, 1, 1)
            logits = Lcg(seed).row(40, 2 + seed)
            left, _ = apply(lib, sampler, logits)
            kept = {t.id for t in left}
            lines.append([seed, threshold] + [i for i in range(40) if i not in kept])
    HERE.joinpath("xtc.txt").write_text("\n".join(" ".join(map(str, l)) for l in lines) + "\n")


def mirostat(lib):
    lines = []
    for seed, (tau, eta) in enumerate([(5.0, 0.1), (3.0, 0.25), (1.0, 0.5), (0.0, 0.125), (4.0, 1.0)]):
        sampler = lib.llama_sampler_init_mirostat_v2(seed + 1, tau, eta)
        numbers = Lcg(seed)
        steps = [apply(lib, sampler, numbers.row(60, 2 + step % 9)) for step in range(40)]
        lines.append([seed, tau, eta] + [f"{len(left)}:{left[chosen].id}" for left, chosen in steps])
    HERE.joinpath("mirostat.txt").write_text("\n".join(" ".join(map(str, l)) for l in lines) + "\n")


lib = load(sys.argv[1])
dry(lib)
xtc(lib)
mirostat(lib)
