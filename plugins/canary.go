package plugins

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Canary is a new version of an upload that a share of the requests gets before it takes the place of the one that
// serves. Sets of several models share one: its faults are counted together, and when there are too many none of its
// sets lets a request have it any more. It is safe for concurrent use.
type Canary struct {
	percent, limit           int
	bound, faults, fallbacks atomic.Uint64
	stopped                  atomic.Pointer[string]
}

// NewCanary returns one that gets percent of the requests and is aborted after a number of faulty ones.
func NewCanary(percent, faults int) *Canary { return &Canary{percent: percent, limit: faults} }

// CanaryStats is what came of a Canary.
type CanaryStats struct {
	Percent, Limit int
	// Bound counts how often a request, or a run of a program, got the new version; Faulty those of them in which it
	// failed, Fallbacks those that went on with the old version.
	Bound, Faulty, Fallbacks uint64
	Aborted                  string // why no request gets it any more; "" while some do
}

// Stats returns the counts of now.
func (c *Canary) Stats() CanaryStats {
	s := CanaryStats{Percent: c.percent, Limit: c.limit, Bound: c.bound.Load(), Faulty: c.faults.Load(),
		Fallbacks: c.fallbacks.Load()}
	if why := c.stopped.Load(); why != nil {
		s.Aborted = *why
	}
	return s
}

// takes reports whether a request gets the new version: the same request always does, and one without a name never.
func (c *Canary) takes(plugin, request string) bool {
	if request == "" || c.stopped.Load() != nil {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(plugin + "\n" + request))
	x := h.Sum64() // whose low bits alone follow the last bytes too closely
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return int(x%100) < c.percent
}

// fault counts a faulty request, and reports whether it was the one that aborted the canary.
func (c *Canary) fault(text string) bool {
	n := c.faults.Add(1)
	if n < uint64(c.limit) {
		return false
	}
	why := fmt.Sprintf("%d requests were faulty, the last: %s", n, text)
	return c.stopped.CompareAndSwap(nil, &why)
}

// canaryVersion is the version of a Canary in one set. It has a reference until the entry loses it.
type canaryVersion struct {
	*Canary
	version *version
	before  Stats // of the version that serves, when it began
}

// pick returns the version that a request of a client gets, nil for none: what serves while the canary is switched off.
// The lock is held.
func (e *entry) pick(client, request string) *version {
	if c := e.canary; c != nil && c.takes(e.name, request) && !c.version.breakers.isOff(time.Now(), client) {
		return c.version
	}
	return e.current
}

// request names the request of a context, "" where it has no name.
func (s *Set) request(ctx context.Context) string {
	if s.o.Request == nil {
		return ""
	}
	return s.o.Request(ctx)
}

// Canary gives a share of the requests what was prepared, beside the version that serves: an upload under the same
// name with the same kinds and Apply. It takes the place of a canary that is there. Replacing or deleting the plugin
// ends it, and so does EndCanary. version is the module's own word. Errors are those of Commit; ErrSpec where nothing
// serves or the kinds differ.
func (p *Prepared) Canary(ctx context.Context, c *Canary) (version string, err error) {
	s, j := p.set, p.job
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		p.Discard()
		return "", err
	}
	defer unlock()
	e := s.names[j.name]
	if err = e.checkUpload(); err == nil {
		err = e.checkCanary(j)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Discard()
		return "", err
	}
	v := j.loaded
	v.canary.Store(c)
	e.totals.addVersion(v)
	next := &canaryVersion{Canary: c, version: v, before: e.current.used()}
	s.mu.Lock()
	before := e.canary
	e.canary = next
	s.mu.Unlock()
	before.drop()
	s.o.Logs.add(j.name, "host", abi.LevelInfo, fmt.Sprintf("canary loaded for %d%% of requests, sha256 %s", c.percent,
		v.sum()))
	s.log.Info("canary loaded", "plugin", j.name, "percent", c.percent, "sha256", v.sum())
	return v.guest.Description().Version, nil
}

// checkCanary returns why a job can't be a canary of the entry, which may be nil.
func (e *entry) checkCanary(j *job) error {
	if e == nil || e.current == nil {
		return fmt.Errorf("%w: nothing serves as %s that a canary could replace", ErrSpec, j.name)
	}
	before, now := slices.Sorted(slices.Values(e.current.kinds)), slices.Sorted(slices.Values(j.loaded.kinds))
	if !slices.Equal(before, now) {
		return fmt.Errorf("%w: a canary has the kinds of what serves, which are %q: given %q", ErrSpec, before, now)
	}
	if a, b := e.current.settings.apply, j.loaded.settings.apply; a != b {
		return fmt.Errorf("%w: a canary has the apply of what serves, which is %q: given %q", ErrSpec, a, b)
	}
	if !e.current.serves(abi.KindGrammar) {
		return nil
	}
	reads := j.loaded.guest.Description().Languages
	for _, l := range e.current.guest.Description().Languages {
		if !slices.Contains(reads, l) {
			return fmt.Errorf("%w: a canary reads the languages of what serves, %q is missing: given %q", ErrSpec, l, reads)
		}
	}
	return nil
}

// EndCanary takes the canary of a plugin away; requests that have it finish with it. It is fine if there is none.
func (s *Set) EndCanary(ctx context.Context, name string) error {
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	e := s.names[name]
	if e == nil || e.canary == nil {
		return nil
	}
	s.mu.Lock()
	c := e.canary
	e.canary = nil
	s.mu.Unlock()
	c.drop()
	return nil
}

// drop gives up the reference of the canary, which may be nil. No request can find it any more; what those that have it
// do counts no more.
func (c *canaryVersion) drop() {
	if c != nil {
		c.version.canary.Store(nil)
		c.version.unref()
	}
}

// CanaryUse returns what the version that serves under a name used since its canary began, and what that used; ok is
// false where there is none.
func (s *Set) CanaryUse(name string) (old, canary Stats, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.names[name]
	if e == nil || e.canary == nil || e.current == nil {
		return old, canary, false
	}
	old, canary = e.current.used(), e.canary.version.used()
	old.subtract(e.canary.before)
	return old, canary, true
}

// used is what a version used since it was loaded.
func (v *version) used() (s Stats) {
	s.add(v.stats(), v.baseline)
	return s
}

// Plus adds up what CanaryUse tells of two sets.
func (s Stats) Plus(other Stats) Stats {
	s.Calls += other.Calls
	s.Seconds += other.Seconds
	s.Fuel += other.Fuel
	s.Refusals += other.Refusals
	faults := maps.Clone(other.Faults)
	for kind, n := range s.Faults {
		if faults == nil {
			faults = map[string]uint64{}
		}
		faults[kind] += n
	}
	s.Faults = faults
	return s
}

// subtract takes away what CanaryUse tells of what was used before.
func (s *Stats) subtract(before Stats) {
	s.Calls -= before.Calls
	s.Seconds -= before.Seconds
	s.Fuel -= before.Fuel
	s.Refusals -= before.Refusals
	for kind, n := range before.Faults {
		s.Faults[kind] -= n
	}
}

// fallBack has the request go on with the version that serves if err is a fault of the canary's, and reports whether it
// does. Nothing of the plugin may have begun.
func (p *part) fallBack(s *Set, err error) bool {
	var fault *sandbox.Fault
	if p.stable == nil || !errors.As(err, &fault) || errors.Is(err, sandbox.ErrMemory) ||
		errors.Is(err, sandbox.ErrCancelled) {
		return false
	}
	p.recordFault(s, err)
	p.revert()
	return true
}

// revert replaces the canary by the version that serves.
func (p *part) revert() {
	if c := p.version.canary.Load(); c != nil {
		c.fallbacks.Add(1)
	}
	p.cancelTrial()
	p.version.unref()
	p.version, p.stable, p.trial, p.verdict = p.stable, nil, trial{}, &verdict{}
}
