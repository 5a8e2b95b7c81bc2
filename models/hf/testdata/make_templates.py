#!/usr/bin/env python3
"""Records which chat templates and named tokens transformers finds in a folder.

    pip install transformers==5.23.0
    python3 make_templates.py

Writes templates.json: for each made-up folder its files (text by path), the
templates by name, and the tokens by name. Templates are those of the tokenizer;
where it has none, those of the processor.
"""

import json
import os
import tempfile

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, __version__
from transformers.processing_utils import ProcessorMixin

CONFIG, JINJA, LEGACY, PROCESSOR = "tokenizer_config.json", "chat_template.jinja", "chat_template.json", "processor_config.json"
EXTRA, MAP = "additional_chat_templates/", "special_tokens_map.json"


def template(value):
    return json.dumps({"chat_template": value})


NAMED = [{"name": "default", "template": "config default"}, {"name": "tool_use", "template": "config tools"}]
FOLDERS = {
    "nothing": {},
    "config, a string": {CONFIG: template("config")},
    "config, a list": {CONFIG: template(NAMED)},
    "config, an object": {CONFIG: template({"default": "a", "rag": "b"})},
    "config, null": {CONFIG: template(None)},
    "config, empty": {CONFIG: template("")},
    "jinja only": {JINJA: "jinja"},
    "jinja, empty": {JINJA: "", CONFIG: template("config")},
    "jinja beats config": {JINJA: "jinja", CONFIG: template("config")},
    "jinja beats all of a list": {JINJA: "jinja", CONFIG: template(NAMED)},
    "jinja and extra": {JINJA: "jinja", EXTRA + "tool_use.jinja": "extra tools", EXTRA + "rag.jinja": "extra rag"},
    "extra beats config": {CONFIG: template(NAMED), EXTRA + "rag.jinja": "extra rag"},
    "extra named default": {JINJA: "jinja", EXTRA + "default.jinja": "extra default"},
    "extra of other kinds": {JINJA: "jinja", EXTRA + "tool_use.txt": "no", EXTRA + "a.b.jinja": "dots", EXTRA + "sub/x.jinja": "no"},
    "legacy only": {LEGACY: template("legacy")},
    "legacy after config": {LEGACY: template("legacy"), CONFIG: template("config")},
    "legacy after jinja": {LEGACY: template("legacy"), JINJA: "jinja"},
    "processor only": {PROCESSOR: template("processor")},
    "processor without": {PROCESSOR: json.dumps({"image_token": "<image>"}), LEGACY: template("legacy")},
    "processor beats legacy": {PROCESSOR: template("processor"), LEGACY: template("legacy")},
    "processor after config": {PROCESSOR: template("processor"), CONFIG: template("config")},
    "processor after jinja": {PROCESSOR: template("processor"), JINJA: "jinja"},
    "all": {PROCESSOR: template("processor"), LEGACY: template("legacy"), CONFIG: template(NAMED), JINJA: "jinja"},
    "tokens": {CONFIG: json.dumps(dict(bos_token="<s>", eos_token=dict(__type="AddedToken", content="</s>", lstrip=False, normalized=False, rstrip=False, single_word=False, special=True),
                                       pad_token=None, mask_token="", add_bos_token=True, image_token="<image>", tokenizer_class="PreTrainedTokenizerFast", some_token=None, n_token=3))},
    "extra tokens": {CONFIG: json.dumps(dict(bos_token="<s>", extra_special_tokens=dict(image_token="<image>", boi="<boi>")))},
    "list of extra tokens": {CONFIG: json.dumps(dict(bos_token="<s>", additional_special_tokens=["<a>", "<b>"]))},
    "map alone": {MAP: json.dumps(dict(bos_token="<s>", eos_token=dict(content="</s>", lstrip=False, normalized=False, rstrip=False, single_word=False)))},
    "map beats config": {MAP: json.dumps(dict(bos_token="<map>")), CONFIG: json.dumps(dict(bos_token="<s>", eos_token="</s>"))},
    "map without say": {MAP: json.dumps(dict(bos_token="<map>", pad_token="<pad>")), CONFIG: json.dumps(dict(bos_token="<s>", added_tokens_decoder={
        "0": dict(content="<s>", lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)}))},
}


def by_name(templates):
    if templates is None:
        return {}
    return templates if isinstance(templates, dict) else {"default": templates}


def main():
    out = []
    for name, files in FOLDERS.items():
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                with open(os.path.join(folder, path), "w", encoding="utf-8") as f:
                    f.write(text)
            Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(os.path.join(folder, "tokenizer.json"))
            tok = PreTrainedTokenizerFast.from_pretrained(folder)
            found = by_name(tok.chat_template)
            if not found:
                found = by_name(ProcessorMixin.get_processor_dict(folder)[0].get("chat_template"))
            out.append(dict(name=name, files=files, templates=found, tokens=tok.special_tokens_map))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates.json"), "w", encoding="utf-8") as f:
        json.dump(dict(transformers=__version__, folders=out), f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
