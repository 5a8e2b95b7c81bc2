"""Write beams.json: what the beam search of Python's transformers finds on the tiny random checkpoints of
models/testdata/golden.

    python3 -m pip install -r requirements.txt
    python3 make_beams.py

A case holds its settings, the best sequences with their scores, and the score of each token of the best one. It is
left out when the search comes out differently in float64: such a choice is too close to call between two programs.
End tokens are chosen among what the model says anyway, so that searches end early, late and at the length limit.

Of searches that draw, which nobody can repeat draw by draw, "drawn" holds how often each sequence was the best one.
"""
import collections
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
DRAWS = 20000


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


@torch.no_grad()
def draw(model, name, prompt, ends, **changes):
    """Count what many searches find. With several ends more of the drawn tokens are looked at in a step."""
    case = dict(prompt=prompt, max_new=3, eos=ends, beams=2, length_penalty=1.0, early_stopping=False, temperature=2.0,
                top_k=8, top_p=1.0, repetition_penalty=1.0) | changes
    torch.manual_seed(1)
    counts = collections.Counter()
    ids = torch.tensor([prompt] * 1000)
    for _ in range(DRAWS // 1000):
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, num_beams=case["beams"],
            length_penalty=case["length_penalty"], early_stopping=case["early_stopping"], temperature=case["temperature"],
            top_k=case["top_k"], top_p=case["top_p"], repetition_penalty=case["repetition_penalty"],
            max_new_tokens=case["max_new"], eos_token_id=ends, pad_token_id=1, return_dict_in_generate=True)
        for sequence, path in zip(out.sequences[:, len(prompt):].tolist(), out.beam_indices):
            counts[tuple(sequence[:int((path >= 0).sum())])] += 1
    return case | dict(checkpoint=name, runs=DRAWS, counts=[[list(k), n] for k, n in counts.most_common()])


@torch.no_grad()
def main():
    cases, drawn, unclear = [], [], 0
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
        prompt, model = golden["prompts"][1], models[0]
        likely = model(torch.tensor([prompt])).logits[0, -1].topk(8).indices.tolist()
        drawn += [draw(model, name, prompt, likely[1:2]),
                  draw(model, name, prompt, likely[2:4], beams=3, length_penalty=2.0),
                  draw(model, name, prompt, likely[3:4], early_stopping=True, length_penalty=0.5, top_p=0.8),
                  draw(model, name, prompt, likely[1:3], repetition_penalty=1.5, temperature=1.5)]
    early = sum(c["eos"] is not None and c["sequences"][0][-1] in c["eos"] for c in cases)
    short = sum(len(c["sequences"][0]) < c["max_new"] for c in cases)
    print(f"{len(cases)} cases, {unclear} left out, {early} end with an end token, {short} before the length limit, "
          f"{len({json.dumps(c['sequences']) for c in cases})} different outcomes")
    print("drawn:", [(len(d["counts"]), d["counts"][0]) for d in drawn])
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    counts = ",\n".join(json.dumps(d, separators=(",", ":")) for d in drawn)
    head = json.dumps(dict(transformers=transformers.__version__, torch=torch.__version__))
    (HERE / "beams.json").write_text(f'{{"made_with":{head},"cases":[\n{lines}\n],"drawn":[\n{counts}\n]}}\n')


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
