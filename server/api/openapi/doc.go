// Package openapi owns the description of the server's routes and types as an
// OpenAPI 3.0.3 document: the schemas of TGI's and OpenAI's bodies in all
// dialects, and the operations that answer with them.
//
// It lists what a server serves and nothing else; it runs no request.
package openapi
