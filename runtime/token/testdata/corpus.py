"""Text that the goldens are made of: training text and test strings, all from one seed."""

import random

WORDS = """the a of and to in is that it was for on are as with his they at be this from have or by one had not but what
all were when we there can an your which their said if do will each about how up out them then she many some so these
would other into has more her two like him see time could no make than first been its who now people my made over did
down only way find use may water long little very after words called just where most know get through back much before
go good new write our used me man too any day same right look think also around another came come work three word must
because does part even place well such here take why things help put years different away again off went old number
great tell men say small every found still between name should home big give air line set own under read last never us
left end along while might next sound below saw something thought both few those always looked show large often together
asked house world going want school important until form food keep children feet land side without boy once animals life
enough took sometimes four head above kind began almost live page got earth need far hand high year mother light parts
country father let night following picture being study second eyes soon times story boys since white days ever paper hard
near sentence better best across during today others however sure means knew tried told young miles sun ways thing whole
hear example heard several change answer room sea against top turned learn point city play toward five using himself
usually it's don't we'll they're I've I'm he'd can't O'Neil's rock'n'roll token tokenizer streaming inference batch""".split()

CODE = [
    "def f(x):\n    return x ** 2 + 1  # square\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\n",
    "func (t *Tree) Walk(fn func(*Node) bool) error {\n\tif t == nil {\n\t\treturn nil\n\t}\n\treturn fn(t.root)\n}\n",
    "SELECT id, name FROM users WHERE age >= 18 AND name LIKE '%son' ORDER BY 2 DESC;\n",
    '<div class="row"><a href="https://example.org/?q=1&amp;p=2">link</a></div>\r\n',
    "let xs: Vec<u32> = (0..10).filter(|x| x % 2 == 0).collect();\n",
    '{"key": [1, 2.5e-3, null, true], "s": "a\\nb\\u00e9"}\n',
    "#!/bin/sh\nset -e\ngrep -rn 'foo' . | awk '{print $1}' > /dev/null 2>&1\n",
    "  if (a&&b||!c) { x|=0xFF; y<<=2; } /* done */\n",
    "$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n* item\n  - sub\n\n```py\nprint('x')\n```\n",
    "C:\\Users\\me> dir *.txt /s\r\n\r\n\r\n  0 File(s)\r\n",
]

# Letters of many scripts, by range.
SCRIPTS = [
    (0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x586), (0x5D0, 0x5EA),
    (0x620, 0x64A), (0x710, 0x72F), (0x904, 0x939), (0x985, 0x9B9), (0xA05, 0xA39), (0xB85, 0xBB9), (0xC05, 0xC39),
    (0xE01, 0xE30), (0xE81, 0xEB0), (0xF40, 0xF6C), (0x1000, 0x102A), (0x10D0, 0x10FF), (0x1100, 0x11FF),
    (0x1200, 0x135A), (0x13A0, 0x13F5), (0x1780, 0x17B3), (0x1820, 0x1878), (0x3041, 0x3096), (0x30A1, 0x30FA),
    (0x3105, 0x312F), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1E00, 0x1FFF), (0x2C00, 0x2DFF), (0xA640, 0xA7FF),
    (0x10300, 0x1031F), (0x10400, 0x1044F), (0x20000, 0x2A6DF), (0x1D400, 0x1D7FF), (0x30000, 0x3134A), (0x1E900, 0x1E943),
]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2000", "\u2003", "\u2009",
          "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "\u180e", "\u2060", "\x1c", "\x1f"]
DIGITS = "0123456789٠١٢٣٤٥٦٧٨٩०१२३४५६७८९０１２３４５๐๑๒Ⅷⅻ½¾²³①②㊿〇一𝟘𝟙𝟚𞥐𞥑𑄶"
MARKS = "\u0300\u0301\u0302\u0303\u0308\u030a\u0323\u0327\u0328\u0331\u0334\u0338\u0345\u035c\u05b0\u05bc\u064b\u0651\u0670\u093c\u09bc\u0e38\u0f71\u0f72\u0f74\u1037\u20d0\u20e3\u302a\u3099\u309a\ufb1e\U0001d165\U0001d16d\U00011099\U0001e8d0\U0001e944"
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "🇯🇵🇧🇷", "❤️", "☎︎", "1️⃣", "🏳️‍🌈", "👩🏿‍🚀", "🧑‍🤝‍🧑", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🫠", "🪿", "©️", "‼️", "🇩", "\u200d", "\ufe0f", "🏽"]
CONTRACTIONS = ["'s", "'S", "'ſ", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'Ve", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D",
                "'K", "'k", "’s", "’ll", "'", "''", "'l", "'r", "'v", "'ß", "'ﬅ", "'l'l", "'Re'", "'x", "' s"]
PUNCT = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡§«»¿–—…‘“”„†‰€₿™←∀≤▁█░☃♥、。「」！？￥\u0378\ufffd\ufffe\uffff"
RARE = ["ĳ", "ŉ", "ǆ", "İ", "ı", "ß", "ẞ", "ﬀ", "ﬁ", "ﬃ", "ſ", "K", "Å", "Ω", "ΐ", "ᾂ", "ᾀ", "ḍ̇", "q̣̇", "ế", "Ǖ",
        "가", "각", "ᄀ", "ᅡ", "ᆨ", "각", "가ᆧ", "ힰ", "क़", "ড়", "ਲ਼", "שּׁ", "が", "が", "ゞ", "㌖", "㈱", "⁴", "ℌ", "𝓐", "𝅗𝅥",
        "豈", "樂", "𠄢", "️", "؀", "۝", "﷽", "ﷺ", "Ⰰ", "Ꙁ", "Ა", "ა", "Ꭰ", "ꭰ", "Σσς", "ΆΈ", "ѝ", "Ѐ", "ї",
        "\u1c89\u1c8a", "\ua7cb\ua7da\ua7dc", "\U00010d50\U00010d70", "\U00010d40", "\U000116d0", "\U0001cc00", "\U0001ccf0",
        "\U0002ebf0", "\U00011de0", "\U00016ea0", "\u0897", "\U000113b8", "\U000105c9", "\U00011383", "\U00011390", "\U00016121\U0001611e",
        "\u0b55", "\U00011938", "\u1abf", "\u0c3c", "\U0001e08f", "\U00032000"]
ADDED = ["<|endoftext|>", "<|begin|>", "<|end|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<both>", "<right>", "<word>", "word", "wor",
         "  ", "    ", "New York", "new york", "[DAY]", "day", "<|x", "<|x|>", "<|x|><|y|>", "é́", "Ångström", "\u212bngström", "<0x41>", "<0xE2>", "▁the", "Ġthe"]


def planes(rng):
    """A code point of any plane."""
    while True:
        top = rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x10000, 0x20000, 0x30000, 0x40000, 0xE0FFF, 0x110000])
        c = rng.randrange(top)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def sentence(rng, n=None):
    out = []
    for _ in range(n or rng.randint(2, 14)):
        w = rng.choice(WORDS)
        w = rng.choice([w, w, w, w, w.capitalize(), w.upper()])
        out.append(w)
        if rng.random() < 0.12:
            out[-1] += rng.choice(",.;:!?)")
        if rng.random() < 0.05:
            out.append(str(rng.randrange(10 ** rng.randint(1, 9))))
    return " ".join(out) + rng.choice([".", "!", "?", "...", "", "\n", "\n\n"])


def script_words(rng):
    lo, hi = rng.choice(SCRIPTS)
    return " ".join("".join(chr(rng.randint(lo, hi)) for _ in range(rng.randint(1, 7))) for _ in range(rng.randint(1, 4)))


PARTS = [
    (6, lambda r: sentence(r, r.randint(1, 6))),
    (4, script_words),
    (3, lambda r: "".join(r.choice(SPACES) for _ in range(r.randint(1, 6)))),
    (3, lambda r: r.choice(CODE)[: r.randint(3, 60)]),
    (3, lambda r: "".join(r.choice(DIGITS) for _ in range(r.randint(1, 8)))),
    (3, lambda r: r.choice(["I", "we", "他", "é", "X", "1", " ", ""]) + r.choice(CONTRACTIONS) + r.choice(["", "s", "x", "1", " "])),
    (3, lambda r: "".join(r.choice(EMOJI) for _ in range(r.randint(1, 3)))),
    (3, lambda r: r.choice("aeoAnqカ가αи ") + "".join(r.choice(MARKS) for _ in range(r.randint(1, 5)))),
    (3, lambda r: "".join(r.choice(PUNCT) for _ in range(r.randint(1, 5)))),
    (3, lambda r: "".join(planes(r) for _ in range(r.randint(1, 6)))),
    (2, lambda r: "".join(chr(r.randrange(0x20)) for _ in range(r.randint(1, 3)))),
    (4, lambda r: "".join(r.choice(["", " ", "\t", "x"]) + r.choice(ADDED) for _ in range(r.randint(1, 4)))),
    (3, lambda r: "".join(r.choice(RARE) for _ in range(r.randint(1, 3)))),
    (1, lambda r: r.choice(["a", "ab", " ", "=", "-", "the", "\n", "é", "啊", "0"]) * r.randint(2, 90)),
    (4, lambda r: " "),
]


def strings(n, seed):
    """n test strings; the first few are the ones anyone would try."""
    rng = random.Random(seed)
    weights = [w for w, _ in PARTS]
    out = ["", " ", "  ", "\n", "a", "Hello, world!", " Hello", "Hello ", "\x00", "\U0010ffff", "a" * 3000, " " * 700, "ab " * 300]
    out += CODE + EMOJI + CONTRACTIONS + RARE + ADDED + SPACES
    out += [chr(c) for c in list(range(0x20)) + [0x7F, 0x80, 0xAD, 0xD7FF, 0xE000, 0xFDD0, 0xFFFD, 0xFFFF, 0x1FFFF, 0xE0001, 0xF0000]]
    while len(out) < n:
        out.append("".join(rng.choices(PARTS, weights)[0][1](rng) for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 5]))))
    return out


def training(seed):
    rng = random.Random(seed)
    for _ in range(6000):
        yield sentence(rng)
        if rng.random() < 0.3:
            yield script_words(rng)
        if rng.random() < 0.3:
            yield rng.choice(CODE)
        if rng.random() < 0.1:
            yield "".join(rng.choice(EMOJI + CONTRACTIONS + RARE) for _ in range(3))
