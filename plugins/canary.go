package plugins

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Canary is a new version of an upload that a share of the requests gets before it takes the place of the one that
// serves. Sets of several models share one: its faults are counted together, and when there are too many none of its
// sets lets a request have it any more. It is safe for concurrent use.
//
// As a shadow it gets no request: it is shown what the version that serves is shown, its answers are compared and
// have no effect.
type Canary struct {
	o                        CanaryOptions
	bound, faults, fallbacks atomic.Uint64
	stopped                  atomic.Pointer[string]
	ready, over              chan struct{} // closed when enough requests have finished, and when it was aborted
	reached                  sync.Once

	finished                               atomic.Uint64
	answers, differing, different, dropped atomic.Uint64 // of a shadow

	mu      sync.Mutex
	samples []Difference
}

// CanaryOptions say who gets a Canary, and what comes of it.
type CanaryOptions struct {
	Percent int // of the requests
	Faults  int // so many faulty requests abort it
	// Shadow says that no reply depends on it. Texts says that what is kept of its differences shows texts of requests.
	Shadow, Texts bool
	// After is the number of requests behind which it is Ready, 0 for never. More than Differences of them that a
	// shadow answered differently abort it.
	After, Differences int
}

// NewCanary returns one that no set has yet.
func NewCanary(o CanaryOptions) *Canary {
	return &Canary{o: o, ready: make(chan struct{}), over: make(chan struct{})}
}

// CanaryStats is what came of a Canary.
type CanaryStats struct {
	// Bound counts how often a request, or a run of a program, got the new version, or a shadow of it; Faulty those of
	// them in which it failed, Fallbacks those that went on with the old version, and Finished those that ended well.
	Bound, Faulty, Fallbacks, Finished uint64
	// Of a shadow: Answers that were compared, those of them that differed (Differing), the requests that had one
	// (Different), and those that were given up because there was no room or no time for them (Dropped).
	Answers, Differing, Different, Dropped uint64
	Aborted                                string // why no request gets it any more; "" while some do
}

// MaxSamples bounds what is kept of the differences of a shadow.
const MaxSamples = 32

// Difference is where a shadow first answered a request in another way than the version that serves.
type Difference struct {
	Time    time.Time
	Request string
	Kind    string // of the plugin
	Step    int    // tokens that the text had; -1 before its first
	What    string // holds nothing of the request
	Texts   string // may hold parts of it; "" unless Options.Texts
}

// Options returns what it was made with.
func (c *Canary) Options() CanaryOptions { return c.o }

// Ready is closed when Options.After requests have finished, well or not.
func (c *Canary) Ready() <-chan struct{} { return c.ready }

// Over is closed when it is aborted.
func (c *Canary) Over() <-chan struct{} { return c.over }

// Stats returns the counts of now.
func (c *Canary) Stats() CanaryStats {
	s := CanaryStats{Bound: c.bound.Load(), Faulty: c.faults.Load(), Fallbacks: c.fallbacks.Load(),
		Finished: c.finished.Load(), Answers: c.answers.Load(), Differing: c.differing.Load(),
		Different: c.different.Load(), Dropped: c.dropped.Load()}
	if why := c.stopped.Load(); why != nil {
		s.Aborted = *why
	}
	return s
}

// Samples returns the latest first differences of requests, at most MaxSamples.
func (c *Canary) Samples() []Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.samples)
}

// finish counts a request that ended well.
func (c *Canary) finish() {
	c.finished.Add(1)
	c.count()
}

// count makes the canary ready once enough requests have finished.
func (c *Canary) count() {
	if c.o.After > 0 && c.finished.Load()+c.faults.Load() >= uint64(c.o.After) {
		c.reached.Do(func() { close(c.ready) })
	}
}

// differ counts a request that a shadow answered differently, and reports whether it aborted the canary.
func (c *Canary) differ(d Difference) bool {
	if !c.o.Texts {
		d.Texts = ""
	}
	c.mu.Lock()
	if len(c.samples) == MaxSamples {
		c.samples = slices.Delete(c.samples, 0, 1)
	}
	c.samples = append(c.samples, d)
	c.mu.Unlock()
	n := c.different.Add(1)
	return c.o.After > 0 && n > uint64(c.o.Differences) &&
		c.abort(fmt.Sprintf("%d requests were answered differently, the last: %s: %s", n, d.Kind, d.What))
}

// abort keeps requests from it, and reports whether it was not aborted before.
func (c *Canary) abort(why string) bool {
	if !c.stopped.CompareAndSwap(nil, &why) {
		return false
	}
	close(c.over)
	return true
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
	return int(x%100) < c.o.Percent
}

// fault counts a faulty request, and reports whether it was the one that aborted the canary.
func (c *Canary) fault(text string) bool {
	n := c.faults.Add(1)
	if n >= uint64(c.o.Faults) {
		return c.abort(fmt.Sprintf("%d requests were faulty, the last: %s", n, text))
	}
	c.count()
	return false
}

// aborted logs that a canary was.
func (s *Set) aborted(name string, v *version, c *Canary) {
	s.log.Warn("canary aborted", "plugin", name, "sha256", v.sum(), "shadow", c.o.Shadow, "why", c.Stats().Aborted)
	s.o.Logs.addTried(name, c.trial(), "host", abi.LevelWarn, "canary aborted: "+c.Stats().Aborted)
}

// trial is what it is in the log of its plugin.
func (c *Canary) trial() string {
	if c.o.Shadow {
		return TrialShadow
	}
	return TrialCanary
}

// trialOf is what a version is tried as, "" for one that serves.
func (s *Set) trialOf(v *version) string {
	switch {
	case s.o.apart:
		return TrialShadow
	case v.canary.Load() != nil:
		return TrialCanary
	}
	return ""
}

// canaryVersion is the version of a Canary in one set. It has a reference until the entry loses it.
type canaryVersion struct {
	*Canary
	version *version
	shadow  *shadow // that has the version; nil where requests get it
	before  Stats   // of the version that serves, when it began
}

// pick returns the version that a request of a client gets, nil for none: what serves while the canary is switched off,
// or a shadow. The lock is held.
func (e *entry) pick(client, request string) *version {
	if c := e.canary; c != nil && c.shadow == nil && c.takes(e.name, request) &&
		!c.version.breakers.isOff(time.Now(), client, request) {
		return c.version
	}
	return e.current
}

// follow begins to follow a request with the shadow of an entry, which may be nil. The lock is held.
func (e *entry) follow(request string) *tally {
	if e == nil || e.canary == nil || e.canary.shadow == nil || e.current == nil || !e.canary.takes(e.name, request) {
		return nil
	}
	e.canary.bound.Add(1)
	return e.canary.shadow.follow(request)
}

// request names the request of a context, "" where it has no name.
func (s *Set) request(ctx context.Context) string {
	if s.o.Request == nil {
		return ""
	}
	return s.o.Request(ctx)
}

// Canary gives a share of the requests what was prepared, beside the version that serves under the same name, with the
// same kinds, Apply and Clients. It takes the place of a canary that is there. Replacing or deleting the plugin, or
// loading another version of it, ends it, and so does EndCanary. version is the module's own word. Errors are those of
// Commit, and ErrSpec where nothing serves, one of these differs, or a language that what serves reads is missing.
func (p *Prepared) Canary(ctx context.Context, c *Canary) (version string, err error) {
	s, j := p.set, p.job
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		p.Discard()
		return "", err
	}
	defer unlock()
	e := s.names[j.name]
	if err = e.checkCanary(j); err == nil && p.shadow != nil {
		err = p.shadow.checkBeside(e.current)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Discard()
		return "", err
	}
	v := j.loaded
	next := &canaryVersion{Canary: c, version: v, shadow: p.shadow, before: e.current.used()}
	if w := p.shadow; w != nil {
		w.canary = c
	} else {
		v.canary.Store(c)
		new(statsTotals).addVersion(v) // what it does is not counted as the plugin's
	}
	s.mu.Lock()
	before := e.canary
	e.canary = next
	s.mu.Unlock()
	before.drop()
	what := c.trial()
	s.o.Logs.addTried(j.name, what, "host", abi.LevelInfo, fmt.Sprintf("%s loaded for %d%% of requests, sha256 %s", what,
		c.o.Percent, v.sum()))
	s.log.Info(what+" loaded", "plugin", j.name, "percent", c.o.Percent, "sha256", v.sum())
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
	if a, b := e.current.settings.apply, j.settings.apply; a != b {
		return fmt.Errorf("%w: a canary has the apply of what serves, which is %q: given %q", ErrSpec, a, b)
	}
	if a, b := e.current.settings.clientList(), j.settings.clientList(); !slices.Equal(a, b) {
		return fmt.Errorf("%w: a canary applies to the clients of what serves, which are %s: given %s", ErrSpec,
			quotedOrAll(a), quotedOrAll(b))
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

// quotedOrAll is a list of clients for an error; nil are all.
func quotedOrAll(clients []string) string {
	if clients == nil {
		return "all"
	}
	return fmt.Sprintf("%q", clients)
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

// endTrial ends the canary of an entry, if that in its place, which may be nil, has it no more.
func (s *Set) endTrial(before, now *entry, why string) {
	if before.canary == nil || now != nil && now.canary == before.canary {
		return
	}
	if c := before.canary; c.abort(why) {
		s.aborted(before.name, c.version, c.Canary)
	}
	before.canary.drop()
}

// drop gives up the reference of the canary, which may be nil. No request can find it any more; what those that have it
// do counts no more.
func (c *canaryVersion) drop() {
	switch {
	case c == nil:
	case c.shadow != nil:
		c.shadow.stop()
	default:
		c.version.canary.Store(nil)
		c.version.unref()
	}
}

// CanaryUse returns what the version that serves under a name used since its canary began, but for skips and verdicts
// of guards, and what the canary did; ok is false where there is none.
func (s *Set) CanaryUse(name string) (old, canary Stats, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.names[name]
	if e == nil || e.canary == nil || e.current == nil {
		return old, canary, false
	}
	old, canary = e.current.used(), e.canary.version.totals.stats()
	old.subtract(e.canary.before)
	return old, canary, true
}

// used is what a version used since it was loaded.
func (v *version) used() (s Stats) {
	s.addLive(v)
	return s
}

// Plus adds up what CanaryUse tells of two sets.
func (s Stats) Plus(other Stats) Stats {
	s.Calls += other.Calls
	s.Seconds += other.Seconds
	s.Fuel += other.Fuel
	s.Refusals += other.Refusals
	s.Faults = AddCounts(s.Faults, other.Faults)
	s.InstancesOut += other.InstancesOut
	s.InstanceBytes += other.InstanceBytes
	s.Guard = s.Guard.Plus(other.Guard)
	return s
}

// AddCounts adds up counts by name.
func AddCounts(a, b map[string]uint64) map[string]uint64 {
	sum := maps.Clone(a)
	for name, n := range b {
		if sum == nil {
			sum = map[string]uint64{}
		}
		sum[name] += n
	}
	return sum
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

// fallBack has the request go on with the version that serves if err is a fault of the canary's, or says that there is
// no memory for it, and reports whether it does. Nothing of the plugin may have begun.
func (p *part) fallBack(s *Set, err error) bool {
	var fault *sandbox.Fault
	var short *sandbox.Shortage
	switch {
	case p.stable == nil || errors.Is(err, sandbox.ErrCancelled):
		return false
	case errors.As(err, &fault):
		p.recordFault(s, err)
	case !errors.As(err, &short): // which others may have caused: it is no fault
		return false
	}
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
	p.version, p.stable, p.verdict = p.stable, nil, &verdict{}
}
