"""Write guidance.json: what Python's transformers generates with classifier-free guidance
(UnbatchedClassifierFreeGuidanceLogitsProcessor) on the tiny random checkpoints of models/testdata/golden.

    python3 -m pip install -r requirements.txt
    python3 make_guidance.py

A case holds its settings, the tokens, and the log-probability of each after all processors. Without a negative prompt
transformers takes the last token of the prompt. A case that comes out differently in float64 is left out.
"""
import itertools
import json
import pathlib

import torch
import transformers
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
CHECKPOINTS = HERE.parent.parent.parent / "models" / "testdata" / "golden"
NAMES = ("llama2", "qwen3-window")
NEW = 20


@torch.no_grad()
def generate(model, case):
    ids = torch.tensor([case["prompt"]])
    negative = torch.tensor([case["negative"]]) if case["negative"] else None
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, eos_token_id=None, pad_token_id=1,
        guidance_scale=case["scale"], negative_prompt_ids=negative, repetition_penalty=case["repetition_penalty"],
        return_dict_in_generate=True, output_scores=True)
    tokens = out.sequences[0, ids.shape[1]:].tolist()
    steps = [torch.log_softmax(s[0], -1)[t].item() for s, t in zip(out.scores, tokens)]
    return tokens, [round(v, 5) for v in steps]


def main():
    cases, unclear = [], 0
    for name in NAMES:
        models = [AutoModelForCausalLM.from_pretrained(CHECKPOINTS / name, dtype=d, attn_implementation="eager").eval()
                  for d in (torch.float32, torch.float64)]
        prompts = json.loads((CHECKPOINTS / name / "golden.json").read_text())["prompts"]
        for prompt, negative, scale, penalty in itertools.product(
                prompts, [None, *prompts], (0.0, 0.5, 1.5, 3.0, 7.5), (1.0, 1.3)):
            if negative == prompt or penalty != 1 and scale != 1.5:
                continue
            case = dict(prompt=prompt, negative=negative, scale=scale, repetition_penalty=penalty)
            tokens, steps = generate(models[0], case)
            if generate(models[1], case)[0] != tokens:
                unclear += 1
                continue
            cases.append(case | dict(checkpoint=name, tokens=tokens, steps=steps))
    print(f"transformers {transformers.__version__}: {len(cases)} cases, {unclear} left out as too close to call")
    text = ",\n".join(json.dumps(c) for c in cases)
    (HERE / "guidance.json").write_text(f'{{"cases": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
