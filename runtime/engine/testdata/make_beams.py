"""Write beams.json: what the beam search of Python's transformers finds on the tiny random checkpoints of
models/testdata/golden.

    python3 -m pip install -r requirements.txt
    python3 make_beams.py

A case holds its settings, the best sequences with their scores, and the score of each token of the best one. It is
left out when the search comes out differently in float64: such a choice is too close to call between two programs.
End tokens are chosen among what the model says anyway, so that searches end early, late and at the length limit.
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
def search(model, case):
    ids = torch.tensor([case["prompt"]])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), num_beams=case["beams"], do_sample=False,
        length_penalty=case["length_penalty"], early_stopping=case["early_stopping"],
        num_return_sequences=case["return"], max_new_tokens=case["max_new"], eos_token_id=case["eos"], pad_token_id=1,
        repetition_penalty=case["repetition_penalty"], return_dict_in_generate=True, output_scores=True)
    found = []
    for sequence, score, path in zip(out.sequences, out.sequences_scores, out.beam_indices):
        length = int((path >= 0).sum())  # what follows is padding
        found.append((sequence[ids.shape[1]:ids.shape[1] + length].tolist(), round(score.item(), 6)))
    steps = model.compute_transition_scores(out.sequences, out.scores, out.beam_indices, normalize_logits=False)
    return found, [round(v, 5) for v in steps[0][:len(found[0][0])].tolist()]


def settings(prompt, ends):
    plain = dict(prompt=prompt, max_new=NEW, eos=ends[:1], repetition_penalty=1.0)
    for beams, penalty, early in itertools.product((2, 4, 8), (0.5, 1.0, 2.0), (False, True, "never")):
        for eos in (ends[:1], ends):
            yield plain | dict(beams=beams, length_penalty=penalty, early_stopping=early, eos=eos, **{"return": min(beams, 3)})
    some = dict(beams=4, length_penalty=1.0, early_stopping=False, **{"return": 4})
    yield plain | some | dict(repetition_penalty=1.3)
    yield plain | some | dict(repetition_penalty=1.3, length_penalty=2.0, eos=ends)
    yield plain | some | dict(length_penalty=0.0, early_stopping="never")
    yield plain | some | dict(length_penalty=-1.0, early_stopping="never")
    yield plain | some | dict(max_new=1)
    yield plain | some | dict(beams=3, max_new=60, eos=None, **{"return": 3})


def main():
    cases, unclear = [], 0
    for name in NAMES:
        models = [AutoModelForCausalLM.from_pretrained(CHECKPOINTS / name, dtype=d, attn_implementation="eager").eval()
                  for d in (torch.float32, torch.float64)]
        golden = json.loads((CHECKPOINTS / name / "golden.json").read_text())
        for prompt, greedy in zip(golden["prompts"], golden["greedy"]):
            ends = sorted({greedy[6], greedy[11], greedy[17]}, key=greedy.index, reverse=True)
            for case in settings(prompt, ends):
                found, steps = search(models[0], case)
                again, _ = search(models[1], case)
                if [f[0] for f in found] != [a[0] for a in again]:
                    unclear += 1
                    continue
                cases.append(case | dict(checkpoint=name, sequences=[f[0] for f in found], scores=[f[1] for f in found],
                                         steps=steps))
    early = sum(c["eos"] is not None and c["sequences"][0][-1] in c["eos"] for c in cases)
    short = sum(len(c["sequences"][0]) < c["max_new"] for c in cases)
    print(f"{len(cases)} cases, {unclear} left out, {early} end with an end token, {short} before the length limit, "
          f"{len({json.dumps(c['sequences']) for c in cases})} different outcomes")
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    head = json.dumps(dict(transformers=transformers.__version__, torch=torch.__version__))
    (HERE / "beams.json").write_text(f'{{"made_with":{head},"cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
