"""Write tiny checkpoints in the GGUF format, converted by llama.cpp, to gguf/NAME.

    python3 -m pip install -r requirements.txt
    python3 make_gguf_goldens.py LLAMA.CPP [NAME ...]

LLAMA.CPP is a folder with its sources, e.g. vendor/llama.cpp of the source package llama-cpp-python 0.3.36. The models of
CONVERTED are those of make_goldens.py, whose logits they have too. Those of OWN differ, because the format does not hold
all that the former have, such as windows of Mistral; beside them is what transformers computes.
"""
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LLAMA = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]

import conversion  # noqa: E402
import gguf  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from conversion.base import ModelBase  # noqa: E402

import make_goldens  # noqa: E402
from make_goldens import FULL, GPT, SLIDING, rope, small  # noqa: E402

# Keys that the converter needs and transformers does not write.
KEYS = {
    "cohere2": {"rotary_pct": 1.0},
    "gpt2": {"n_ctx": 160},
    "gpt-neox": {"rotary_pct": 0.25},
    "gpt-neox-sequential": {"rotary_pct": 1.0},
    "glm": {"seq_length": 160, "layernorm_epsilon": 1.5625e-07},
    "falcon": {"num_kv_heads": 1},
    # The published files have it.
    "deepseek-v3": {"scoring_func": "sigmoid"},
    "glm4-moe-lite": {"scoring_func": "sigmoid", "first_k_dense_replace": 1},
    "dots1": {"scoring_func": "sigmoid"},
}

CONVERTED = """arcee bloom cohere deepseek-v2 deepseek-v2-groups deepseek-v3 ernie4-5 exaone4 gemma glm glm4
glm4-moe glm4-moe-lite gpt-neox gpt-neox-sequential gpt2 gpt-oss-mxfp4 granite granite-moe llama-linear-bias llama3 llama3-v5 ministral3 mixtral nemotron olmo olmo2 olmo3 phi phi3 phi3-long
qwen2-yarn qwen3 qwen3-moe seed-oss stablelm""".split()

OWN = {
    "mistral": small("Mistral", head_dim=16, sliding_window=None),
    "gemma2": small("Gemma2", head_dim=16, num_hidden_layers=3, sliding_window=11, query_pre_attn_scalar=16,
                    attn_logit_softcapping=4.0, final_logit_softcapping=9.0, tie_word_embeddings=True),
    "gemma3": small("Gemma3Text", form="v5", head_dim=16, num_hidden_layers=7, sliding_window=11,
                    query_pre_attn_scalar=16, tie_word_embeddings=True,
                    rope_parameters={SLIDING: rope(), FULL: rope(1000000.0, "linear", factor=4.0)}),
    "olmoe": small("Olmoe", intermediate_size=24, num_experts=5, num_experts_per_tok=2),
    "smollm3": small("SmolLM3", num_hidden_layers=5, tie_word_embeddings=True),
    "starcoder2": small("Starcoder2", sliding_window=None, tie_word_embeddings=True),
    "falcon": small("Falcon", drop=["intermediate_size", "num_key_value_heads"], multi_query=True,
                    tie_word_embeddings=True),
    "falcon-new": small("Falcon", drop=["intermediate_size", "num_key_value_heads"], num_kv_heads=2,
                        new_decoder_architecture=True, tie_word_embeddings=False),
    "hunyuan": small("HunYuanDenseV1", head_dim=16, max_position_embeddings=32768,
                     rope_parameters=rope(kind="dynamic", alpha=1000.0, factor=1.0)),
    "cohere2": small("Cohere2", head_dim=8, num_hidden_layers=5, logit_scale=0.5, sliding_window=10,
                     tie_word_embeddings=True),
    "dots1": small("Dots1", num_hidden_layers=3, head_dim=8, moe_intermediate_size=20, n_routed_experts=6,
                   num_experts_per_tok=2, n_shared_experts=2, n_group=1, topk_group=1, first_k_dense_replace=1,
                   norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=None),
    "qwen2-moe": small("Qwen2Moe", moe_intermediate_size=20, shared_expert_intermediate_size=28, num_experts=5,
                       num_experts_per_tok=3, decoder_sparse_step=1),
}


def convert(name, folder, out):
    """Write the GGUF file of a folder, in the types that it has, without a vocabulary."""
    hparams = ModelBase.load_hparams(folder, False) | KEYS.get(name, {})
    ModelBase.load_hparams = staticmethod(lambda *_, **__: dict(hparams))
    conversion.load_all_models()
    kind = conversion.get_model_class(hparams["architectures"][0])
    kind.set_vocab = lambda self: self._set_vocab_none()
    if name == "gemma3":  # which looks into the tokenizer only to drop rows that no token has
        kind.modify_tensors = lambda self, data, name, bid: ModelBase.modify_tensors(
            self, data + 1 if name.endswith("norm.weight") else data, name, bid)
    wide = name in ("gpt2", "gpt-oss-mxfp4")  # whose weights are 32-bit floats
    with torch.inference_mode():
        kind(folder, gguf.LlamaFileType.ALL_F32 if wide else gguf.LlamaFileType.GUESSED, out / "model.gguf").write()


def main(name):
    out = HERE / "gguf" / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if name in CONVERTED:
        convert(name, HERE / "golden" / name, out)
        return
    with tempfile.TemporaryDirectory() as temp:
        make_goldens.HERE = pathlib.Path(temp)
        make_goldens.CASES[name] = OWN[name]
        make_goldens.make(name)
        folder = make_goldens.HERE / "golden" / name
        convert(name, folder, out)
        for file in ("golden.json", "golden.safetensors"):
            shutil.copyfile(folder / file, out / file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    load = ModelBase.load_hparams
    for case in sys.argv[2:] or [*CONVERTED, *OWN]:
        ModelBase.load_hparams = load
        main(case)
