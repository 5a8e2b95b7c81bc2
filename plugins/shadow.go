package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// A shadow is a canary that no reply depends on. The new version lives in a set of its own, with memory, turns and a
// share of the processors of its own; what the serving version is shown and answers is copied to a queue, and one
// goroutine shows it to the new version and compares. Nobody waits for that goroutine: what finds no room in the queue
// is dropped. So all that a request pays is the copy.

// What a shadow may hold at once.
const (
	// shadowBytes bounds what waits to be shown.
	shadowBytes = 64 << 20
	// shadowSequences bounds the sequences and conversations that are followed.
	shadowSequences = 32
	// shadowMemory is the part of the memory for plugins, one in so many, that the new version may have beside it, and
	// shadowLeast what it may have where that is less.
	shadowMemory = 8
	shadowLeast  = 128 << 20
	// shadowInstances bounds the new version's instances: a sequence that can be taken back has up to two more.
	shadowInstances = 4 * shadowSequences
)

// shadow shows requests to a version that does not serve.
type shadow struct {
	serving *Set // whose requests it sees
	apart   *Set // has the new version alone
	v       *version
	name    string
	canary  *Canary
	rows    sync.Pool // of *[]float32

	mu        sync.Mutex
	queue     []shadowCall
	bytes     int64 // of queue
	sequences int
	running   bool // a goroutine works on the queue
	ended     bool

	live map[*follower]struct{} // the goroutine's
}

// shadowCall is what a follower's version is shown next.
type shadowCall struct {
	f     *follower
	bytes int64
	run   func() error
}

// tally is what a shadow finds of one request: however many sequences this has, it counts once.
type tally struct {
	shadow  *shadow
	request string
	open    atomic.Int64 // the request, and each follower
	// gone says that the request is followed no further.
	gone                                    atomic.Bool
	faulty, different, dropped, left, known atomic.Bool
}

// follower is the new version beside one sequence or one conversation.
type follower struct {
	t     *tally
	shown []uint32 // tokens of the output that were queued; of the sequence's goroutine

	// What follows is the worker's.
	end            func() // frees what it has; nil before it began
	seq            Sequence
	prompt, output []uint32
	parser         *Parser
	serving, own   []Event // of both parsers
	text           *Constraint
	bits           []uint32
}

// Why a follower is given up without a fault.
var (
	errLeft = errors.New("the request is followed no further")
	errRoom = errors.New("there is no room to follow the request")
)

// openShadow loads a module for a shadow. settings are those of the upload that it would become.
func (s *Set) openShadow(ctx context.Context, name string, wasm []byte, u Upload) (*shadow, error) {
	memory := MemoryConfig{Name: fmt.Sprintf("one part in %d of plugins.memory, for the shadow", shadowMemory)}
	if limit := s.o.Memory.Stats().Limit; limit > 0 {
		memory.Bytes = min(limit, max(limit/shadowMemory, shadowLeast))
	}
	apart, err := Open(ctx, Options{Builtin: s.o.Builtin, Vocabulary: s.o.Vocabulary, Model: s.o.Model,
		CacheDir: s.o.CacheDir, CacheBytes: s.o.CacheBytes, Compile: s.o.Compile, MaxInstances: shadowInstances,
		Governor: s.o.Governor.Apart(), Memory: NewMemory(memory), Logs: s.o.Logs,
		Log: s.log.With("shadow", true), apart: true})
	if err != nil {
		return nil, err
	}
	w := &shadow{serving: s, apart: apart, name: name, live: map[*follower]struct{}{}}
	always := u.Apply == ApplyAlways
	u.Apply, u.OnError, u.Clients, u.Canary, u.Shadow = ApplyRequest, OnErrorFail, nil, false, false
	if _, err = apart.Put(ctx, name, wasm, u); err == nil {
		w.v = apart.names[name].current
		err = w.check(always)
	}
	if err != nil {
		apart.Close()
		return nil, err
	}
	return w, nil
}

// check returns why the version can be no shadow, whatever serves.
func (w *shadow) check(always bool) error {
	if w.v.serves(abi.KindProgram) {
		return fmt.Errorf("%w: a program writes the text itself, so it has no shadow; try %s as a canary", ErrSpec, w.name)
	}
	if always && w.v.refusalText != "" {
		return fmt.Errorf("%w: %s: apply is %q, but the plugin refuses a request without parameters: %s", ErrLoad,
			w.name, ApplyAlways, w.v.refusalText)
	}
	return nil
}

// checkBeside returns why the version can't be shown what the serving one is.
func (w *shadow) checkBeside(serving *version) error {
	a, b := serving.guest.Description(), w.v.guest.Description()
	differ := func(what string, old, fresh any) error {
		return fmt.Errorf("%w: %s is %v and was %v: a shadow is shown what the serving version is shown; try %s as a "+
			"canary", ErrSpec, what, fresh, old, w.name)
	}
	switch {
	case b.Candidates > a.Candidates:
		return differ("candidates", a.Candidates, b.Candidates)
	case a.Guard.Hold != b.Guard.Hold:
		return differ("hold of the guard", a.Guard.Hold, b.Guard.Hold)
	case a.Guard.Every != b.Guard.Every:
		return differ("every of the guard", a.Guard.Every, b.Guard.Every)
	case serving.serves(abi.KindGrammar) && a.Steps() != b.Steps():
		return differ("a grammar by steps", a.Steps(), b.Steps())
	}
	return nil
}

// follow begins a request. It is released by the caller, and by each follower.
func (w *shadow) follow(request string) *tally {
	if w == nil {
		return nil
	}
	t := &tally{shadow: w, request: request}
	t.open.Store(1)
	return t
}

// followers begins n sequences of the request; nil where there is no room for them.
func (t *tally) followers(n int) []*follower {
	if t == nil || t.gone.Load() {
		return nil
	}
	w := t.shadow
	w.mu.Lock()
	room := !w.ended && w.sequences+n <= shadowSequences
	if room {
		w.sequences += n
	}
	w.mu.Unlock()
	if !room {
		t.drop()
		return nil
	}
	t.open.Add(int64(n))
	list := make([]*follower, n)
	for i := range list {
		list[i] = &follower{t: t}
	}
	return list
}

// follower begins one sequence; nil where there is no room for it.
func (t *tally) follower() *follower {
	if list := t.followers(1); list != nil {
		return list[0]
	}
	return nil
}

// drop counts a request that there was no room for.
func (t *tally) drop() {
	t.gone.Store(true)
	if !t.dropped.Swap(true) {
		t.shadow.canary.dropped.Add(1)
	}
}

// leave follows a request no further, which is nobody's fault.
func (t *tally) leave() {
	if t != nil {
		t.left.Store(true)
		t.gone.Store(true)
	}
}

// release ends a reference. With the last one the request is counted.
func (t *tally) release() {
	if t == nil || t.open.Add(-1) > 0 {
		return
	}
	if t.known.Load() && !t.faulty.Load() && !t.dropped.Load() && !t.left.Load() {
		t.shadow.canary.finish()
	}
}

// show queues what the version is shown next, of so many bytes. Where there is no room the request is followed no
// further.
func (f *follower) show(bytes int, run func() error) {
	if f == nil || f.t.gone.Load() {
		return
	}
	if !f.t.shadow.submit(shadowCall{f, int64(bytes), run}, false) {
		f.t.drop()
	}
}

// room reports whether so many bytes would be queued. Where not the request is followed no further.
func (f *follower) room(bytes int) bool {
	if f == nil || f.t.gone.Load() {
		return false
	}
	w := f.t.shadow
	w.mu.Lock()
	fits := !w.ended && w.bytes+int64(bytes) <= shadowBytes
	w.mu.Unlock()
	if !fits {
		f.t.drop()
	}
	return fits
}

// close says that the sequence has ended. It is the last call.
func (f *follower) close() {
	if f != nil {
		f.t.shadow.submit(shadowCall{f: f}, true)
	}
}

// leave follows the request no further, since the serving version failed or its client left.
func (f *follower) leave() {
	if f != nil {
		f.t.leave()
	}
}

// submit queues a call, the end of a follower always.
func (w *shadow) submit(c shadowCall, always bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || !always && w.bytes+c.bytes > shadowBytes {
		return false
	}
	w.bytes += c.bytes
	w.queue = append(w.queue, c)
	w.start()
	return true
}

// start has a goroutine work on the queue, which Set.Close awaits. The lock is held.
func (w *shadow) start() {
	if !w.running {
		w.running = true
		w.serving.shadows.Go(w.work)
	}
}

// work shows what is queued until there is nothing more.
func (w *shadow) work() {
	for {
		c, over := w.next()
		switch {
		case over:
			w.close()
			return
		case c.f == nil:
			return
		case c.run == nil:
			w.give(c.f)
		case !c.f.t.gone.Load():
			w.live[c.f] = struct{}{}
			w.v.guest.Await(w.apart.life.Done())
			w.count(c.f, c.run())
		}
	}
}

// next takes a call out of the queue: none where it is empty. over says that the shadow has ended.
func (w *shadow) next() (c shadowCall, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		w.queue, w.bytes = nil, 0
		return c, true
	}
	if len(w.queue) == 0 {
		w.queue, w.running = nil, false
		return c, false
	}
	c = w.queue[0]
	w.queue[0] = shadowCall{}
	w.queue = w.queue[1:]
	w.bytes -= c.bytes
	return c, false
}

// count counts what came of a call.
func (w *shadow) count(f *follower, err error) {
	t := f.t
	switch {
	case err == nil:
	case errors.Is(err, errLeft):
		t.gone.Store(true)
	case w.apart.life.Err() != nil, errors.Is(err, sandbox.ErrCancelled), errors.Is(err, ErrClosed):
		t.leave()
	case errors.Is(err, errRoom), errors.Is(err, errNoFork), errors.Is(err, ErrBusy), errors.Is(err, sandbox.ErrBusy):
		t.drop()
	default:
		t.gone.Store(true)
		if !t.faulty.Swap(true) && w.canary.fault(err.Error()) {
			w.serving.aborted(w.name, w.v, w.canary)
		}
	}
}

// give frees what a follower has.
func (w *shadow) give(f *follower) {
	delete(w.live, f)
	if f.end != nil {
		f.end()
	}
	w.mu.Lock()
	w.sequences--
	w.mu.Unlock()
	f.t.release()
}

// close frees everything.
func (w *shadow) close() {
	for f := range w.live {
		f.t.leave()
		if f.end != nil {
			f.end()
		}
	}
	w.live = nil
	w.apart.Close()
}

// stop ends the shadow: calls that run are cancelled, and nothing is shown any more. Set.Close awaits the rest.
func (w *shadow) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		w.apart.close(ErrClosed)
		w.start()
	}
}

// compare counts an answer of the new version; tell says how it differs from that of the serving one, "" where it does
// not, and of what texts.
func (f *follower) compare(kind string, step int, tell func() (what, texts string)) {
	f.t.known.Store(true)
	f.t.shadow.canary.answers.Add(1)
	if what, texts := tell(); what != "" {
		f.differ(kind, step, what, texts)
	}
}

// differ counts a different answer. The first of a request is kept.
func (f *follower) differ(kind string, step int, what, texts string) {
	w := f.t.shadow
	f.t.known.Store(true)
	w.canary.differing.Add(1)
	if f.t.different.Swap(true) {
		return
	}
	d := Difference{Time: time.Now(), Request: f.t.request, Kind: kind, Step: step, What: what, Texts: texts}
	if w.canary.differ(d) {
		w.serving.aborted(w.name, w.v, w.canary)
	}
}

// refused says that the version does not take what the serving one took; other errors are as they are.
func (f *follower) refused(kind string, err error) error {
	if errors.Is(err, ErrParams) {
		f.differ(kind, noStep, "refuses what the serving version takes", err.Error())
		return errLeft
	}
	return err
}

// copyRow copies a row of logits; nil where there is no room for it.
func (f *follower) copyRow(x []float32) *[]float32 {
	if f == nil || !f.room(8*len(x)) { // what it becomes is copied too
		return nil
	}
	return f.t.shadow.rowOf(x)
}

// rowOf copies a row of logits.
func (w *shadow) rowOf(x []float32) *[]float32 {
	p, ok := w.rows.Get().(*[]float32)
	if !ok {
		p = new([]float32)
	}
	*p = append((*p)[:0], x...)
	return p
}

// freeRows gives rows back.
func (w *shadow) freeRows(list ...*[]float32) {
	for _, x := range list {
		w.rows.Put(x)
	}
}
