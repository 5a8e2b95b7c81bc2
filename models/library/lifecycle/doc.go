// Package lifecycle owns what state each model is in, and who may change it:
// fetching, loading within a budget of memory, use, unloading, deletion. It
// knows neither how a model is fetched nor how it runs; those are given to it.
//
// # States
//
//	not_downloaded -> downloading -> downloaded -> starting -> running -> stopping -> stopped -> starting
//	                      |                           |           |           |
//	                      +------------ error <-------+           +---------> error
//
// The table is in state.go; nothing else decides what may follow what.
//
// # Memory
//
// A model's need is estimated before it is loaded. Two sums are kept: what is
// promised (models that start or run) and what is taken (models that load, run,
// or are not yet gone). A start is admitted when the promises with it fit the
// budget, if the policy allows after idle models were told to go, least recently used first, and it begins when
// the memory is really there. So a refused start has changed nothing, and no two models
// are ever in memory that do not fit together.
//
// # Goroutines
//
// One for each fetch, one for each load and one for each unload, started by the call that
// caused it. They end with what they do; Close cancels what can be cancelled
// and waits for them.
//
// The reasons behind it: docs/rationale/model-manager.md.
package lifecycle

import "errors"

// Errors that a caller tells apart.
var (
	// ErrUnknown says that the roster has no such model.
	ErrUnknown = errors.New("model not found")
	// ErrState says that the model's state does not allow what was asked for. The text names it.
	ErrState = errors.New("wrong state")
	// ErrNotRunning says that a model cannot be used, because it does not run.
	ErrNotRunning = errors.New("model is not running")
	// ErrMemory says that the budget has no room for the model.
	ErrMemory = errors.New("not enough memory")
	// ErrBusy says that as many fetches run as may.
	ErrBusy = errors.New("too many downloads")
	// ErrStopped is how a start ends that was stopped, and a fetch that was cancelled.
	ErrStopped = errors.New("stopped on request")
	// ErrClosed says that the roster is being closed.
	ErrClosed = errors.New("shutting down")
)
