"""Write random low-rank adapters for the tiny checkpoints of make_goldens.py, with the logits that Python's peft computes
with them in float32.

    python3 -m pip install -r requirements.txt
    python3 make_adapter_goldens.py

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
from transformers import AutoModelForCausalLM

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


def logits(model, prompt):
    with torch.no_grad():
        return model(torch.tensor([prompt])).logits[0].float()


def main(names):
    for name in names or CASES:
        checkpoint, dtype, config = CASES[name]
        source, folder = HERE / "golden" / checkpoint, HERE / "adapters" / name
        shutil.rmtree(folder, ignore_errors=True)
        base = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        prompt = torch.randint(3, base.config.vocab_size, (23,), generator=generator).tolist()
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
        save_file({k: v.to(dtype).contiguous() for k, v in load_file(file).items()}, file)
        # What counts is what PEFT makes of the folder.
        fresh = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
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
