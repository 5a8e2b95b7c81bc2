// Package safetensors reads checkpoints in the safetensors format: one file
// or a set of shards with an index. It owns the mapping of the files into
// memory, the checks of their headers and the widening of 16-bit floats.
//
// A header is checked as a whole when its file is opened: after Open every
// tensor's bytes are known to lie inside the file, to overlap with no other
// tensor's and to have the length that its shape and type ask for. What is
// wrong is told in one sentence with the file, the tensor, the bound and the
// value, wrapped around ErrFormat.
package safetensors

import "errors"

// ErrFormat is wrapped by every error about the content of a checkpoint, as
// opposed to errors of the file system.
var ErrFormat = errors.New("malformed safetensors")

// ErrMissing is wrapped when a tensor or a shard is asked for that is not there.
var ErrMissing = errors.New("not in the checkpoint")
