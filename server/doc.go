// Package server is the HTTP server that every API is a part of: routing,
// middleware, bodies, event streams, the one table from error to status and
// text, metrics, and a shutdown that lets running requests finish.
//
// It knows no dialect. An API (server/api/tgi) implements API and imports this
// package; server/host puts both together.
//
// The reasons behind it: docs/rationale/server.md.
package server
