// Package safetensors reads checkpoints in the safetensors format: one file
// or a set of shards with an index. It owns the mapping of the files into
// memory, the checks of their headers and the widening of 16-bit floats.
//
// Opening a file checks its whole header: after that every tensor's bytes are known to be
// inside the file, not to overlap with another tensor's, and to have the length of its shape
// and type. Errors wrap ErrFormat and name the file, the tensor, the bound and the value. The
// package starts no goroutines.
package safetensors

import "errors"

// ErrFormat is wrapped by every error about the content of a checkpoint, as
// opposed to errors of the file system.
var ErrFormat = errors.New("malformed safetensors")

// ErrMissing is wrapped if a requested tensor or a shard does not exist.
var ErrMissing = errors.New("not in the checkpoint")
