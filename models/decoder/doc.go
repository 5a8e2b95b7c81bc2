// Package decoder builds the ONNX graph of a decoder-only transformer of the Llama family from
// an open checkpoint, and streams its weights, in the requested format, to the graph's external
// data file. Its caller is models/store. It starts no goroutines but those of package quant.
//
// The graph computes one step on the concatenated tokens of all rows:
//
//	inputs   input_ids     int64 [T]
//	         cu_seqlens    int32 [B+1]   where each row's tokens begin
//	         past_lens     int32 [B]     tokens of the row already in the cache
//	         block_table   int32 [B, M]  cache blocks of each row, -1 unmapped
//	         slot_mapping  int32 [T]     where keys and values go, -1 nowhere
//	         logit_rows    int64 [n]     indices into T
//	         k_cache.<i>, v_cache.<i>    float [blocks, kv_heads*head_dim*16]
//	outputs  logits        float [n, vocab]
//
// Attention is one node per layer, tgi:PagedAttention. It takes queries, keys and values packed
// in one tensor, normalises heads if the architecture does, applies the rotary embedding, and
// writes the cache in place. The rotary tables contain the checkpoint's RoPE variant. The gate
// and up projections are one matrix product, followed by tgi:SwiGLU.
//
// The reasons behind it: docs/rationale/models.md.
package decoder
