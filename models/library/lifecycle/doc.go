// Package lifecycle owns the state of each model and all changes of it: fetching,
// loading within a memory budget, use, unloading and deletion. It does not know how a
// model is fetched or run: its caller, the model manager of the server, supplies both.
//
// # States
//
//	not_downloaded -> downloading -> downloaded -> starting -> running -> stopping -> stopped -> starting
//	                      |                           |           |           |
//	                      +------------ error <-------+           +---------> error
//
// The table in state.go alone decides which transitions are allowed.
//
// # Memory
//
// A model's memory is estimated before it is loaded. The roster keeps two sums: reserved
// memory (models that start or run) and allocated memory (models that load, run or are
// being unloaded). A start is admitted if it fits into the budget with the reservations,
// after evicting idle models, least recently used first, if the policy allows. The load
// begins once the memory is free. So a refused start changes nothing, and models that do
// not fit together are never in memory at the same time.
//
// # Goroutines
//
// One for each fetch, load and unload, started by the call that causes it. Roster.Close
// cancels fetches and loads, stops all models and waits for all of these goroutines.
//
// # Locks
//
// One lock guards the roster and its rows. It is never held during Config.Estimate,
// Config.Remove, a fetch, Runner.Start or Instance.Stop. Config.Observe and
// Config.Present run under it, so they must not call the roster.
//
// The reasons behind it: docs/rationale/model-manager.md.
package lifecycle

import "errors"

// Errors for callers to test with errors.Is.
var (
	// ErrUnknown says that the roster has no such model.
	ErrUnknown = errors.New("model not found")
	// ErrState says that the model's state does not allow the operation. The text names the state.
	ErrState = errors.New("wrong state")
	// ErrNotRunning says that a model cannot be used, because it does not run.
	ErrNotRunning = errors.New("model is not running")
	// ErrMemory says that the budget has no room for the model.
	ErrMemory = errors.New("not enough memory")
	// ErrBusy says that the maximum number of fetches are running.
	ErrBusy = errors.New("too many downloads")
	// ErrStopped is the result of a start that was stopped and of a fetch that was cancelled.
	ErrStopped = errors.New("stopped on request")
	// ErrClosed says that the roster is being closed.
	ErrClosed = errors.New("shutting down")
)
