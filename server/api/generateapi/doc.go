// Package generateapi serves the API of llm-inference
// (github.com/alexandriaproject-io/llm-inference): POST /api/generate-one and
// /api/generate-batch, the socket /api/ws, and the probes /api/alive and
// /api/ready. Texts of errors, the order of JSON's members and what counts as
// well-formed are that server's; Thrift, which it speaks besides, is left out.
//
// The member model, which that server does not have, says which model is meant
// (package dispatch); a socket is for the one that its address names, and a message
// that names another is refused.
//
// A request whose text the model did not end leaves a state behind, in a
// store.Store under the key of its client and its id. The next request of that
// client with that id goes on where the text stopped.
//
// A handler reads a body into a request, begins a job, and writes what the job's
// texts say; the job alone knows of states and runs.
//
// The reasons behind it: docs/rationale/server.md.
package generateapi
