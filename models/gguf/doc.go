// Package gguf reads files in the GGUF format of llama.cpp: one file or a set of parts. It owns the checks of their
// headers and the decoding of their types of quantised weights. What the metadata say of a model, package hf reads.
//
// Opening checks the whole header: after that every tensor's bytes are known to be inside the file, not to overlap with
// another tensor's, and to have the length of its shape and type. Errors wrap tensors.ErrFormat and name the file, the
// tensor or key, the bound and the value. The package starts no goroutines.
//
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The types: ggml-quants.c in the same project.
package gguf
