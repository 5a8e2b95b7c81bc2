"""The demo model's network: a Llama decoder written for training on a CPU.

The parameters carry the names and shapes of transformers' LlamaForCausalLM, so
that `state_dict()` is the checkpoint. Projections that read the same input are
joined for one matrix product per layer and stay separate as parameters, since
Muon orthogonalises each of them on its own.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def rms_norm(x, weight, eps):
    """RMSNorm in fp32, result in the type of x."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
    return (y * weight).to(x.dtype)


def rope_tables(positions, head_dim, theta):
    """cos and sin [T, head_dim] of the half-split rotary embedding."""
    freq = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.arange(positions).float()[:, None] * freq[None]
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, hd = c["hidden_size"], c["head_dim"]
        self.heads, self.kv, self.hd = c["num_attention_heads"], c["num_key_value_heads"], hd
        self.q_proj = nn.Linear(width, self.heads * hd, bias=False)
        self.k_proj = nn.Linear(width, self.kv * hd, bias=False)
        self.v_proj = nn.Linear(width, self.kv * hd, bias=False)
        self.o_proj = nn.Linear(self.heads * hd, width, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        w = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        qkv = F.linear(x, w).view(b, t, self.heads + 2 * self.kv, self.hd).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.kv, self.kv], 1)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        n = self.heads // self.kv
        k, v = k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        w = torch.cat([self.gate_proj.weight, self.up_proj.weight])
        gate, up = F.linear(x, w).chunk(2, -1)
        return self.down_proj(F.silu(gate) * up)


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = MLP(c)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])


class Llama(nn.Module):
    """Llama with tied embeddings; `forward` returns the summed weighted loss."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.model = Decoder(c)
        cos, sin = rope_tables(c["max_position_embeddings"], c["head_dim"], c["rope_theta"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(p)

    def forward(self, ids, positions, segments, targets, weights):
        """All arguments are [B, T]. A token sees earlier tokens of its own
        segment only; `weights` 0 leaves a target out of the loss."""
        t = ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        mask = (segments[:, None, :, None] == segments[:, None, None, :]) & causal
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        x = self.model.embed_tokens(ids).bfloat16()
        for layer in self.model.layers:
            x = layer(x, cos, sin, mask)
        x = self.model.norm(x)
        logits = F.linear(x, self.model.embed_tokens.weight).float()
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return (loss * weights.flatten()).sum()
