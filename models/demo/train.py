#!/usr/bin/env python3
"""Trains the demo model from scratch and writes its Hugging Face folder.

    python3 train.py --out checkpoint --work work --minutes 40

Training ends after the tokens in settings.json or after --minutes, whichever
comes first; the learning rate falls to zero towards that end. State is kept in
--work every two minutes, and --resume goes on from there.
"""

import argparse
import bisect
import json
import os
import random
import time

import torch
from safetensors.torch import save_file

import bpe
import generate
from model import Llama

HERE = os.path.dirname(os.path.abspath(__file__))


def make_tokenizer(s, folder):
    """Trains the tokenizer on generated documents, or loads it when it is there."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        rng = random.Random(s["seed"])
        texts = ["".join(t for t, _ in generate.document(rng)) for _ in range(s["tokenizer_documents"])]
        bpe.save(bpe.train(texts, s["model"]["vocab_size"]), folder, s["model"]["max_position_embeddings"])
    return bpe.Tokenizer.from_file(path)


def check_template(folder, count=100):
    """Compares the chat template, run by transformers, with generate.render."""
    from transformers import AutoTokenizer
    tokenizer, rng = AutoTokenizer.from_pretrained(folder), random.Random(3)
    for i in range(count):
        messages, tools = generate.with_tools(rng)[:2] if i % 2 else (generate.chat(rng)[0], None)
        want = "".join(t for t, _ in generate.render(messages, tools, prompt=i % 3 == 0))
        if tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=i % 3 == 0, tokenize=False) != want:
            raise SystemExit(f"BUG: the chat template and generate.render differ for {messages}")


def encode(tokenizer, documents):
    """Pieces of each document to (ids, trained flags)."""
    flat = [(text, trained) for d in documents for text, trained in d]
    coded = iter(tokenizer.encode_batch([t for t, _ in flat], add_special_tokens=False))
    out = []
    for d in documents:
        ids, flags = [], []
        for _, trained in d:
            piece = next(coded).ids
            ids += piece
            flags += [trained] * len(piece)
        out.append((ids, flags))
    return out


def pack(docs, lengths):
    """Packs documents, the longest first, each into the row with the least room
    left that holds it, or else into a new row of the shortest length that does.
    Returns the rows of each length; a row of n has n+1 tokens or fewer."""
    rows, room = {n: [] for n in lengths}, []
    for number, doc in enumerate(sorted(docs, key=lambda d: -len(d[0]))):
        size = len(doc[0])
        at = bisect.bisect_left(room, (size,))
        if at < len(room):
            left, _, row = room.pop(at)
        else:
            length = next(n for n in lengths if size <= n + 1)
            left, row = length + 1, []
            rows[length].append(row)
        row.append(doc)
        bisect.insort(room, (left - size, number, row))
    return rows


def tensors(rows, row, prompt_weight):
    """Packed rows to (ids, positions, segments, targets, weights), each [B, row]."""
    shape = (len(rows), row)
    ids, positions, targets = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    segments, weights = torch.full(shape, -1), torch.zeros(shape)
    for i, r in enumerate(rows):
        at = 0
        for k, (tokens, flags) in enumerate(r):
            n = min(len(tokens) - 1, row - at)
            ids[i, at:at + n] = torch.tensor(tokens[:n])
            targets[i, at:at + n] = torch.tensor(tokens[1:n + 1])
            weights[i, at:at + n] = torch.tensor([1.0 if f else prompt_weight for f in flags[1:n + 1]])
            positions[i, at:at + n] = torch.arange(n)
            segments[i, at:at + n] = k
            at += n
    return ids, positions, segments, targets, weights


def cut(packed, tokens, rng):
    """Packed rows of each length to batches of that many tokens: (rows, length)."""
    out = []
    for length, rows in packed.items():
        rng.shuffle(rows)
        n = tokens // length
        out += [(rows[i:i + n], length) for i in range(0, len(rows) - n + 1, n)]
    return out


def batches(s, tokenizer, seed):
    """Endless batches of one size of tokens. Short documents are in short rows,
    which attention reads faster; a share of the batches are long conversations."""
    rng = random.Random(seed)
    lengths, long = s["rows"], s["long_row"]
    while True:
        docs = [d for d in encode(tokenizer, [generate.document(rng) for _ in range(6000)]) if len(d[0]) <= lengths[-1] + 1]
        out = cut(pack(docs, lengths), s["batch_tokens"], rng)
        count = max(1, round(len(out) * s["long_share"])) * s["batch_tokens"] // lengths[-1]
        docs = [d for d in encode(tokenizer, [generate.long_document(rng) for _ in range(count)]) if len(d[0]) <= long + 1]
        out += cut(pack(docs, [long]), s["batch_tokens"], rng)
        rng.shuffle(out)
        for chosen, length in out:
            yield tensors(chosen, length, s["prompt_weight"])


def heldout_loss(model, tokenizer, row=1024):
    """Mean loss in nats per answer token over the held-out conversations."""
    docs = [[(c["prompt"], False), (c["expected"] + generate.IM_END, True)] for c in generate.heldout()]
    total = count = 0.0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for r in pack(encode(tokenizer, docs), [row])[row]:
            batch = tensors([r], row, 0.0)
            total += model(*batch).item()
            count += batch[-1].sum().item()
    return total / count


def learning_rate(progress, tokens, s):
    """Factor of the rate: warm-up, constant, then linear to zero."""
    warm = min(1.0, tokens / s["warmup_tokens"])
    return warm * min(1.0, max(0.0, (1 - progress) / s["decay_share"]))


def optimizers(model, s):
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    rest = [p for n, p in model.named_parameters() if p.dim() != 2 or "embed" in n]
    return [torch.optim.Muon(matrices, lr=s["muon_lr"], weight_decay=s["weight_decay"], momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=s["adam_lr"], betas=(0.9, 0.95), weight_decay=0.0)]


def export(model, s, folder):
    """Writes weights (bf16), config.json and generation_config.json."""
    c = s["model"]
    save_file({k: v.detach().to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **c, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "rope_scaling": None, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.02, "use_cache": True, "torch_dtype": "bfloat16"}
    for name, value in (("config.json", config), ("generation_config.json", {"eos_token_id": [2, 0], "pad_token_id": 0, "max_new_tokens": 256})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f, indent=2)
            f.write("\n")


def train(s, tokenizer, args):
    torch.manual_seed(s["seed"])
    model = Llama(s["model"])
    opts = optimizers(model, s)
    seen = step = 0
    state_path = os.path.join(args.work, "state.pt")
    if args.resume:
        state = torch.load(state_path)
        model.load_state_dict(state["model"])
        for o, x in zip(opts, state["optimizers"]):
            o.load_state_dict(x)
        seen, step = state["seen"], state["step"]
    print(f"parameters {sum(p.numel() for p in model.parameters())}", flush=True)
    forward = torch.compile(model, dynamic=False) if args.compile else model
    data = batches(s, tokenizer, args.data_seed + seen)
    start = saved = time.time()
    mean, progress, first = None, 0.0, seen
    while progress < 1:
        batch = next(data)
        factor = learning_rate(progress, seen, s)
        for o, lr in zip(opts, (s["muon_lr"], s["adam_lr"])):
            for g in o.param_groups:
                g["lr"] = lr * factor
        with torch.autocast("cpu", torch.bfloat16):
            loss = forward(*batch) / batch[-1].sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip"])
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        seen += batch[0].numel()
        step += 1
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        now = time.time()
        progress = max(seen / s["tokens"], (now - start) / 60 / args.minutes)
        if step % 25 == 0:
            print(f"step {step} tokens {seen / 1e6:.2f}M loss {mean:.4f} rate {factor:.3f} {(seen - first) / (now - start):.0f} tok/s {progress:.1%}", flush=True)
        if now - saved > 120 or progress >= 1:
            torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in opts], "seen": seen, "step": step}, state_path + ".new")
            os.replace(state_path + ".new", state_path)
            saved = now
    print(f"trained {seen} tokens in {(time.time() - start) / 60:.1f} minutes", flush=True)
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default=os.path.join(HERE, "checkpoint"))
    p.add_argument("--work", default="work", help="folder of the training state")
    p.add_argument("--minutes", type=float, default=1e9, help="wall time after which training has ended")
    p.add_argument("--tokens", type=int, help="instead of the tokens in settings.json")
    p.add_argument("--lr", type=float, default=1.0, help="factor of the learning rates")
    p.add_argument("--decay", type=float, help="share of the run in which the rate falls, instead of settings.json's")
    p.add_argument("--data-seed", type=int, default=1000)
    p.add_argument("--resume", action="store_true")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    with open(os.path.join(HERE, "settings.json"), encoding="utf-8") as f:
        s = json.load(f)
    s["tokens"], s["decay_share"] = args.tokens or s["tokens"], args.decay or s["decay_share"]
    s["muon_lr"], s["adam_lr"] = s["muon_lr"] * args.lr, s["adam_lr"] * args.lr
    os.makedirs(args.out, exist_ok=True)
    os.makedirs(args.work, exist_ok=True)
    tokenizer = make_tokenizer(s, args.out)
    check_template(args.out)
    model = train(s, tokenizer, args)
    export(model, s, args.out)
    print(f"held-out loss {heldout_loss(model, tokenizer):.4f} nats per answer token")


if __name__ == "__main__":
    main()
