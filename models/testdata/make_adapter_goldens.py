"""Write random low-rank adapters for the tiny checkpoints of make_goldens.py and make_vision_goldens.py, with the logits
that Python's peft computes with them in float32.

    python3 -m pip install -r requirements.txt
    python3 make_adapter_goldens.py [NAME ...]

Each case becomes a folder adapters/NAME as PEFT saves it, plus golden.json (the checkpoint and a prompt) and
golden.safetensors (logits [len, vocab]). Seeds are fixed. Adapters are drawn so large that each of their settings moves
the logits far: the script fails when one does not.
"""
import json
import pathlib
import shutil
import sys
import zlib

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.pytorch_utils import Conv1D

HERE = pathlib.Path(__file__).resolve().parent
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
ALL = ATTENTION + ["gate_proj", "up_proj", "down_proj"]

# name -> (checkpoint, dtype of the adapter's file, LoraConfig)
CASES = {
    "llama2-all": ("llama2", torch.float32, LoraConfig(r=4, lora_alpha=8, target_modules=ALL + ["lm_head"])),
    "llama2-attention": ("llama2", torch.bfloat16, LoraConfig(r=8, lora_alpha=16, target_modules=ATTENTION)),
    "llama2-patterns": ("llama2", torch.float32, LoraConfig(
        r=4, lora_alpha=4, target_modules=ALL, rank_pattern={"q_proj": 6, r"layers\.1\.mlp\.down_proj": 10},
        alpha_pattern={"v_proj": 12, "1.mlp.up_proj": 1, "up_proj": 9})),
    "llama3-tied": ("llama3", torch.float16, LoraConfig(r=16, lora_alpha=16, target_modules=ALL)),
    "llama-linear-bias": ("llama-linear-bias", torch.bfloat16, LoraConfig(r=64, lora_alpha=32, target_modules=ALL)),
    "smollm2": ("smollm2", torch.float32, LoraConfig(r=5, lora_alpha=10, use_rslora=True, target_modules=ALL)),
    "mistral": ("mistral", torch.float32, LoraConfig(r=7, lora_alpha=14, target_modules=["q_proj", "v_proj"])),
    "qwen2": ("qwen2", torch.bfloat16, LoraConfig(r=8, lora_alpha=8, target_modules="all-linear")),
    "qwen3": ("qwen3", torch.float32, LoraConfig(r=32, lora_alpha=16, target_modules=ALL)),
    "llama2-layer": ("llama2", torch.float32, LoraConfig(r=4, lora_alpha=8, target_modules=["down_proj"],
                                                         layers_to_transform=[1])),
}

# Checkpoints of the other classes, and of models that read images. Adapters of these are for all linear layers of a
# block, or of the language model's, and for the head where it is not the embedding.
OTHERS = """arcee bloom cohere cohere2 ernie4-5 exaone4 falcon falcon-new gemma gemma2 gemma3 glm glm4 gpt-neox gpt-oss
    gpt2 gptj granite granite-moe helium hunyuan ministral ministral3 mixtral nemotron olmo olmo2 olmo3 olmoe opt phi phi3
    qwen2-moe qwen3-moe seed-oss smollm3 stablelm stablelm-2 starcoder2""".split()
PICTURES = "gemma3 llava qwen2-5-vl smolvlm".split()
MORE = """apertus biogpt codegen cwm dots1 ernie4-5-moe exaone-moe flex-olmo glm4-moe gpt-bigcode gpt-neo
    granite-moe-shared hunyuan-moe hyperclovax jais2 minimax-m2 mpt nanochat persimmon solar-open vaultgemma""".split()
# In these peft takes adapters of an MLP for adapters of the experts.
TURNED = "dots1 ernie4_5_moe exaone_moe glm4_moe hunyuan_v1_moe solar_open".split()
RANKS = [4, 8, 6, 5]  # and those above; the files stay small


def others():
    for i, name in enumerate(OTHERS + [f"../vision/{name}" for name in PICTURES] + MORE):
        rank = RANKS[i % len(RANKS)]
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", use_rslora=i % 5 == 3)
        yield name.replace("../vision/", "pictures-"), (name, torch.bfloat16, config)


CASES |= {name: case for name, case in others() if name not in CASES}


def linear_layers(model):
    """All linear layers of the language model's blocks that are modules of their own, and an untied head."""
    names = []
    for name, m in model.named_modules():
        if not isinstance(m, (torch.nn.Linear, Conv1D)) or any(
                part in name for part in ("vision", "visual", "projector", "connector")):
            continue
        if name.endswith(".gate.wg"):  # a router
            continue
        if "_proj" in name and ".mlp." in name and model.config.model_type in TURNED:
            continue
        if m.weight is not model.get_input_embeddings().weight:
            names.append(name)
    return names


def narrow(tensor, dtype):
    """The tensor in another type, unless that loses something: copies of the base model's head stay what they are."""
    small = tensor.to(dtype)
    return (small if torch.equal(small.float(), tensor.float()) else tensor).contiguous()


def open_model(source):
    kind = AutoModelForImageTextToText if "vision" in source.parts else AutoModelForCausalLM
    return kind.from_pretrained(source, dtype=torch.float32).eval()


def logits(model, prompt):
    with torch.no_grad():
        return model(torch.tensor([prompt])).logits[0].float()


def main(names):
    for name in names or CASES:
        checkpoint, dtype, config = CASES[name]
        source, folder = HERE / "golden" / checkpoint, HERE / "adapters" / name
        shutil.rmtree(folder, ignore_errors=True)
        base = open_model(source)
        if checkpoint in OTHERS + MORE or ".." in checkpoint:
            config.target_modules = linear_layers(base)
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        first = 40 if ".." in checkpoint else 3  # no image tokens
        prompt = torch.randint(first, base.config.get_text_config().vocab_size, (23,), generator=generator).tolist()
        plain = logits(base, prompt)
        model = get_peft_model(base, config)
        for key, p in model.named_parameters():
            if "lora_" in key:
                noise = torch.randn(p.shape, generator=generator)
                value = noise * (1.0 if "lora_A" in key else 0.5) / p.shape[1] ** 0.5
                p.data.copy_(value.to(dtype).float())
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        file = folder / "adapter_model.safetensors"
        save_file({k: narrow(v, dtype) for k, v in load_file(file).items()}, file)
        # What counts is what PEFT makes of the folder.
        fresh = open_model(source)
        model = PeftModel.from_pretrained(fresh, folder, autocast_adapter_dtype=True).float()
        want = logits(model, prompt)
        moved = (want - plain).abs().max().item()
        if moved < 1:
            sys.exit(f"{name}: the adapter moves the logits by only {moved}")
        settings = json.loads((folder / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = checkpoint
        (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1, sort_keys=False) + "\n")
        (folder / "golden.json").write_text(json.dumps({"checkpoint": checkpoint, "prompt": prompt}) + "\n")
        save_file({"logits": want.contiguous()}, folder / "golden.safetensors")
        print(f"{name}: moved by {moved:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
