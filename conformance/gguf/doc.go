// Package gguf holds models in the GGUF format to the software that made them.
package gguf
