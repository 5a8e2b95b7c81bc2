// Package mcp runs tools of servers of the Model Context Protocol that the operator configures, for models that call
// them. Servers are processes or listen to HTTP; the official SDK speaks to them.
//
// A server is connected when the first request wants it, and again when it has died, after a time that doubles with
// each failure. Everything that it says is bounded: messages in bytes and per second, the log in lines, calls in time
// and in number, results in bytes. Whatever a server does, a request gets an outcome in time, and other servers and
// requests are as before.
//
// A Loop is what one request uses of servers: which tools its model is offered, and the calls that it makes of them,
// within the bounds of a request. Who puts that into words is the business of the APIs.
package mcp
