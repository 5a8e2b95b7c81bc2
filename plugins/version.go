package plugins

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// version is one loaded module with its settings. Requests that were bound to it finish on it; it is freed when it is
// no longer current and the last of them is released.
type version struct {
	guest    *guest.Guest
	set      settings
	kinds    []string // used of the module
	steps    []string // of them, those of the token loop
	refuses  string   // the guest's words where it does not accept {} for parameters
	loaded   time.Time
	base     guest.Stats // what loading and the canary used
	breakers breakers
	ledger   *ledger
	refs     atomic.Int64 // one of the set while it is current, one of each request
	skips    skipCauses
}

// skipCauses are the causes for which a version was passed over so far.
type skipCauses struct {
	mu   sync.Mutex
	seen map[string]bool
}

// maxSkipCauses bounds what is remembered of one version; what a guest can vary is not part of a cause.
const maxSkipCauses = 64

// firstSkip reports whether the version was not passed over for this cause before: a fault of the same kind in the same
// export, or the same text.
func (v *version) firstSkip(err error) bool {
	key := err.Error()
	if f := (*sandbox.Fault)(nil); errors.As(err, &f) {
		key = f.Func + ": " + f.Kind.Error()
	}
	v.skips.mu.Lock()
	defer v.skips.mu.Unlock()
	if v.skips.seen[key] || len(v.skips.seen) >= maxSkipCauses {
		return false
	}
	if v.skips.seen == nil {
		v.skips.seen = map[string]bool{}
	}
	v.skips.seen[key] = true
	return true
}

// hold counts a request. The caller knows that the version has a reference already.
func (v *version) hold() { v.refs.Add(1) }

// drop gives a reference back. With the last one every session is closed, so the counts are final.
func (v *version) drop() {
	if v.refs.Add(-1) == 0 {
		v.ledger.retire(v)
		v.guest.Close()
	}
}

func (v *version) serves(kind string) bool { return slices.Contains(v.kinds, kind) }

// rules reports whether the version picks the tokens of every request.
func (v *version) rules() bool { return v.set.apply == ApplyAlways && v.serves(abi.KindSampler) }

func (v *version) sum() string {
	sum := v.guest.Sum()
	return hex.EncodeToString(sum[:])
}

// Stats counts what happened under one name, over all versions since the plugin was installed. Loading itself, canary
// included, is not counted.
type Stats struct {
	Calls     uint64            // of the guest's exports
	Seconds   float64           // that they ran
	Fuel      uint64            // that they used
	Paused    float64           // seconds that they were paused so that others get on
	Slices    uint64            // of fuel that they had
	Refusals  uint64            // requests that the guest refused
	Faults    map[string]uint64 // calls that failed, by "trap", "fuel", "time", "memory", "access" and "result" (a broken rule)
	Cancelled uint64            // calls that ended because their request did
	Skips     uint64            // sequences that went on without it; a request that began without it counts as one
	Loads     uint64            // versions that served
	Resets    uint64            // instances made fresh for another sequence
	Discarded uint64            // instances thrown away after a fault or because they grew

	InstancesOut, InstancesWaiting int   // now
	InstanceBytes                  int64 // that these take
}

// ledger keeps the counts of one name over its versions, so that they never go down.
type ledger struct {
	skips, loads atomic.Uint64

	mu   sync.Mutex
	past Stats // of retired versions
	live []*version
}

// enter begins to count a version.
func (l *ledger) enter(v *version) {
	v.ledger = l
	l.loads.Add(1)
	l.mu.Lock()
	l.live = append(l.live, v)
	l.mu.Unlock()
}

func (l *ledger) retire(v *version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.live, v); i >= 0 {
		l.live = slices.Delete(l.live, i, i+1)
		l.past.add(v.guest.Stats(), v.base)
	}
}

// stats sums up all versions.
func (l *ledger) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.past
	s.Faults = map[string]uint64{"trap": 0, "fuel": 0, "time": 0, "memory": 0, "access": 0, "result": 0}
	for k, n := range l.past.Faults {
		s.Faults[k] = n
	}
	for _, v := range l.live {
		now := v.guest.Stats()
		s.add(now, v.base)
		s.InstancesOut += now.Instances.Out
		s.InstancesWaiting += now.Instances.Waiting
		s.InstanceBytes += now.Instances.Bytes
	}
	s.Skips, s.Loads = l.skips.Load(), l.loads.Load()
	return s
}

// add counts what a version did since base.
func (s *Stats) add(now, base guest.Stats) {
	s.Calls += now.Calls - base.Calls
	s.Seconds += float64(now.Nanoseconds-base.Nanoseconds) / 1e9
	s.Fuel += now.Fuel - base.Fuel
	s.Paused += float64(now.Paused-base.Paused) / 1e9
	s.Slices += now.Slices - base.Slices
	s.Refusals += now.Refusals - base.Refusals
	if s.Faults == nil {
		s.Faults = map[string]uint64{}
	}
	s.Faults["trap"] += now.Faults.Trap - base.Faults.Trap
	s.Faults["fuel"] += now.Faults.Fuel - base.Faults.Fuel
	s.Faults["time"] += now.Faults.Time - base.Faults.Time
	s.Faults["memory"] += now.Faults.Memory - base.Faults.Memory
	s.Faults["access"] += now.Faults.Access - base.Faults.Access
	s.Faults["result"] += now.Faults.Result - base.Faults.Result
	s.Cancelled += now.Faults.Cancelled - base.Faults.Cancelled
	s.Resets += uint64(now.Instances.Reset - base.Instances.Reset)
	s.Discarded += uint64(now.Instances.Discarded - base.Instances.Discarded)
}

// State is what a plugin is up to.
type State string

// The states of a plugin.
const (
	StateActive State = "active" // it serves requests; Status.Error may say why a newer version does not
	StateOff    State = "off"    // it failed too often and is left alone for a while
	StateFailed State = "failed" // no version of it could be loaded
	// StateLoading: the first version of it is still being loaded.
	StateLoading State = "loading"
)

// Status is a plugin as an operator sees it. It is a copy.
type Status struct {
	Name    string
	Version string // as the module says; so are Doc and Params
	Doc     string
	Params  json.RawMessage // JSON Schema of its parameters, nil when it gives none
	SHA256  string          // of the module, hexadecimal
	Source  string          // the file, "builtin:NAME" or "upload"
	Kinds   []string        // used of the module
	// Languages that it reads grammars in, where it is used as one.
	Languages []string
	State     State
	Error     string // why it is off or failed, and why a newer version was rejected
	Apply     Apply
	OnError   OnError
	Loaded    time.Time // when the version that serves was loaded
	Stats     Stats
}
