"""Measures OpenVINO GenAI or vLLM without a server: others.py PROGRAM MODEL THREADS STREAMS,...

PROGRAM is openvino or vllm, MODEL what run makes for it. Prints a line of JSON for each number of streams, as
llamacpp.mjs does: prompt tokens/s for one, and tokens/s while all streams generate, the best of three.
"""

import json
import os
import random
import sys
import time

PROMPT, LONG, NEW, TRIES = 128, 512, 64, 3


class OpenVINO:
    """Continuous batching over a GGUF file, whose 4-bit blocks stay as they are."""

    def __init__(self, model, threads, streams):
        import openvino_genai as genai

        self.genai = genai
        cache = genai.SchedulerConfig()
        cache.cache_size, cache.max_num_seqs, cache.max_num_batched_tokens = 1, streams, LONG
        cache.enable_prefix_caching = False
        self.pipeline = genai.ContinuousBatchingPipeline(model, cache, "CPU", {"INFERENCE_NUM_THREADS": threads})
        self.handles, self.tokens, self.next = {}, {}, 0

    def clear(self):
        self.handles.clear()
        self.tokens.clear()

    def add(self, prompt, new):
        import numpy as np
        import openvino as ov

        config = self.genai.GenerationConfig(max_new_tokens=new, ignore_eos=True, do_sample=False)
        ids = ov.Tensor(np.array([prompt], dtype=np.int64))
        self.handles[self.next] = self.pipeline.add_request(self.next, ids, config)
        self.tokens[self.next] = 0
        self.next += 1

    def step(self):
        self.pipeline.step()
        for name, handle in self.handles.items():
            while handle.can_read():
                self.tokens[name] += sum(len(o.generated_ids) for o in handle.read().values())

    def busy(self):
        return self.pipeline.has_non_finished_requests()


class VLLM:
    """vLLM's engine in this process, over a GPTQ checkpoint of 4 bits."""

    def __init__(self, model, threads, streams):
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{threads - 1}")
        from vllm import LLM, SamplingParams

        self.params = SamplingParams
        self.engine = LLM(model=model, dtype="bfloat16", max_model_len=1024, max_num_seqs=streams,
                          max_num_batched_tokens=1024, skip_tokenizer_init=True, enable_prefix_caching=False).llm_engine
        self.tokens, self.next = {}, 0

    def clear(self):
        self.tokens.clear()

    def add(self, prompt, new):
        self.engine.add_request(str(self.next), {"prompt_token_ids": prompt}, self.params(
            max_tokens=new, ignore_eos=True, temperature=0, detokenize=False))
        self.tokens[str(self.next)] = 0
        self.next += 1

    def step(self):
        for output in self.engine.step():
            self.tokens[output.request_id] = len(output.outputs[0].token_ids)

    def busy(self):
        return self.engine.has_unfinished_requests()


def generate(program, streams, prompt, new):
    """Returns the seconds until all streams have a token, and the tokens per second from then on."""
    program.clear()
    begin = time.perf_counter()
    for _ in range(streams):
        program.add([random.randrange(2, 202) for _ in range(prompt)], new)
    first = had = None
    while program.busy():
        program.step()
        if first is None and all(program.tokens.values()):
            first, had = time.perf_counter(), sum(program.tokens.values())
    took = time.perf_counter() - first
    got = sum(program.tokens.values())
    if got != streams * new:
        sys.exit(f"{got} tokens instead of {streams * new}")
    return first - begin, (got - had) / took if got > had else 0


def main(name, model, threads, counts):
    counts = [int(n) for n in counts.split(",")]
    program = {"openvino": OpenVINO, "vllm": VLLM}[name](model, int(threads), max(counts))
    generate(program, max(counts), PROMPT, 4)  # warms up
    for count in counts:
        result = {"streams": count}
        if count == 1:
            result["prefill"] = LONG / min(generate(program, 1, LONG, 1)[0] for _ in range(TRIES))
        result["decode"] = max(generate(program, count, PROMPT, NEW)[1] for _ in range(TRIES))
        print(json.dumps(result), flush=True)


main(*sys.argv[1:5])
