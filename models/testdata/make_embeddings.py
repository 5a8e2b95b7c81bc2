#!/usr/bin/env python3
"""Makes embeddings/*: tiny random checkpoints of classes that turn texts into vectors or scores, and what
sentence-transformers makes of some texts with them.

    pip install torch transformers sentence-transformers tokenizers safetensors
    OMP_NUM_THREADS=1 python3 models/testdata/make_embeddings.py [NAME ...]

Made with sentence-transformers 6.2, transformers 5.23, tokenizers 0.23 and torch 2.15.
"""

import gzip
import json
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
import transformers as tr
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.cross_encoder import modules as ce
from sentence_transformers.sparse_encoder import modules as sparse
from sentence_transformers.sentence_transformer import modules as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "embeddings")
HIDDEN, LAYERS, HEADS, INNER, VOCAB = 32, 2, 4, 48, 280
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "",
    "a",
    "Vectors of texts, and texts of vectors: one after another, and no padding between them at all. " * 3,
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich \u2014 \U0001f98a",
    "x" * 300,
    "line one\nline two\ttabbed",
    "The quick brown fox jumps over the lazy dog",
]
QUERY = "Which animal jumps?"


def tokenizer(pair_types):
    """A byte-level BPE tokenizer with few merges; BERT's template, or RoBERTa's."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    t.train_from_iterator([" ".join(TEXTS)], trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=special,
                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    sides = ("<s> $A </s>", "<s> $A </s> $B:1 </s>:1") if pair_types else ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    t.post_processor = processors.TemplateProcessing(single=sides[0], pair=sides[1],
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    names = {"token_type_ids"} if pair_types else set()
    return tr.PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token="<mask>", model_max_length=320,
        model_input_names=["input_ids", "attention_mask"] + sorted(names))


SIZES = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             intermediate_size=INNER, pad_token_id=1, bos_token_id=0, eos_token_id=2)
BERT = dict(SIZES, max_position_embeddings=320)
ROBERTA = dict(SIZES, max_position_embeddings=322, type_vocab_size=1)
MODERN = dict(SIZES, num_hidden_layers=3, max_position_embeddings=320, local_attention=16, cls_token_id=0,
              sep_token_id=2)
QWEN = dict(SIZES, num_key_value_heads=2, head_dim=8, max_position_embeddings=320, tie_word_embeddings=True)
GEMMA = dict(SIZES, num_key_value_heads=2, head_dim=8, max_position_embeddings=320, sliding_window=16,
             use_bidirectional_attention=True, layer_types=["sliding_attention", "full_attention"],
             query_pre_attn_scalar=8)
DISTIL = dict(vocab_size=VOCAB, dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS, hidden_dim=INNER, pad_token_id=1,
              max_position_embeddings=320)
ONE = {"num_labels": 1}

# name: (config class, settings, task class, pooling, modules behind it, prompts, default prompt)
VECTORS = {
    "bert": (tr.BertConfig, BERT, "mean", ["norm"], {}, None),
    "bert-modes": (tr.BertConfig, BERT, ("cls", "max", "mean_sqrt_len_tokens", "weightedmean"), [], {}, None),
    "roberta": (tr.RobertaConfig, ROBERTA, "cls", [], {}, None),
    "xlm-roberta": (tr.XLMRobertaConfig, ROBERTA, "mean", [("tanh", 24), "norm"], {}, None),
    "modernbert": (tr.ModernBertConfig, MODERN, "cls", ["norm"], {}, None),
    "mpnet": (tr.MPNetConfig, dict(BERT, max_position_embeddings=322), "mean", ["norm"], {}, None),
    "distilbert": (tr.DistilBertConfig, DISTIL, "mean", [], {}, None),
    "nomic": (tr.NomicBertConfig, BERT, "mean", ["norm"], {"query": "search_query: ", "document": "search_document: "},
              "document"),
    "qwen3": (tr.Qwen3Config, QWEN, "lasttoken", ["norm"], {"query": "Instruct: find\nQuery:"}, None),
    "gemma": (tr.Gemma3TextConfig, GEMMA, "mean", [("identity", 48), ("identity", 32), "norm"],
              {"query": "task: search result | query: "}, None),
}
SCORES = {
    "bert-rank": (tr.BertConfig, dict(BERT, **ONE), tr.BertForSequenceClassification),
    "roberta-rank": (tr.RobertaConfig, dict(ROBERTA, **ONE), tr.RobertaForSequenceClassification),
    "xlm-roberta-rank": (tr.XLMRobertaConfig, dict(ROBERTA, **ONE), tr.XLMRobertaForSequenceClassification),
    "modernbert-rank": (tr.ModernBertConfig, dict(MODERN, classifier_pooling="mean", **ONE),
                        tr.ModernBertForSequenceClassification),
    "distilbert-labels": (tr.DistilBertConfig, dict(DISTIL, id2label={0: "anger", 1: "joy", 2: "fear"}),
                          tr.DistilBertForSequenceClassification),
    "mpnet-rank": (tr.MPNetConfig, dict(BERT, max_position_embeddings=322, **ONE), tr.MPNetForSequenceClassification),
    "qwen3-rank": (tr.Qwen3Config, dict(QWEN, **ONE), tr.Qwen3ForSequenceClassification),
}

# SPLADE: name: (config class, settings, task class, SpladePooling's settings)
SPARSE = {
    "bert-splade": (tr.BertConfig, BERT, tr.BertForMaskedLM, {}),
    "distilbert-splade": (tr.DistilBertConfig, DISTIL, tr.DistilBertForMaskedLM, {"activation_function": "log1p_relu"}),
    "roberta-splade": (tr.RobertaConfig, ROBERTA, tr.RobertaForMaskedLM, {"pooling_strategy": "sum"}),
}

# Decoders that are asked whether a text answers a query, as Qwen3-Reranker: name: (config class, settings, task class,
# whether there is a token that speaks against the text, prompts, default prompt). The prompt is Qwen3-Reranker's, with
# the tokenizer's own special tokens.
ASKED_LENGTH = 700
LLAMA = dict(SIZES, num_key_value_heads=2, max_position_embeddings=ASKED_LENGTH, tie_word_embeddings=False)
ASK = "Given a web search query, retrieve relevant passages that answer the query"
ASKED = {
    "qwen3-ask": (tr.Qwen3Config, dict(QWEN, max_position_embeddings=ASKED_LENGTH), tr.Qwen3ForCausalLM, True,
                  {"query": ASK}, "query"),
    "llama-ask": (tr.LlamaConfig, LLAMA, tr.LlamaForCausalLM, False, {}, None),
}
PREFIX = ("<s>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
          "Note that the answer can only be \"yes\" or \"no\".</s>\n<s>user\n")
SUFFIX = "</s>\n<s>assistant\n<mask>\n\n<mask>\n\n"
TEMPLATE = """{%- set instruction = messages | selectattr("role", "eq", "system") | map(attribute="content") | first
    | default("NONE") -%}
{%- set query = messages | selectattr("role", "eq", "query") | map(attribute="content") | first -%}
{%- set document = messages | selectattr("role", "eq", "document") | map(attribute="content") | first -%}
PREFIX<Instruct>: {{ instruction }}
<Query>: {{ query }}
<Document>: {{ document }}SUFFIX{{ "\n" }}""".replace("NONE", ASK).replace("PREFIX", PREFIX).replace(
    "SUFFIX", SUFFIX.removesuffix("\n"))


def randomize(model):
    g = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=g)
            if p.dim() > 1:
                p.copy_(noise * (0.6 if "embed" in name or "relative" in name else 0.25))
            elif "norm" in name.lower() and name.endswith("weight"):
                p.copy_(1 + 0.2 * noise)
            else:
                p.copy_(0.1 * noise)
    return model.eval()


def has_types(name):
    return name.startswith(("bert", "nomic"))


def save_goldens(folder, golden):
    with gzip.GzipFile(os.path.join(folder, "golden.json.gz"), "w", mtime=0) as f:
        f.write(json.dumps(golden).encode())
    for junk in ("README.md", "special_tokens_map.json", "vocab.json", "merges.txt"):
        if os.path.exists(os.path.join(folder, junk)):
            os.remove(os.path.join(folder, junk))


def vectors(name):
    config, sizes, pooling, behind, prompts, default = VECTORS[name]
    base = os.path.join("/tmp", f"tgi-embedding-{os.getpid()}")
    config = config(**sizes)
    randomize(tr.AutoModel.from_config(config)).save_pretrained(base)
    tokenizer(has_types(name)).save_pretrained(base)
    word = st.Transformer(base, max_seq_length=200 if name == "bert" else None)
    pool = st.Pooling(HIDDEN, pooling)
    parts, width = [word, pool], pool.get_embedding_dimension()
    torch.manual_seed(3)
    for b in behind:
        if b == "norm":
            parts.append(st.Normalize())
            continue
        act = torch.nn.Tanh() if b[0] == "tanh" else torch.nn.Identity()
        parts.append(st.Dense(width, b[1], bias=b[0] == "tanh", activation_function=act))
        width = b[1]
    model = SentenceTransformer(modules=parts, prompts=prompts, default_prompt_name=default, device="cpu")
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save(folder)
    model = SentenceTransformer(folder, device="cpu")  # what others read of it
    golden = {"texts": TEXTS, "prompts": {}}
    for prompt in [None, *prompts]:
        rows = [model.encode(t, prompt_name=prompt, convert_to_numpy=True) for t in TEXTS]
        golden["prompts"][prompt or ""] = [[float(v) for v in row] for row in rows]
    ids = [model.tokenizer(t, truncation=True, max_length=model.max_seq_length)["input_ids"] for t in TEXTS]
    golden["ids"] = ids
    with torch.no_grad():
        golden["tokens"] = [float(v) for v in model.encode(TEXTS[0], output_value="token_embeddings",
                                                            prompt="").flatten()]
    save_goldens(folder, golden)
    shutil.rmtree(base)


def scores(name):
    config, sizes, task = SCORES[name]
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    randomize(task(config(**sizes))).save_pretrained(folder)
    tokenizer(has_types(name)).save_pretrained(folder)
    model = CrossEncoder(folder, device="cpu", activation_fn=torch.nn.Identity())
    golden = {"texts": TEXTS, "query": QUERY}
    one = lambda p: [float(v) for v in torch.tensor(model.predict([p])).flatten()]
    golden["pairs"] = [one((QUERY, t)) for t in TEXTS]
    tok = model.tokenizer
    golden["ids"] = [tok([QUERY], [t])["input_ids"][0] for t in TEXTS]
    golden["types"] = [tok([QUERY], [t]).get("token_type_ids", [[0] * len(i)])[0]
                       for t, i in zip(TEXTS, golden["ids"])]
    with torch.no_grad():
        golden["single"] = [[float(v) for v in model.model(**tok(t, return_tensors="pt")).logits.flatten()]
                            for t in TEXTS]
    save_goldens(folder, golden)


def card(model, tok, instruction, query, text, yes, no):
    """The score as Qwen3-Reranker's model card computes it, with its own prompt in place of the template."""
    pair = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"
    encode = lambda t: tok.encode(t, add_special_tokens=False)
    ids = torch.tensor([encode(PREFIX) + encode(pair) + encode(SUFFIX)])
    logits = model(ids).logits[:, -1, :]
    both = torch.stack([logits[:, no], logits[:, yes]], dim=1)
    return torch.nn.functional.log_softmax(both, dim=1)[0, 1].exp().item()


def asked(name):
    config, sizes, task, against, prompts, default = ASKED[name]
    base = os.path.join("/tmp", f"tgi-embedding-{os.getpid()}")
    randomize(task(config(**sizes))).save_pretrained(base)
    tok = tokenizer(False)
    tok.chat_template, tok.model_max_length = TEMPLATE, ASKED_LENGTH
    tok.save_pretrained(base)
    yes, no = tok.convert_tokens_to_ids(["y", "n"])
    score = ce.LogitScore(true_token_id=yes, false_token_id=no if against else None)
    word = ce.Transformer(base, transformer_task="text-generation")
    model = CrossEncoder(modules=[word, score], prompts=prompts, default_prompt_name=default, device="cpu")
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    model = CrossEncoder(folder, device="cpu", activation_fn=torch.nn.Identity())  # what others read of it
    golden = {"texts": TEXTS[:5] + TEXTS[6:], "query": QUERY}
    golden["pairs"] = [[float(model.predict((QUERY, t)))] for t in golden["texts"]]
    prompt = prompts.get(default)
    golden["ids"] = [model.preprocess([(QUERY, t)], prompt=prompt)["input_ids"][0].tolist() for t in golden["texts"]]
    if against:
        lm = task.from_pretrained(folder)
        with torch.no_grad():
            golden["card"] = [card(lm, tok, prompt or ASK, QUERY, t, yes, no) for t in golden["texts"]]
    save_goldens(folder, golden)
    shutil.rmtree(base)


def sparse_vectors(name):
    config, sizes, task, pooling = SPARSE[name]
    base = os.path.join("/tmp", f"tgi-embedding-{os.getpid()}")
    randomize(task(config(**sizes))).save_pretrained(base)
    tokenizer(has_types(name)).save_pretrained(base)
    model = SparseEncoder(modules=[sparse.MLMTransformer(base), sparse.SpladePooling(**pooling)], device="cpu")
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save(folder)
    model = SparseEncoder(folder, device="cpu")
    golden = {"texts": TEXTS}
    golden["prompts"] = {"": [[float(v) for v in model.encode(t, convert_to_sparse_tensor=False)] for t in TEXTS]}
    golden["ids"] = [model.tokenizer(t, truncation=True, max_length=model.max_seq_length)["input_ids"] for t in TEXTS]
    with torch.no_grad():
        inner = tr.AutoModel.from_pretrained(folder)
        golden["tokens"] = [float(v) for v in
                            inner(**model.tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state.flatten()]
    save_goldens(folder, golden)
    shutil.rmtree(base)


def main():
    makers = {**dict.fromkeys(VECTORS, vectors), **dict.fromkeys(SCORES, scores),
              **dict.fromkeys(SPARSE, sparse_vectors), **dict.fromkeys(ASKED, asked)}
    for name in sys.argv[1:] or makers:
        makers[name](name)
        print(name)


if __name__ == "__main__":
    main()
