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
	guest       *guest.Guest
	origin      origin
	source      string // of the module
	settings    settings
	configSum   string   // of its configuration, by Options.ConfigKey
	key         string   // what tells its grammars from those of other modules and settings
	kinds       []string // used of the module
	steps       []string // of them, those of the token loop
	refusalText string   // the guest's error text if it refuses {} as parameters
	loaded      time.Time
	since       uint64      // where its lines begin in the log of plugins
	baseline    guest.Stats // what loading and the self-test used
	breakers    breakers
	totals      *statsTotals
	refs        atomic.Int64 // one of the set while it is current, one of each request
	skips       skipCauses
	refused     atomic.Uint64          // requests that were refused for it without asking the guest
	canary      atomic.Pointer[Canary] // whose version it is; nil for others, and when that has ended
}

// skipCauses are the causes for which a version was skipped so far.
type skipCauses struct {
	mu   sync.Mutex
	seen map[string]bool
}

// maxSkipCauses bounds the causes remembered per version. Text that a guest can vary is not part of a cause.
const maxSkipCauses = 64

// firstSkip reports whether this cause is new for the version. Faults of the same kind in the same export have the same
// cause, and so have errors with the same text.
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

// ref takes a reference for a request. The version must have one already.
func (v *version) ref() { v.refs.Add(1) }

// bind is ref for a request that got the version by [entry.pick].
func (v *version) bind() {
	v.ref()
	if c := v.canary.Load(); c != nil {
		c.bound.Add(1)
	}
}

// stats are those of the guest, with the requests that were refused for it.
func (v *version) stats() guest.Stats {
	s := v.guest.Stats()
	s.Refusals += v.refused.Load()
	return s
}

// unref drops a reference. With the last one every session is closed, so the counts are final.
func (v *version) unref() {
	if v.refs.Add(-1) == 0 {
		v.totals.retireVersion(v)
		v.guest.Close()
	}
}

func (v *version) serves(kind string) bool { return slices.Contains(v.kinds, kind) }

// alwaysSamples reports whether the version chooses the tokens of every request.
func (v *version) alwaysSamples() bool {
	return v.settings.apply == ApplyAlways && v.serves(abi.KindSampler)
}

func (v *version) sum() string {
	sum := v.guest.Sum()
	return hex.EncodeToString(sum[:])
}

// Stats counts what happened under one name, over all versions that served since the plugin was installed; that of a
// canary is counted apart. Loading itself, self-test included, is not counted.
type Stats struct {
	Calls    uint64  // of the guest's exports
	Seconds  float64 // that they ran
	Fuel     uint64  // that they used
	Paused   float64 // seconds that they were paused in favour of others
	Slices   uint64  // of fuel that they had
	Refusals uint64  // requests that the guest, or the schema of its parameters, refused
	// calls that failed, by "trap", "fuel", "time", "memory", "access" and "result" (a broken rule)
	Faults    map[string]uint64
	Cancelled uint64 // calls that ended because their request did
	Skips     uint64 // sequences that went on without it; a request that began without it counts as one
	Loads     uint64 // versions that served
	Resets    uint64 // instances made fresh for another sequence
	Discarded uint64 // instances thrown away after a fault or because they grew

	Guard GuardStats

	InstancesOut, InstancesWaiting int   // now
	InstanceBytes                  int64 // that these take
}

// statsTotals sums the counts of one name over all its versions, so that they never decrease.
type statsTotals struct {
	skips, loads atomic.Uint64
	guards       guardTotals

	mu   sync.Mutex
	past Stats // of retired versions
	live []*version
}

// addVersion starts counting a version.
func (l *statsTotals) addVersion(v *version) {
	v.totals = l
	l.loads.Add(1)
	l.mu.Lock()
	l.live = append(l.live, v)
	l.mu.Unlock()
}

func (l *statsTotals) retireVersion(v *version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.live, v); i >= 0 {
		l.live = slices.Delete(l.live, i, i+1)
		l.past.add(v.stats(), v.baseline)
	}
}

// stats sums up all versions.
func (l *statsTotals) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.past
	s.Faults = map[string]uint64{"trap": 0, "fuel": 0, "time": 0, "memory": 0, "access": 0, "result": 0}
	for k, n := range l.past.Faults {
		s.Faults[k] = n
	}
	for _, v := range l.live {
		s.addLive(v)
	}
	s.Skips, s.Loads = l.skips.Load(), l.loads.Load()
	s.Guard = l.guards.stats()
	return s
}

// addLive counts what a version did since it was loaded, and the instances that it has.
func (s *Stats) addLive(v *version) {
	now := v.stats()
	s.add(now, v.baseline)
	s.InstancesOut += now.Instances.Out
	s.InstancesWaiting += now.Instances.Waiting
	s.InstanceBytes += now.Instances.Bytes
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

// State is the state of a plugin.
type State string

// The states of a plugin.
const (
	StateActive State = "active" // it serves requests; Status.Error says why a newer version, if any, does not
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
	// OffClients is the number of clients for which it is switched off, each because its own requests were faulty.
	OffClients int
	Error      string // why it failed, for whom it is off, and why a newer version was rejected
	Apply      Apply
	Clients    []string // to whose requests alone ApplyAlways applies; nil for all
	OnError    OnError
	// OnFull and OnExhausted are a guard's, "" of all others.
	OnFull, OnExhausted GuardEnd
	Limits              Limits    // as they were set; 0 is the default
	Loaded              time.Time // when the version that serves was loaded
	Stats               Stats
}
