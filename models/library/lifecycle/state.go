package lifecycle

import (
	"slices"
	"time"

	"tgi/models/library"
)

// State is where a model is in its life.
type State string

// The states.
const (
	NotDownloaded State = "not_downloaded"
	Downloading   State = "downloading"
	// Downloaded models lie in the library and were not loaded yet.
	Downloaded State = "downloaded"
	Starting   State = "starting"
	Running    State = "running"
	// Stopping models take no new work and end what they have.
	Stopping State = "stopping"
	// Stopped models lie in the library and were loaded before.
	Stopped State = "stopped"
	// Error is what a failed fetch, start or stop leaves; Status.Err says why.
	Error State = "error"
)

// next is the table of transitions.
var next = map[State][]State{
	NotDownloaded: {Downloading, Downloaded},                          // fetched, or found in the folder
	Downloading:   {Downloaded, NotDownloaded, Error},                 // done, cancelled, failed
	Downloaded:    {Starting, NotDownloaded},                          // loaded, deleted
	Starting:      {Running, Stopping, Error},                         // done, told to stop, failed
	Running:       {Stopping},                                         // also when it failed
	Stopping:      {Stopped, Error},                                   // done, failed
	Stopped:       {Starting, NotDownloaded},                          // loaded again, deleted
	Error:         {Starting, Downloading, Downloaded, NotDownloaded}, // tried again, found, deleted
}

// To tells whether a model may go from s to the other state.
func (s State) To(other State) bool { return slices.Contains(next[s], other) }

// States lists all states, in the order of a model's life.
func States() []State {
	return []State{NotDownloaded, Downloading, Downloaded, Starting, Running, Stopping, Stopped, Error}
}

// Cause says why a model was stopped.
type Cause string

// The causes.
const (
	Requested Cause = "requested"
	Idle      Cause = "idle"
	Evicted   Cause = "evicted"
	Failed    Cause = "failed"
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
	// Uses counts those who use the model now; LastUse is when one of them began or ended.
	Uses    int
	LastUse time.Time
	// Memory is what the model takes, or will take, in bytes.
	Memory int64
	// Done and Total are the bytes of a fetch; Total is 0 when not known.
	Done, Total int64
	// LoadTook is how long the last load took; 0 before the first.
	LoadTook time.Duration
	// Declared says that the model stays known when it is deleted.
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
