#!/usr/bin/env python3
"""Times what PyTorch and vLLM do with a model of the same shape on the same device, and writes Markdown.

PyTorch: the products of a decoding step in bf16 with weights of their own for each layer, with attention over a cache,
as one CUDA graph; no norms, no rotary embedding, no sampling. It is what a step of plain library calls takes at least.
vLLM: decoding and prompts with dummy weights, offline. What is not installed is said to be missing; nothing is fetched.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time


def arguments():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--config", required=True, help="folder with the config.json of the shape")
    parse.add_argument("--rows", default="1,8,32,64,128", help="batch sizes")
    parse.add_argument("--context", type=int, default=1024, help="tokens in the cache of each row")
    parse.add_argument("--prompts", default="1024,8192", help="lengths of prompts, for vLLM")
    parse.add_argument("--for", dest="seconds", type=float, default=0.5, help="how long each figure is measured")
    parse.add_argument("--device", type=int, default=0)
    parse.add_argument("--time", type=float, default=120, help="seconds after which nothing more is begun")
    return parse.parse_args()


class Shape:
    """The sizes of a model, as config.json has them."""

    def __init__(self, folder):
        c = json.loads((pathlib.Path(folder) / "config.json").read_text())
        self.hidden, self.inter, self.layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
        self.heads, self.kv, self.vocab = c["num_attention_heads"], c["num_key_value_heads"], c["vocab_size"]
        self.dim = c.get("head_dim") or self.hidden // self.heads


def median(run, synchronize, seconds):
    """The median time of run in seconds."""
    times, began = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def matrices(torch, shape, **kind):
    """Random matrices of one layer: QKV, output, gate and up, down."""
    sizes = [((shape.heads + 2 * shape.kv) * shape.dim, shape.hidden), (shape.hidden, shape.heads * shape.dim),
             (2 * shape.inter, shape.hidden), (shape.hidden, shape.inter)]
    return [torch.randn(size, **kind) * 0.02 for size in sizes]


def step(torch, shape, layers, head, x, cache):
    """A decoding step without norms and rotary embedding."""
    functional, split = torch.nn.functional, shape.heads * shape.dim
    rows = x.shape[0]
    for (qkv, out, gate_up, down), (keys, values) in zip(layers, cache):
        q = functional.linear(x, qkv)[:, :split].view(rows, shape.heads, 1, shape.dim)
        a = functional.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        x = x + functional.linear(a.reshape(rows, split), out)
        gate, up = functional.linear(x, gate_up).chunk(2, dim=-1)
        x = x + functional.linear(functional.silu(gate) * up, down)
    return functional.linear(x, head)


def captured(torch, run):
    """run as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def with_torch(options, shape, end):
    if importlib.util.find_spec("torch") is None:
        print("PyTorch: not installed.\n")
        return
    import torch
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__}: it finds no device.\n")
        return
    torch.cuda.set_device(options.device)
    print(f"PyTorch {torch.__version__}, bf16, products and attention of a decoding step:\n")
    print("| rows | graph ms | tokens/s | eager ms | tokens/s |\n|---|---|---|---|---|")
    kind = {"dtype": torch.bfloat16, "device": "cuda"}
    with torch.inference_mode():
        layers = [matrices(torch, shape, **kind) for _ in range(shape.layers)]
        head = torch.randn((shape.vocab, shape.hidden), **kind) * 0.02
        for rows in map(int, options.rows.split(",")):
            if time.monotonic() > end:
                print(f"\nOut of time: {rows} rows and what follows.\n")
                break
            x = torch.randn((rows, shape.hidden), **kind)
            size = (rows, shape.kv, options.context, shape.dim)
            cache = [(torch.zeros(size, **kind), torch.zeros(size, **kind)) for _ in range(shape.layers)]

            def run():
                return step(torch, shape, layers, head, x, cache)
            run()
            eager = median(run, torch.cuda.synchronize, options.seconds)
            graph = median(captured(torch, run), torch.cuda.synchronize, options.seconds)
            print(f"| {rows} | {graph * 1e3:.2f} | {rows / graph:.0f} | {eager * 1e3:.2f} | {rows / eager:.0f} |", flush=True)
            del cache
    print()
    del layers, head
    torch.cuda.empty_cache()


def with_vllm(options, shape, end):
    if importlib.util.find_spec("vllm") is None:
        print("vLLM: not installed.")
        return
    if end - time.monotonic() < 30:
        print("vLLM: installed, but no time is left.")
        return
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", VLLM_LOGGING_LEVEL="ERROR")
    import vllm
    prompts, rows = [list(map(int, s.split(","))) for s in (options.prompts, options.rows)]
    longest = max(prompts + [options.context + 64]) + 8
    llm = vllm.LLM(model=options.config, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16",
                   max_model_len=longest, max_num_seqs=max(rows), gpu_memory_utilization=0.85,
                   enable_prefix_caching=False)

    def generate(count, length, new):
        asked = [{"prompt_token_ids": [(i * 7919 + k * 31) % (shape.vocab - 1) + 1 for k in range(length)]}
                 for i in range(count)]
        sampling = vllm.SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        llm.generate(asked, sampling, use_tqdm=False)
        return time.perf_counter() - start
    print(f"vLLM {vllm.__version__}, bf16, dummy weights:\n\n| step | rows | ms | tokens/s |\n|---|---|---|---|")
    for count in rows:
        if time.monotonic() > end:
            print(f"\nOut of time: {count} rows and what follows.")
            return
        # Two lengths of answers: the difference is decoding alone.
        generate(count, options.context, 1)
        per = max(generate(count, options.context, 65) - generate(count, options.context, 1), 1e-9) / 64
        print(f"| decode | {count} | {per * 1e3:.2f} | {count / per:.0f} |", flush=True)
    for length in prompts:
        took = min(generate(1, length, 1) for _ in range(2))
        print(f"| first token of {length} | 1 | {took * 1e3:.1f} | {length / took:.0f} |", flush=True)


def main():
    options = arguments()
    shape, end = Shape(options.config), time.monotonic() + options.time
    for engine in (with_torch, with_vllm):
        try:
            engine(options, shape, end)
        except Exception as e:  # of an engine that is another than this script knows: the other one is asked
            print(f"\n{engine.__name__[5:]} failed: {type(e).__name__}: {str(e)[:300]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
