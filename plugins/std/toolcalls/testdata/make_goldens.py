#!/usr/bin/env python3
"""Makes goldens.json: what independent software says about models' tool calls.

1. rendered: calls written by models' own chat templates, with jinja2 under transformers' settings. The calls that went
   in are what must come out.
2. parsed: what SGLang's and vLLM's parsers (without streaming) make of the samples in presets/. How many of the
   rendered texts they read as the template meant them is said on stderr. Both packages want torch to be installed as a whole; the parsers themselves do not, so their modules are
   loaded from the unpacked wheels with stand-ins for what surrounds them.

    pip download --no-deps sglang==0.5.23 vllm==0.33.0; unzip each into a folder
    pip download --no-deps --no-binary :all: llama_cpp_python==0.3.36; unpack (its vendor/llama.cpp/models/templates)
    pip install jinja2 orjson partial-json-parser pydantic regex
    make_goldens.py SGLANG_DIR VLLM_DIR TEMPLATES_DIR > goldens.json
"""
import collections, glob, importlib, importlib.machinery, json, os, random, sys, types
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock

import jinja2
from jinja2.sandbox import SandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = json.load(open(os.path.join(HERE, "tools.json")))


# --- stand-ins ---------------------------------------------------------------------------------------------------

class Standin(types.ModuleType):
    """A module that has whatever is asked of it."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda self, *a, **k: self.__dict__.update(k),
                               "__class_getitem__": classmethod(lambda c, i: c)}) if name[0].isupper() else MagicMock(name=name)
        setattr(self, name, made)
        return made


class Finder:
    """Serves stand-ins for everything except the modules listed in real."""

    def __init__(self, roots, real):
        self.roots, self.real = roots, real

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.roots and not any(name == r or name.startswith(r + ".") for r in self.real):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Standin(spec.name)

    def exec_module(self, module):
        pass


def package(name, folder):
    """Makes name a package of folder without running its __init__."""
    m = types.ModuleType(name)
    m.__path__ = [folder]
    sys.modules[name] = m


@dataclass
class Function:
    name: str
    parameters: dict = None
    description: str = ""
    strict: bool = False
    arguments: Any = None


@dataclass
class Tool:
    function: Function
    type: str = "function"


def tool_objects():
    return [Tool(Function(t["function"]["name"], t["function"]["parameters"])) for t in TOOLS]


def sglang_parsers(root):
    sys.path.insert(0, root)
    sys.meta_path.insert(0, Finder({"sglang", "xgrammar", "torch", "transformers"}, ["sglang.srt.function_call", "sglang.srt.parser.harmony_parser"]))
    for p in ("sglang", "sglang.srt", "sglang.srt.function_call", "sglang.srt.parser"):
        package(p, os.path.join(root, *p.split(".")))
    protocol = types.ModuleType("sglang.srt.entrypoints.openai.protocol")
    protocol.Tool, protocol.ToolChoice, protocol.Function = Tool, Any, Function
    sys.modules[protocol.__name__] = protocol
    environ = Standin("sglang.srt.environ")
    environ.envs = MagicMock()
    environ.envs.SGLANG_FORWARD_UNKNOWN_TOOLS.get.return_value = False
    sys.modules[environ.__name__] = environ
    table = {
        "hermes": "hermes_detector.HermesDetector", "qwen3-coder": "qwen3_coder_detector.Qwen3CoderDetector",
        "mistral": "mistral_detector.MistralDetector", "mistral-v11": "mistral_detector.MistralDetector",
        "llama3-json": "llama32_detector.Llama32Detector", "pythonic": "pythonic_detector.PythonicDetector",
        "deepseek-v3": "deepseekv3_detector.DeepSeekV3Detector", "deepseek-v3.1": "deepseekv31_detector.DeepSeekV31Detector",
        "deepseek-v3.2": "deepseekv32_detector.DeepSeekV32Detector", "kimi-k2": "kimik2_detector.KimiK2Detector",
        "glm-4.5": "glm4_moe_detector.Glm4MoeDetector", "glm-4.5 ": "glm47_moe_detector.Glm47MoeDetector", "minimax-m2": "minimax_m2.MinimaxM2Detector",
        "gpt-oss": "gpt_oss_detector.GptOssDetector", "lfm2": "lfm2_detector.Lfm2Detector",
    }
    out = {}
    for preset, where in table.items():
        module, cls = where.split(".")
        cls = getattr(importlib.import_module("sglang.srt.function_call." + module), cls)

        def parse(text, cls=cls):
            r = cls().detect_and_parse(text, tool_objects())
            return r.normal_text, [(c.name, c.parameters) for c in r.calls]
        out.setdefault(preset.strip(), []).append(("sglang 0.5.23 " + where, parse))
    return out


@dataclass
class Called:
    name: str = ""
    arguments: str = ""


@dataclass
class ToolCall:
    function: Called = None
    type: str = "function"
    id: str = ""


@dataclass
class Extracted:
    tools_called: bool = False
    tool_calls: list = field(default_factory=list)
    content: Any = None


class Vocab(dict):
    """A tokenizer's vocabulary that has every marker."""

    def get(self, key, default=None):
        return hash(key) % 100000

    __getitem__ = get

    def __contains__(self, key):
        return True


def vllm_parsers(root):
    sys.path.insert(0, root)
    sys.meta_path.insert(0, Finder({"vllm", "transformers", "openai", "xgrammar", "torch"},
                                   ["vllm.tool_parsers"]))
    for p in ("vllm", "vllm.tool_parsers"):
        package(p, os.path.join(root, *p.split(".")))
    protocol = Standin("vllm.entrypoints.generate.base.protocol")
    protocol.FunctionCall, protocol.ToolCall, protocol.ExtractedToolCallInformation = Called, ToolCall, Extracted
    sys.modules[protocol.__name__] = protocol
    envs = Standin("vllm.envs")
    envs.VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS = 1.0
    sys.modules[envs.__name__] = envs
    table = {
        "hermes": "hermes_tool_parser.Hermes2ProToolParser", "llama3-json": "llama_tool_parser.Llama3JsonToolParser",
        "pythonic": "pythonic_tool_parser.PythonicToolParser", "phi-4-mini": "phi4mini_tool_parser.Phi4MiniJsonToolParser",
        "granite": "granite4_tool_parser.Granite4ToolParser", "olmo3": "olmo3_tool_parser.Olmo3PythonicToolParser",
        "deepseek-v3": "deepseekv3_tool_parser.DeepSeekV3ToolParser",
        "deepseek-v3.1": "deepseekv31_tool_parser.DeepSeekV31ToolParser", "lfm2": "lfm2_tool_parser.Lfm2ToolParser",
    }
    out = {}
    for preset, where in table.items():
        module, cls = where.split(".")
        try:
            cls = getattr(importlib.import_module("vllm.tool_parsers." + module), cls)
        except Exception as e:
            print(f"vllm {where}: {e!r}", file=sys.stderr)
            continue

        def parse(text, cls=cls):
            tokenizer = MagicMock()
            tokenizer.get_vocab.return_value = Vocab()
            tokenizer.encode.side_effect = lambda s, **k: [ord(c) for c in s]
            tokenizer.decode.side_effect = lambda ids, **k: "".join(map(chr, ids)) if isinstance(ids, list) else chr(ids)
            request = MagicMock()
            request.tools = tool_objects()
            r = cls(tokenizer, tool_objects()).extract_tool_calls(text, request)
            return r.content or "", [(c.function.name, c.function.arguments) for c in r.tool_calls]
        out.setdefault(preset, []).append(("vllm 0.33.0 " + where, parse))
    return out


# --- calls written by the models' own templates ------------------------------------------------------------------

TEMPLATES = {  # preset: its templates
    "hermes": ["NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B"],
    "qwen3-coder": ["Qwen3-Coder", "Qwen3.5-4B"],
    "mistral": ["mistralai-Mistral-Nemo-Instruct-2407"],
    "mistral-v11": ["Mistral-Small-3.2-24B-Instruct-2506", "unsloth-mistral-Devstral-Small-2507",
                    "mistralai-Ministral-3-14B-Reasoning-2512"],
    "llama3-json": ["meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"],
    "deepseek-v3": ["deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"],
    "deepseek-v3.1": ["deepseek-ai-DeepSeek-V3.1"],
    "deepseek-v3.2": ["deepseek-ai-DeepSeek-V3.2"],
    "kimi-k2": ["Kimi-K2-Instruct", "Kimi-K2-Thinking"],
    "glm-4.5": ["GLM-4.6", "GLM-4.7-Flash"],
    "granite": ["ibm-granite-granite-4.0"],
    "cohere": ["CohereForAI-c4ai-command-r7b-12-2024-tool_use"],
    "minimax-m2": ["MiniMax-M2"],
    "gpt-oss": ["openai-gpt-oss-120b"],
    "seed-oss": ["ByteDance-Seed-OSS"],
}
ENDS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "[e~[",
        "<|end_of_text|>", "<seed:eos>", "<|endoftext|>"]


def environment():
    def stop(message):
        raise jinja2.exceptions.TemplateError(message)
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.filters["from_json"] = json.loads
    env.globals.update(raise_exception=stop, strftime_now=lambda f: "26 Jul 2026")
    return env


def value(r, schema):
    text = lambda: "".join(r.choice(["Paris", " ", "é", "☃", '"', "'", "\\", "\n", "<b>", "{", "}", "]", ",", "x", "12"]) for _ in range(r.randint(0, 8))).strip("\n")
    kind = schema.get("type")
    if "$ref" in schema or kind == "object":
        return {"lang": text(), "n": r.choice([None, True, 1.5, [1, {"a": "b"}]])}
    if "anyOf" in schema:
        return r.choice([None, "t" + text()])
    if isinstance(kind, list):
        return r.randint(-5, 500)
    return {"string": lambda: r.choice(schema["enum"]) if "enum" in schema else "t" + text(), "integer": lambda: r.randint(-9, 10**9), "boolean": lambda: r.random() < .5,
            "number": lambda: r.choice([0.5, -2.25, 3, 1e+20]), "array": lambda: [text() for _ in range(r.randint(0, 3))]}[kind]()


def calls(r, n):
    out = []
    for i in range(n):
        f = r.choice(TOOLS)["function"]
        p = f["parameters"]
        names = [k for k in p["properties"] if k in p.get("required", []) or r.random() < .5]
        out.append({"name": f["name"], "arguments": {k: value(r, p["properties"][k]) for k in names}})
    return out


def rendered(folder):
    env, out = environment(), []
    for preset, list_ in TEMPLATES.items():
        for name in list_:
            source = open(os.path.join(folder, name + ".jinja")).read()
            source = source.replace("{% generation %}", "").replace("{% endgeneration %}", "")
            template = env.from_string(source)
            r = random.Random(name)
            for i in range(8):
                want = calls(r, 1 if preset in ("llama3-json", "gpt-oss") or i % 2 == 0 else 2 + i % 3)
                no_content = ("llama3-json", "cohere", "gpt-oss", "mistral", "deepseek-v3")  # their templates write none beside calls
                content = "" if preset in no_content or "Hermes-2" in name or "Small-3.2" in name or i % 3 == 0 else "Let me look it up."
                messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content, "tool_calls": [
                    {"id": "abcdefgh" + str(j), "type": "function", "function": c} for j, c in enumerate(want)]}]
                if preset == "cohere":
                    messages[1]["reasoning_content"] = "I will look."
                try:
                    kw = dict(tools=TOOLS, bos_token="", eos_token="")
                    prompt = template.render(messages=messages[:1], add_generation_prompt=True, **kw)
                    whole = template.render(messages=messages, add_generation_prompt=False, **kw)
                except Exception as e:
                    print(f"{name}: {e!r}", file=sys.stderr)
                    break
                n = len(os.path.commonprefix([prompt, whole]))
                n -= len(whole[:n]) - (whole[:n].rfind("<") if whole[:n].rfind("<") > whole[:n].rfind(">") else n)
                text = whole[n:]
                for e in ENDS:
                    text = text.split(e)[0]
                text = text.rstrip("\n")
                out.append({"preset": preset, "template": name, "prompt": whole[max(0, n - 30):n], "text": text, "content": content, "calls": want})
    return out


def samples():
    for path in sorted(glob.glob(os.path.join(HERE, "presets", "*.txt"))):
        preset = os.path.basename(path)[:-4]
        for part in ("\n" + open(path).read()).split("\n== ")[1:]:
            title, rest = part.split("\n", 1)
            if " | " not in title:
                yield preset, title, rest.split("\n--\n", 1)[0]


def main():
    sglang_dir, vllm_dir, templates = sys.argv[1:]
    made = rendered(templates)
    right = collections.defaultdict(list)
    parsers = {}
    for table in (sglang_parsers(sglang_dir), vllm_parsers(vllm_dir)):
        for preset, list_ in table.items():
            parsers.setdefault(preset, []).extend(list_)
    for g in made:
        for who, parse in parsers.get(g["preset"], []):
            try:
                found = [{"name": n, "arguments": json.loads(a)} for n, a in parse(g["text"])[1]]
            except Exception:
                found = None
            right[g["template"], who].append(found == g["calls"])
    for (template, who), list_ in right.items():
        print(f"{who} reads {sum(list_)} of {len(list_)} by {template}", file=sys.stderr)
    parsed = []
    for preset, title, text in samples():
        for who, parse in parsers.get(preset, []):
            try:
                found = parse(text)[1]
            except Exception as e:
                print(f"{who}: {title}: {e!r}", file=sys.stderr)
                continue
            parsed.append({"preset": preset, "title": title, "by": who, "text": text,
                           "calls": [{"name": n, "arguments": a} for n, a in found]})
    json.dump({"rendered": made, "parsed": parsed}, sys.stdout, ensure_ascii=False, indent=0)


main()
