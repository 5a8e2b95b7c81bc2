// Package bridge adapts the runtime, the plugins and the server to each other: each of its functions returns a type of
// one world as an interface that another declares. A request enters it twice before it is submitted, to be bound and
// rendered and to begin its user code (UserCode); then the engine holds the plugins' own objects, and a grammar's mask
// in an adapter that it calls at each token. Errors of plugins become what they mean to a request.
package bridge
