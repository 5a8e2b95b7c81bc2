// Package decoder builds the ONNX graph of a decoder-only transformer of the
// Llama family from an open checkpoint, and streams its weights into the
// graph's external data file in the asked-for form.
//
// The graph computes one step over the flat tokens of all rows:
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
// Attention is one node per layer, tgi:PagedAttention, which takes queries,
// keys and values packed in one tensor, normalises heads where the
// architecture does, rotates, and writes the cache in place. Rows of the
// rotary tables already hold the checkpoint's rope variant. The gate and the up
// projection are one product, joined by tgi:SwiGLU.
//
// The reasons behind it: docs/rationale/models.md.
package decoder
