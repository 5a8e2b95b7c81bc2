"""Write tiny checkpoints whose linear layers are quantised, to packed/NAME, with what transformers computes for the
weights that the formats' own libraries make of them.

    python3 -m pip install -r requirements.txt
    python3 make_packed_goldens.py AUTOAWQ [NAME ...]

AUTOAWQ is the folder of the source package autoawq 0.2.9, whose awq/utils/packing_utils.py unpacks, and turns its format
into GPTQ's.
"""
import importlib.util
import json
import pathlib
import shutil
import sys
import zlib

import bitsandbytes.functional as bnb
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, DeepseekV3Config, LlamaConfig, LlamaForCausalLM

import make_goldens
from make_goldens import MIN_DISTINCT, MIN_MARGIN, PROMPT_LENGTHS

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("packing", pathlib.Path(sys.argv[1]) / "awq/utils/packing_utils.py")
awq = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awq)
GROUP = 64


def asymmetric(w, bits=4, symmetric=False):
    """Codes [in, out], zero points and scales [groups, out] of a weight [out, in]."""
    n, k = w.shape
    groups = w.t().reshape(k // GROUP, GROUP, n)
    low, high = groups.amin(1), groups.amax(1)
    top = 2**bits - 1
    if symmetric:
        high = torch.maximum(high.abs(), low.abs())
        scales, zeros = (high / 2 ** (bits - 1)).half().float(), torch.full_like(high, 2 ** (bits - 1))
    else:
        scales = ((high - low) / top).half().float()
        zeros = (-low / scales).round().clamp(0, top)
    codes = ((groups / scales[:, None]).round() + zeros[:, None]).clamp(0, top)
    return codes.reshape(k, n).int(), zeros.int(), scales


def words(codes):
    """AWQ's words of eight outputs."""
    eight = codes.contiguous().reshape(codes.shape[0], -1, 8)[:, :, awq.AWQ_ORDER]
    return sum((eight[:, :, i].long() << 4 * i) for i in range(8)).to(torch.uint32).view(torch.int32).contiguous()


def as_awq(w):
    codes, zeros, scales = asymmetric(w)
    q, z = words(codes), words(zeros)
    return {"qweight": q, "qzeros": z, "scales": scales.half()}, awq.dequantize_gemm(q, z, scales, 4, GROUP).t()


def as_gptq(w, order=False, symmetric=False):
    columns = torch.randperm(w.shape[1], generator=torch.Generator().manual_seed(5)) if order else torch.arange(w.shape[1])
    codes, zeros, scales = asymmetric(w[:, columns], symmetric=symmetric)
    back = torch.argsort(columns)
    dense = awq.dequantize_gemm(words(codes), words(zeros), scales, 4, GROUP)[back].t()
    q, z = awq.unpack_reorder_pack(words(codes[back]), words(zeros), 4)
    return {"qweight": q, "qzeros": z, "scales": scales.half(), "g_idx": (back // GROUP).int()}, dense


def as_compressed(w, bits=4, symmetric=True):
    codes, zeros, scales = asymmetric(w, bits, symmetric)
    middle = 2 ** (bits - 1)
    signed = (codes.t() - middle).to(torch.int8).contiguous()
    out = {"weight_packed": pack_to_int32(signed, bits), "weight_scale": scales.t().bfloat16().contiguous(),
           "weight_shape": torch.tensor(w.shape)}
    used = out["weight_scale"].float().repeat_interleave(GROUP, 1)
    codes = unpack_from_int32(out["weight_packed"], bits, w.shape).float()
    if not symmetric:
        z = (zeros.t() - middle).to(torch.int8).contiguous()
        out["weight_zero_point"] = pack_to_int32(z, bits, packed_dim=0)
        codes = codes - z.float().repeat_interleave(GROUP, 1)
    return out, codes * used


def as_int8(w):
    scale = (w.abs().amax(1, keepdim=True) / 127).bfloat16()
    codes = (w / scale.float()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale.float()


def as_float8(w):
    scale = (w.abs().amax(1, keepdim=True) / 448).float()
    codes = (w / scale).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": scale, "input_scale": torch.tensor([1.0])}, codes.float() * scale


def as_fp8(w):
    n, k = w.shape
    down, across = -(-n // 128), -(-k // 128)
    scales = torch.stack([torch.stack([w[128 * i:128 * i + 128, 128 * j:128 * j + 128].abs().max() / 448
                                       for j in range(across)]) for i in range(down)])
    wide = scales.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    codes = (w / wide).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale_inv": scales}, codes.float() * wide


def as_nf4(w, kind="nf4", nested=True):
    codes, state = bnb.quantize_4bit(w.contiguous(), blocksize=64, quant_type=kind, compress_statistics=nested)
    out = {"weight": codes}
    for name, t in state.as_dict(packed=True).items():
        out["weight." + name] = t
    return out, bnb.dequantize_4bit(codes, state).float()


CASES = {
    "awq": (as_awq, dict(quant_method="awq", bits=4, group_size=GROUP, zero_point=True, version="gemm")),
    "gptq": (as_gptq, dict(quant_method="gptq", bits=4, group_size=GROUP, desc_act=False, sym=False)),
    "gptq-symmetric": (lambda w: as_gptq(w, symmetric=True),
                       dict(quant_method="gptq", bits=4, group_size=GROUP, desc_act=False, sym=True)),
    "gptq-order": (lambda w: as_gptq(w, order=True),
                   dict(quant_method="gptq", bits=4, group_size=GROUP, desc_act=True, sym=False)),
    "compressed-4": (as_compressed, dict(quant_method="compressed-tensors", format="pack-quantized")),
    "compressed-4-zeros": (lambda w: as_compressed(w, symmetric=False),
                           dict(quant_method="compressed-tensors", format="pack-quantized")),
    "compressed-8": (lambda w: as_compressed(w, 8), dict(quant_method="compressed-tensors", format="pack-quantized")),
    "compressed-int": (as_int8, dict(quant_method="compressed-tensors", format="int-quantized")),
    "compressed-float": (as_float8, dict(quant_method="compressed-tensors", format="float-quantized")),
    "fp8": (as_fp8, dict(quant_method="fp8", weight_block_size=[128, 128], activation_scheme="dynamic")),
    "nf4": (as_nf4, dict(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="nf4",
                         bnb_4bit_use_double_quant=True)),
    "fp4": (lambda w: as_nf4(w, "fp4", False), dict(quant_method="bitsandbytes", load_in_4bit=True,
                                                    bnb_4bit_quant_type="fp4")),
}
CONFIG = LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=2,
                     num_key_value_heads=1, max_position_embeddings=160, bos_token_id=1, eos_token_id=2,
                     tie_word_embeddings=False)

# As DeepSeek-V3 is published; tiles end within heads, and within the dense layer's MLP.
LATENT = DeepseekV3Config(vocab_size=96, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
                          num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=160, bos_token_id=1,
                          eos_token_id=2, q_lora_rank=20, kv_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=24,
                          v_head_dim=20, moe_intermediate_size=20, n_routed_experts=6, num_experts_per_tok=2,
                          n_shared_experts=1, n_group=2, topk_group=1, first_k_dense_replace=1,
                          tie_word_embeddings=False)


@torch.no_grad()
def make_latent(name):
    """A checkpoint of DeepSeek-V3 in FP8, whose experts the files have one by one, unlike the class."""
    out = HERE / "packed" / name
    for seed in range(200):
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
        model = AutoModelForCausalLM.from_config(LATENT, dtype=torch.float32)
        make_goldens.randomise(model, generator)
        shutil.rmtree(out, ignore_errors=True)
        model.save_pretrained(out)
        files, dense = {}, {}
        for tensor, w in load_file(out / "model.safetensors").items():
            if "_proj" in tensor and tensor.endswith(".weight"):
                parts, dense[tensor] = as_fp8(w)
                files |= {tensor.removesuffix("weight") + end: t.contiguous() for end, t in parts.items()}
                continue
            files[tensor] = w if tensor.endswith("correction_bias") else w.bfloat16()
            dense[tensor] = files[tensor].float()
        save_file({n: t.contiguous() for n, t in dense.items()}, out / "model.safetensors", metadata={"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
        prompts = [torch.randint(3, 96, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
        results = [make_goldens.greedy(model, p) for p in prompts]
        if min(r[2] for r in results) >= MIN_MARGIN / 5 and min(len(set(r[1])) for r in results) >= MIN_DISTINCT:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy choices")
    save_file(files, out / "model.safetensors", metadata={"format": "pt"})
    finish(name, seed, CASES["fp8"][1], prompts, results)


@torch.no_grad()
def make(name):
    pack, quantization = CASES[name]
    out = HERE / "packed" / name
    for seed in range(200):
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
        model = LlamaForCausalLM(CONFIG)
        make_goldens.randomise(model, generator)
        for p in model.parameters():
            p.data = p.data.bfloat16().float()  # as the file has what is not quantised
        packed = {}
        for layer, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and layer != "lm_head":
                tensors, dense = pack(module.weight.data)
                module.weight.data = dense.clone().contiguous()
                packed |= {f"{layer}.{end}": t.contiguous() for end, t in tensors.items()}
        model.set_attn_implementation("eager")
        model.eval()
        prompts = [torch.randint(3, 96, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
        results = [make_goldens.greedy(model, p) for p in prompts]
        if min(r[2] for r in results) >= MIN_MARGIN / 5 and min(len(set(r[1])) for r in results) >= MIN_DISTINCT:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy choices")
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    rest = {n: t.bfloat16() for n, t in load_file(out / "model.safetensors").items()
            if not (n.endswith("proj.weight"))}
    save_file(rest | packed, out / "model.safetensors", metadata={"format": "pt"})
    finish(name, seed, quantization, prompts, results)


def finish(name, seed, quantization, prompts, results):
    """Write what else a checkpoint needs, and what transformers computed."""
    out = HERE / "packed" / name
    config = json.loads((out / "config.json").read_text())
    config["quantization_config"] = quantization
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file({f"logits.{i}": r[0].contiguous() for i, r in enumerate(results)}, out / "golden.safetensors")
    golden = {"seed": seed, "prompts": prompts, "greedy": [r[1] for r in results]}
    (out / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{name}: seed {seed}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in sys.argv[2:] or [*CASES, "fp8-latent"]:
        make_latent(case) if case == "fp8-latent" else make(case)
