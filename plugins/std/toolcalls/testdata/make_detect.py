#!/usr/bin/env python3
"""Makes detect.json: which marks occur in real chat templates.

The templates themselves carry the licences of their models and stay where they are: detection looks for marks only, so
what a template contains of them is all that its test needs.

    make_detect.py TEMPLATES_DIR_OF_LLAMA_CPP [RENDERED_JSON_OF_HUGGINGFACE_JS] > detect.json
"""
import glob, hashlib, json, os, sys

MARKS = ["<|channel|>", "<|message|>", "analysis", "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "｜DSML｜",
         "<｜tool▁calls▁begin｜>", "```json", "<minimax:tool_call>", "<arg_key>", "<tool_call>", "<tool_calls>[", "seed:tool_call",
         "<function=", "<parameter=", "<|START_ACTION|>", "[TOOL_CALLS]", "[ARGS]", "<|/tool_call|>", "functools[", "<|tool|>",
         "<|/tool|>", "<|tool_call|>", "<|start_of_role|>", "<|tool_call_start|>", "<|tool_list_start|>", "```python",
         "<function_calls>", "<functions>", '<invoke name="', "<TOOLCALL>", "<|python_start|>",
         "[func_name1(params_name1=params_value1", "<|python_tag|>", '"parameters": dictionary of argument name']


def main():
    out = {"marks": MARKS, "templates": {}}
    texts = {os.path.basename(p)[:-6]: open(p).read() for p in sorted(glob.glob(os.path.join(sys.argv[1], "*.jinja")))}
    for path in sys.argv[2:]:
        for item in json.load(open(path)):
            t = item["template"]
            texts["hf.js " + item["name"]] = t if isinstance(t, str) else json.dumps(t, ensure_ascii=False)
    for name, text in texts.items():
        out["templates"][name] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "has": [m for m in MARKS if m in text]}
    print(json.dumps(out, ensure_ascii=False, indent=1))


main()
