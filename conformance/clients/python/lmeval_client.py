"""lm-eval: its completions and chat models on small tasks of the demo model's world, without a hub."""

import json
import logging
import math
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
_folder = tempfile.TemporaryDirectory()  # of the tasks, their data and the data's cache
os.environ["HF_HOME"] = _folder.name

import datasets
import lm_eval
import yaml
from lm_eval.tasks import TaskManager

from checks import *

logging.getLogger().setLevel(logging.ERROR)
logging.getLogger("lm_eval").setLevel(logging.ERROR)
datasets.disable_progress_bars()

TOKENIZER = os.environ["TGI_TOKENIZER"]  # a folder with the demo model's tokenizer.json

# The first choice is the likely one: the model learned that it follows.
CHOICES = [
    {"prompt": PROMPT, "choices": ["Mira lives in the old mill", "seven anchor of of blue the"], "gold": 0},
    {"prompt": "Once upon a time", "choices": [", there was", "?? was zz 9"], "gold": 0},
]
STORY = "Mira lives in the old mill. She is a baker and she has a cat."
TEXTS = [{"text": STORY}, {"text": " ".join(sorted(STORY.split()))}]
QUESTIONS = [{"question": QUESTION, "answer": ANSWER}]

TASKS = {
    "choice": {
        "output_type": "multiple_choice", "doc_to_text": "{{prompt}}", "doc_to_choice": "{{choices}}", "doc_to_target": "gold",
        "target_delimiter": "", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    },
    "rolling": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}, {"metric": "byte_perplexity"}, {"metric": "bits_per_byte"}],
    },
    "answer": {
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 50, "temperature": 0},
        "metric_list": [{"metric": "exact_match"}],
    },
}


def _written():
    for (name, task), docs in zip(TASKS.items(), (CHOICES, TEXTS, QUESTIONS)):
        data = os.path.join(_folder.name, name + ".jsonl")
        with open(data, "w") as f:
            f.writelines(json.dumps(d) + "\n" for d in docs)
        source = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": data}}, "test_split": "test"}
        with open(os.path.join(_folder.name, name + ".yaml"), "w") as f:
            yaml.safe_dump({**source, **task}, f)
    return TaskManager(include_path=_folder.name, include_defaults=False)


MANAGER = _written()


def evaluate(task, model="local-completions", path="/v1/completions", chat=False, **settings):
    """The figures of a task, and what came of each of its documents."""
    out = lm_eval.simple_evaluate(
        model=model, tasks=[task], task_manager=MANAGER, apply_chat_template=chat, bootstrap_iters=0,
        model_args={"model": "tgi", "base_url": URL + path, "max_retries": 1, **settings})
    return out["results"][task], out["samples"][task]


def tokenized(**settings):
    """Prompts as token ids, which is the default of local-completions."""
    return {"tokenizer_backend": "huggingface", "tokenizer": TOKENIZER, "tokenized_requests": True, **settings}


def likely_ahead(figures, samples):
    same(figures["acc,none"], 1.0)
    for s in samples:
        (likely, _), (unlikely, _) = s["filtered_resps"]
        assert unlikely < likely < 0, s["filtered_resps"]


@check("multiple choice with token ids")
def _():
    likely_ahead(*evaluate("choice", **tokenized()))


@check("multiple choice with texts")
def _():
    likely_ahead(*evaluate("choice", **tokenized(tokenized_requests=False)))


@check("multiple choice in batches and side by side")
def _():
    one = [s["filtered_resps"] for s in evaluate("choice", **tokenized())[1]]
    for settings in ({"batch_size": 4}, {"num_concurrent": 4}):
        figures, samples = evaluate("choice", **tokenized(**settings))
        likely_ahead(figures, samples)
        for got, want in zip((s["filtered_resps"] for s in samples), one):
            for (g, _), (w, _) in zip(got, want):
                assert math.isclose(g, w, rel_tol=1e-3, abs_tol=1e-3), (got, want)


@check("the likely choice is the greedy one")
def _():
    greedy = evaluate("choice", **tokenized())[1][0]["filtered_resps"]
    same([bool(g) for _, g in greedy], [True, False])


@check("rolling loglikelihood, in one window and in many")
def _():
    for settings in (tokenized(), tokenized(max_length=12), tokenized(tokenized_requests=False)):
        figures, samples = evaluate("rolling", **settings)
        assert 1 < figures["byte_perplexity,none"] < figures["word_perplexity,none"] < math.inf, figures
        story, shuffled = (s["filtered_resps"][0] for s in samples)
        assert shuffled < story < 0, samples


@check("generation with completions")
def _():
    _, samples = evaluate("answer", chat=True, **tokenized())
    holds(samples[0]["filtered_resps"][0], ANSWER)


@check("generation with chat")
def _():
    _, samples = evaluate("answer", "local-chat-completions", "/v1/chat/completions", chat=True)
    holds(samples[0]["filtered_resps"][0], ANSWER)


run()
