// Package decoder builds the ONNX graph of a decoder-only transformer, as hf.Config describes it, from
// an open checkpoint, and streams its weights, in the requested format, to the graph's external
// data file. Its caller is models/store. It starts no goroutines but those of package quant.
//
// The graph computes one step on the concatenated tokens of all rows. D is the DType of the
// models.Layout, block its BlockSize:
//
//	inputs   input_ids     int64 [T]
//	         cu_seqlens    int32 [B+1]   where each row's tokens begin
//	         past_lens     int32 [B]     tokens of the row already in the cache
//	         block_table   int32 [B, M]  cache blocks of each row
//	         slot_mapping  int32 [T]     where keys and values go, -1 nowhere
//	         logit_rows    int64 [n]     indices into T
//	         k_cache.<i>, v_cache.<i>
//	         embedded, embeddings  int64 [m, 1], float [m, hidden]: of models that read images
//	         places        int64 [T, 3]  of models with positions in time, height and width, or with a table
//	                                     of positions
//	rotary_rows   int64 [T]     of models whose rotary frequencies depend on the length of a sequence
//	on CPU                 bytes [blocks, bytes of a block], with latent attention k_cache alone
//	         cache_form    int32 [1], on the CPU alone: what these bytes are, see runtime/ort/attention.h
//	on CUDA                D [blocks, block, kv_heads, head_dim]
//	         attention_metadata          int32 [3], on CUDA alone and in the host's memory: bounds of
//	                                     a row's new tokens and of its length, and the least that
//	                                     the longest row has
//	         attention_kernels           int64 [1], on CUDA but for latent attention, and in the host's
//	                                     memory: the address of what attention launches kernels by
//	outputs  logits        float [n, vocab]
//	on CUDA  k_cache_out.<i>, v_cache_out.<i>, at the addresses of the inputs
//
// An unmapped entry of block_table is -1 on the CPU; on CUDA it must name a block that exists.
//
// Attention is one node per layer, PagedAttention of the domain tgi, which on CUDA is com.microsoft's
// but for steps that decode; latent attention on CUDA is com.microsoft's alone. It takes queries,
// keys and values packed in one tensor, normalises heads if the architecture does, applies the
// rotary embedding, and writes the cache in place. The rotary tables contain the checkpoint's RoPE
// variant. Other norms of queries and keys are nodes before it.
//
// The graph is written once. What differs between devices is in the type target: number types,
// block sizes, the attention operator, how the gated MLP is put together, and who adds a bias.
//
// The reasons behind it: docs/rationale/models.md.
package decoder
