package lifecycle

import (
	"slices"
	"time"

	"tgi/models/library"
)

// State is the state of a model in its lifecycle.
type State string

// The states.
const (
	NotDownloaded State = "not_downloaded"
	Downloading   State = "downloading"
	// Downloaded models are in the library and have not been loaded yet.
	Downloaded State = "downloaded"
	Starting   State = "starting"
	Running    State = "running"
	// Stopping models take no new work and finish the work that they have.
	Stopping State = "stopping"
	// Stopped models are in the library and were loaded before.
	Stopped State = "stopped"
	// Error is the state after a failed fetch, start or stop; Status.Err is the reason.
	Error State = "error"
)

// transitions is the table of allowed transitions.
var transitions = map[State][]State{
	NotDownloaded: {Downloading, Downloaded},                          // fetched, or found in the folder
	Downloading:   {Downloaded, NotDownloaded, Error},                 // done, cancelled, failed
	Downloaded:    {Starting, NotDownloaded},                          // loaded, deleted
	Starting:      {Running, Stopping, Error},                         // done, stopped, failed
	Running:       {Stopping},                                         // also when it failed
	Stopping:      {Stopped, Error},                                   // done, failed
	Stopped:       {Starting, NotDownloaded},                          // loaded again, deleted
	Error:         {Starting, Downloading, Downloaded, NotDownloaded}, // tried again, found, deleted
}

// CanBecome reports whether a model may go from s to the other state.
func (s State) CanBecome(other State) bool { return slices.Contains(transitions[s], other) }

// Cause is why a model was stopped.
type Cause string

// The causes.
const (
	Requested Cause = "requested"
	Idle      Cause = "idle"
	Evicted   Cause = "evicted"
	Closing   Cause = "closing"
)

// Status is a model's state at one moment.
type Status struct {
	ID    library.ID
	State State
	// Since is when the state began.
	Since time.Time
	// Err is why the state is Error.
	Err error
	// Cause is why the model stops or was stopped; empty before that.
	Cause Cause
	// Uses counts the model's present users; LastUse is when a use last began or ended.
	Uses    int
	LastUse time.Time
	// Memory is the estimated memory of the model, in bytes.
	Memory int64
	// Done and Total are the bytes of a fetch; Total is 0 if not known.
	Done, Total int64
	// LoadTook is the duration of the last load; 0 before the first.
	LoadTook time.Duration
	// Declared says that the model stays known after it is deleted.
	Declared bool
}

// Change is one transition.
type Change struct {
	ID       library.ID
	From, To State
	At       time.Time
	// Err is set when To is Error.
	Err error
}
