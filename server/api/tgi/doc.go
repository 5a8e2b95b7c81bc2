// Package tgi speaks the native API of text-generation-inference in the dialects
// of server/dialect: its bodies, error texts, headers and event streams, byte
// for byte; beside it the routes by which SageMaker, Vertex AI and KServe call
// it, and the documentation of all routes.
//
// A handler decodes, starts a generate.Run, and encodes what comes back; no
// handler checks or decides anything that generate already did. Conversations
// are read by whoever wires the API, through Options.
//
// The reasons behind it: docs/rationale/server.md.
package tgi
