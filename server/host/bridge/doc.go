// Package bridge adapts the runtime, the plugins and the server to each other: each of
// its functions returns a type of one world as an interface that another declares. It keeps
// nothing and decides nothing; errors of plugins become what they mean to a request.
package bridge
