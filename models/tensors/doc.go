// Package tensors holds the weights of a checkpoint, whatever files they come from: packages safetensors and gguf open
// those. It owns the mapping of files into memory, and what the types of elements mean: 16-bit floats, and the coding
// of blocks of quantised ones.
//
// Errors about the content of a checkpoint wrap ErrFormat and name the file, the tensor, the bound and the value. The
// package starts no goroutines.
package tensors

import "errors"

// ErrFormat is wrapped by every error about the content of a checkpoint, as opposed to errors of the file system.
var ErrFormat = errors.New("malformed weights")

// ErrMissing is wrapped if a requested tensor or a file of a checkpoint does not exist.
var ErrMissing = errors.New("not in the checkpoint")
