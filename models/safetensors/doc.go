// Package safetensors reads checkpoints in the safetensors format: one file or a set of shards with an index. It owns
// the checks of their headers.
//
// Opening a file checks its whole header: after that every tensor's bytes are known to be
// inside the file, not to overlap with another tensor's, and to have the length of its shape
// and type. Errors wrap tensors.ErrFormat and name the file, the tensor, the bound and the value. The
// package starts no goroutines.
package safetensors
