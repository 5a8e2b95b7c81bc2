"""Write tiny folders of ready ONNX graphs, made by other software, to onnx/NAME, and what they compute.

    python3 -m pip install -r requirements.txt
    python3 make_onnx_goldens.py

genai-*: onnxruntime-genai's model builder; genai-last has logits of the last position alone, genai-window a layer that
sees 10 tokens. community: the same with 16-bit floats, in the layout of onnx-community. hub: that layout, exported by
torch and quantised by onnxruntime. positionless and keep: graphs with other inputs. Each golden_*.json has prompts,
logits of all positions of the first and greedy tokens: of transformers for 32-bit weights, else of onnxruntime in Python
on the same file, one sequence at a time, first the whole prompt.
"""
import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import QuantType, matmul_nbits_quantizer, quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parent / "onnx"
VOCAB, TOKENS = 272, 64
LENGTHS, CANDIDATES = (9, 1, 14), 60
SHAPE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=160, bos_token_id=257, eos_token_id=258,
             pad_token_id=256, tie_word_embeddings=False)


def tokenizer(folder):
    """Write a tokenizer with a token for each byte, and three special ones."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocab = {c: i for i, c in enumerate(sorted(alphabet))}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens(["<pad>", "<s>", "</s>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                         ).save_pretrained(folder)


def model(kind, seed, **more):
    """Return a random model with weights wide enough for tokens to differ."""
    torch.manual_seed(seed)
    config = getattr(transformers, kind + "Config")(**SHAPE, **more)
    m = getattr(transformers, kind + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, p in m.named_parameters():
            p.normal_(1.0, 0.2) if "norm" in name else p.normal_(0.0, 0.3 if p.dim() > 1 else 0.1)
    return m


def by_transformers(m):
    """Return a function that computes the logits of tokens after those that it was given since it was reset."""
    def logits(tokens, state=[]):
        if tokens is None:
            state.clear()
            return None
        state.extend(tokens)
        with torch.no_grad():
            return m(torch.tensor([state])).logits[0, -len(tokens):].numpy()
    return logits


def by_onnxruntime(path):
    """Return such a function for a graph, which keeps its cache."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    past = {}

    def logits(tokens):
        if tokens is None:
            for i in session.get_inputs():
                if "past" in i.name:
                    kind = np.float16 if i.type == "tensor(float16)" else np.float32
                    past[i.name] = np.zeros((1, 2, 0, 16), dtype=kind)
            return None
        have = next(iter(past.values())).shape[2]
        feeds = {"input_ids": tokens, "attention_mask": [1] * (have + len(tokens)),
                 "position_ids": list(range(have, have + len(tokens)))}
        feeds = {i.name: np.array([feeds[i.name]], dtype=np.int64) for i in session.get_inputs() if i.name in feeds}
        names = ["logits"] + [n.replace("past_key_values", "present") for n in past]
        got = session.run(names, feeds | past)
        past.update(zip(past, got[1:]))
        return got[0][0].astype(np.float32)
    return logits


def greedy(logits, prompt):
    """Return the tokens after a prompt, and by how much each was ahead of the next best."""
    logits(None)
    row, out, ahead = logits(prompt)[-1], [], np.inf
    for _ in range(TOKENS):
        second, first = np.argsort(row)[-2:]
        out.append(int(first))
        ahead = min(ahead, float(row[first] - row[second]))
        row = logits(out[-1:])[-1]
    return out, ahead


def golden(logits):
    """Return what a model computes for some prompts: those whose tokens rounding changes least."""
    random = np.random.default_rng(5)
    out = {"prompts": [], "tokens": [], "ahead": []}
    for n in LENGTHS:
        tries = [[int(t) for t in random.integers(0, 256, n)] for _ in range(CANDIDATES)]
        tokens, ahead, prompt = max(((*greedy(logits, p), p) for p in tries), key=lambda x: x[1])
        out["prompts"].append(prompt)
        out["tokens"].append(tokens)
        out["ahead"].append(round(ahead, 4))
    logits(None)
    out["logits"] = base64.b64encode(logits(out["prompts"][0]).astype("<f4").tobytes()).decode()
    return out


def save_golden(folder, form, logits):
    path = folder / f"golden_{form}.json"
    path.write_text(json.dumps(golden(logits)) + "\n")


def checkpoint(m, folder):
    m.save_pretrained(folder)
    tokenizer(folder)


def genai(name, m, precision, reference=None, *options):
    out = OUT / name
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as tmp:
        checkpoint(m, tmp)
        subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", tmp, "-o", out, "-p", precision,
                        "-e", "cpu", "-c", pathlib.Path(tmp) / "cache", *options], check=True,
                       stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    if options:  # which change nothing in what it computes
        shutil.copy(OUT / name.replace("last", precision) / "golden_q4.json", out)
        return
    form = {"int4": "q4"}.get(precision, precision)
    save_golden(out, form, reference or by_onnxruntime(out / "model.onnx"))


class WithPast(torch.nn.Module):
    """A decoder with its cache as tensors."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, input_ids, attention_mask, *rest):
        position_ids, past = (rest[0], rest[1:]) if len(rest) % 2 else (None, rest)
        cache = transformers.DynamicCache()
        for i in range(len(past) // 2):
            cache.update(past[2 * i], past[2 * i + 1], i)
        got = self.m(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                     past_key_values=cache, use_cache=True)
        out = [got.logits]
        for layer in got.past_key_values.layers:
            out += [layer.keys, layer.values]
        return tuple(out)


def export(m, path, positions=True):
    c = m.config
    m.config._attn_implementation = "eager"
    past = [torch.randn(2, c.num_key_value_heads, 3, c.head_dim) for _ in range(2 * c.num_hidden_layers)]
    ids = torch.tensor([[1, 2], [3, 4]])
    mask = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    at = [torch.tensor([[2, 3], [3, 4]])] if positions else []
    names = [f"past_key_values.{i}.{k}" for i in range(c.num_hidden_layers) for k in ("key", "value")]
    present = [n.replace("past_key_values", "present") for n in names]
    axes = {"input_ids": {0: "batch_size", 1: "sequence_length"},
            "attention_mask": {0: "batch_size", 1: "total_sequence_length"},
            "position_ids": {0: "batch_size", 1: "sequence_length"}, "logits": {0: "batch_size", 1: "sequence_length"}}
    axes |= {n: {0: "batch_size", 2: "past_sequence_length"} for n in names}
    axes |= {n: {0: "batch_size", 2: "total_sequence_length"} for n in present}
    torch.onnx.export(WithPast(m), (ids, mask, *at, *past), str(path), dynamo=False, opset_version=18,
                      input_names=["input_ids", "attention_mask", *(["position_ids"] if positions else []), *names],
                      output_names=["logits", *present], dynamic_axes=axes)


def q4(of, to):
    q = matmul_nbits_quantizer.MatMulNBitsQuantizer(of, block_size=32, is_symmetric=True, accuracy_level=4)
    q.process()
    q.model.save_model_to_file(str(to))


def positionless():
    """Write a graph that finds positions by the length of its cache."""
    out = OUT / "positionless"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    m = model("Qwen2", 4)
    m.config.save_pretrained(out)
    with tempfile.TemporaryDirectory() as tmp:
        export(m, f"{tmp}/model.onnx", positions=False)
        q4(onnx.load(f"{tmp}/model.onnx"), out / "model_q4.onnx")
    save_golden(out, "q4", by_onnxruntime(out / "model_q4.onnx"))


def keep():
    """Write a graph with the input num_logits_to_keep, as newer ones of onnx-community have."""
    out = OUT / "keep"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shutil.copy(OUT / "community" / "config.json", out)
    m = onnx.load(OUT / "genai-int4" / "model.onnx")
    head = next(n for n in m.graph.node if "logits" in n.output)
    new = [onnx.helper.make_node("Neg", ["num_logits_to_keep"], ["kept"]),
           onnx.helper.make_node("Unsqueeze", ["kept", "zero"], ["from"]),
           onnx.helper.make_node("Slice", [head.input[0], "from", "end", "one"], ["last"])]
    for name, value in (("zero", 0), ("one", 1), ("end", 2 ** 31)):
        m.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value], np.int64), name))
    m.graph.input.append(onnx.helper.make_tensor_value_info("num_logits_to_keep", onnx.TensorProto.INT64, []))
    head.input[0] = "last"
    at = list(m.graph.node).index(head)
    for i, n in enumerate(new):
        m.graph.node.insert(at + i, n)
    dims = next(o for o in m.graph.output if o.name == "logits").type.tensor_type.shape.dim
    dims[1].dim_param = "num_logits_to_keep"
    onnx.save(m, out / "model_q4.onnx")
    shutil.copy(OUT / "genai-int4" / "golden_q4.json", out)


def hub():
    out = OUT / "hub"
    shutil.rmtree(out, ignore_errors=True)
    m = model("Qwen2", 3)
    graphs = out / "onnx"
    graphs.mkdir(parents=True)
    m.config.save_pretrained(out)
    m.generation_config.save_pretrained(out)
    tokenizer(out)
    export(m, graphs / "plain.onnx")
    plain = onnx.load(graphs / "plain.onnx")
    (graphs / "plain.onnx").unlink()
    onnx.save(plain, graphs / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=1024)
    save_golden(out, "fp32", by_transformers(m))
    plain = onnx.load(graphs / "model.onnx")

    q4(plain, graphs / "model_q4.onnx")
    half = convert_float_to_float16(onnx.load(graphs / "model.onnx"), disable_shape_infer=True)
    onnx.save(half, graphs / "model_fp16.onnx")
    q4f16 = convert_float_to_float16(onnx.load(graphs / "model_q4.onnx"), disable_shape_infer=True)
    onnx.save(q4f16, graphs / "model_q4f16.onnx")
    quantize_dynamic(graphs / "model.onnx", graphs / "model_int8.onnx", weight_type=QuantType.QInt8)
    for form in ("q4", "fp16", "q4f16", "int8"):
        save_golden(out, form, by_onnxruntime(graphs / f"model_{form}.onnx"))


def community(m):
    """Write genai's graphs in the layout of onnx-community, with 16-bit floats."""
    out = OUT / "community"
    shutil.rmtree(out, ignore_errors=True)
    (out / "onnx").mkdir(parents=True)
    m.config.save_pretrained(out)
    m.generation_config.save_pretrained(out)
    tokenizer(out)
    for form, of in (("fp16", "genai-fp32"), ("q4f16", "genai-int4")):
        half = convert_float_to_float16(onnx.load(OUT / of / "model.onnx"), disable_shape_infer=True)
        onnx.save(half, out / "onnx" / f"model_{form}.onnx",
                  save_as_external_data=True, location=f"model_{form}.onnx_data")
        save_golden(out, form, by_onnxruntime(out / "onnx" / f"model_{form}.onnx"))


def main():
    llama = model("Llama", 7)
    genai("genai-fp32", llama, "fp32", by_transformers(llama))
    genai("genai-int4", llama, "int4")
    genai("genai-last", llama, "int4", None, "--extra_options", "prune_lm_head=true")
    windows = model("Qwen2", 5, use_sliding_window=True, sliding_window=10, max_window_layers=1)
    genai("genai-window", windows, "fp32", by_transformers(windows))
    community(llama)
    hub()
    positionless()
    keep()


main()
