// Package ollama serves Ollama's API below /api: chat, generate, embed, embeddings, tags, show, ps, pull, delete and
// version. Making, copying and sending models (create, copy, push, blobs) are refused by name.
//
// It is a translation: options become the settings of a Draft, messages those that
// templates read, and the deltas of a reply lines of JSON. A reply is built by one
// builder, streamed or not. The models are those of the models API, which it shares
// with package modelsapi.
//
// Its paths are others than those of package generateapi, which are below /api too: both can be served at once.
//
// Ollama's own source (api/types.go, server/routes.go) and its Python and JavaScript packages are the specification.
// The reasons behind it: docs/rationale/server.md.
package ollama
