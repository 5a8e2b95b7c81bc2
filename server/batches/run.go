package batches

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"tgi/runtime/regular"
)

// Causes of the end of a run.
var (
	errCancelled = errors.New("cancelled")
	errExpired   = errors.New("expired")
	// errDamaged: what a batch reads is gone, or is not what was written. No other attempt finds it whole.
	errDamaged = errors.New("damaged")
)

// run is a batch that runs.
type run struct {
	store  *Store
	owner  *owner
	batch  *Batch
	cancel context.CancelCauseFunc
	total  int
	// lines has an entry for each line that is asked, or waits to be asked again.
	lines chan struct{}

	mu      sync.Mutex
	journal *journal
	charged int64
	synced  time.Time
	// notBefore is when lines may be asked, as a reply said that had no room for one.
	notBefore time.Time
}

// startWork has a goroutine run the batches of an owner. mu is held.
func (s *Store) startWork(o *owner) {
	if o.works || s.closed || o.next() == nil {
		return
	}
	o.works = true
	s.work.Go(func() {
		for {
			s.mu.Lock()
			b := o.next()
			if b == nil || s.closed {
				o.works = false
				s.mu.Unlock()
				return
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			r := &run{store: s, owner: o, batch: b, cancel: cancel, lines: make(chan struct{}, s.limits.Lines)}
			if o.running = r; b.Status == Cancelling {
				cancel(errCancelled)
			}
			s.mu.Unlock()
			r.all(ctx)
			cancel(nil)
			s.mu.Lock()
			o.running = nil
			over := b.over()
			o.works = over
			s.mu.Unlock()
			if !over { // the server shuts down
				return
			}
		}
	})
}

// all runs a batch to its end, or until the store is closed.
func (r *run) all(ctx context.Context) {
	s, b := r.store, r.batch
	// The time that is left is measured by a clock that cannot jump.
	left := time.Until(time.Unix(b.ExpiresAt, 0))
	left = min(left, time.Duration(b.ExpiresAt-b.CreatedAt)*time.Second)
	timer := time.AfterFunc(left, func() { r.cancel(errExpired) })
	defer timer.Stop()
	wrong, err := r.count(ctx)
	if err == nil && len(wrong) > 0 {
		now := time.Now().Unix()
		s.update(r.owner, b, func(b *Batch) {
			b.Errors = &Errors{"list", wrong}
			b.end(Failed, now)
		})
		s.forget(r.owner, b)
		return
	}
	if errors.Is(err, errCancelled) {
		now := time.Now().Unix()
		s.update(r.owner, b, func(b *Batch) { b.end(Cancelled, now) })
		s.forget(r.owner, b)
		return
	}
	if err == nil {
		r.journal, err = openJournal(s.path(r.owner.name, b.ID+journalExt), r.total)
	}
	if err != nil {
		if !s.stopping() {
			r.fail(err)
		}
		return
	}
	defer r.journal.file.Close()
	s.mu.Lock()
	r.charged = 2 * r.journal.size // that of the output, too
	s.charge(r.owner, r.charged)
	s.mu.Unlock()
	defer func() { s.give(r.owner, r.charged) }()
	final := b.Final
	if final == "" {
		if final = r.process(ctx); final == "" {
			return
		}
	}
	r.finish(final)
}

// mostErrors bounds how many wrong lines a batch tells.
const mostErrors = 100

// count counts the requests of the input and returns what is wrong with them. It fails with errCancelled for a batch
// that was cancelled before anything was answered: the rest of the input is of no use then.
func (r *run) count(ctx context.Context) (wrong []lineError, err error) {
	kept, err := os.Stat(r.store.path(r.owner.name, r.batch.ID+journalExt))
	answered := err == nil && kept.Size() > 0
	l, file, err := r.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	seen := map[[16]byte]bool{}
	add := func(e *lineError) {
		if len(wrong) < mostErrors {
			wrong = append(wrong, *e)
		}
	}
	// look looks at the next request, and reports whether there is another behind it.
	look := func() (more bool, err error) {
		one, bad, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			if r.total = l.index; r.total == 0 && len(wrong) == 0 {
				add(&lineError{Code: "empty_file", Message: "the input file has no requests"})
			}
			return false, nil
		case err != nil:
			return false, err
		case r.store.stopping():
			return false, ErrStopping
		case !answered && errors.Is(context.Cause(ctx), errCancelled):
			return false, errCancelled
		case bad != nil:
			add(bad)
			return true, nil
		case one.index >= r.store.limits.MaxLines:
			add(l.wrong("too_many_requests", "", "a batch may have %d requests (batches.max_requests)",
				r.store.limits.MaxLines))
			return false, nil
		}
		sum := sha256.Sum256([]byte(one.custom))
		if id := [16]byte(sum[:16]); seen[id] {
			add(l.wrong("duplicate_custom_id", "custom_id", "`custom_id` is there twice: %.64q", one.custom))
		} else {
			seen[id] = true
		}
		return true, nil
	}
	for more := true; more && err == nil; {
		r.store.inTurn(r.owner.name, func() {
			for from := l.bytes; more && err == nil && l.bytes-from < turnBytes; {
				more, err = look()
			}
		})
	}
	if err != nil {
		return nil, err
	}
	return wrong, nil
}

// turnBytes is about how much of an input is looked at in one turn.
const turnBytes = 16 << 10

// ShareProcessors has inTurn call what takes long when a processor is free for the owner.
func (s *Store) ShareProcessors(inTurn func(owner string, f func())) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = inTurn
}

// inTurn calls f when a processor is free for an owner.
func (s *Store) inTurn(owner string, f func()) {
	s.mu.Lock()
	turns := s.turns
	if s.mu.Unlock(); turns == nil {
		f()
		return
	}
	turns(owner, f)
}

// open opens the input.
func (r *run) open() (*lines, *os.File, error) {
	f, err := regular.Open(r.store.path(r.owner.name, r.batch.InputFile+dataExt), os.O_RDONLY|regular.NoLink)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, regular.ErrOther) {
		return nil, nil, fmt.Errorf("%w: the input is gone: %w", errDamaged, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return newLines(f, r.batch.Endpoint, r.store.limits.MaxLine), f, nil
}

// process answers the requests that have no record, and returns what becomes of the batch: "" when the store is closed.
func (r *run) process(ctx context.Context) (final string) {
	s := r.store
	now := time.Now().Unix()
	s.update(r.owner, r.batch, func(b *Batch) {
		if b.Status == Validating {
			b.Status, b.InProgressAt = InProgress, &now
		}
		b.Counts = Counts{r.total, r.journal.completed, r.journal.failed}
	})
	l, file, err := r.open()
	if err != nil {
		r.fail(err)
		return ""
	}
	defer file.Close()
	var answers sync.WaitGroup
	for ctx.Err() == nil {
		one, bad, err := l.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.cancel(err)
			}
			break
		}
		if bad != nil || r.has(one.index) {
			continue
		}
		select {
		case r.lines <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		if !r.enter(ctx, time.Time{}) {
			break
		}
		answers.Go(func() {
			defer func() { <-r.lines }()
			r.answer(ctx, one)
		})
	}
	answers.Wait()
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return Completed
	case errors.Is(cause, errCancelled):
		return Cancelled
	case errors.Is(cause, errExpired):
		return Expired
	case errors.Is(cause, ErrStopping):
		return ""
	default:
		r.note(cause)
		return Failed
	}
}

// note says why a batch has failed.
func (r *run) note(err error) {
	code, text := "server_error", "the batch could not go on: the log says why"
	switch {
	case errors.Is(err, ErrQuota):
		code, text = "storage_exceeded", err.Error()
	case errors.Is(err, ErrKeyGone):
		code, text = "key_removed", err.Error()
	}
	r.store.log.Error("batches: a batch has failed", "batch", r.batch.ID, "error", err)
	r.store.update(r.owner, r.batch, func(b *Batch) {
		b.Errors = &Errors{"list", []lineError{{Code: code, Message: text}}}
	})
}

// fail ends a batch that can't go on, nor write what it has.
func (r *run) fail(err error) {
	r.note(err)
	now := time.Now().Unix()
	r.store.update(r.owner, r.batch, func(b *Batch) { b.end(Failed, now) })
	r.store.forget(r.owner, r.batch)
}

// enter waits until lines may be asked, but at least until at, and takes a slot. It reports whether ctx did not end
// before.
func (r *run) enter(ctx context.Context, at time.Time) bool {
	for {
		r.mu.Lock()
		if r.notBefore.After(at) {
			at = r.notBefore
		}
		r.mu.Unlock()
		if wait := time.Until(at); wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return false
			}
		}
		if !r.store.enter(ctx) {
			return false
		}
		r.mu.Lock()
		early := time.Now().Before(r.notBefore)
		r.mu.Unlock()
		if !early {
			return true
		}
		r.store.leave() // another line was refused while this one waited
	}
}

// delay has no line of the batch asked before so long.
func (r *run) delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := time.Now().Add(d); at.After(r.notBefore) {
		r.notBefore = at
	}
}

// enter takes a slot, and reports whether ctx did not end before.
func (s *Store) enter(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Store) leave() { <-s.slots }

// Bounds of how long a line waits before it is asked again, if the reply does not say more.
const (
	leastRetry = 500 * time.Millisecond
	mostRetry  = 30 * time.Second
)

// answer has a request answered, again and again while the server has no room for it, and keeps the result. It has a
// slot but while it waits. What the reply says of when to ask again is for all lines: what one has no room for, such as
// the tokens of a day, the others have none for either. They wait as long as it says, or until the batch expires.
func (r *run) answer(ctx context.Context, one line) {
	s := r.store
	for wait := leastRetry; ; wait = min(2*wait, mostRetry) {
		reply, err := s.do(ctx, r.owner.name, r.batch.Endpoint, one.body)
		s.leave()
		switch {
		case err != nil && ctx.Err() != nil: // what was broken off has no result
			return
		case err != nil:
			r.cancel(err)
			return
		case reply.Status == http.StatusTooManyRequests && reply.RetryAfter > 0,
			reply.Status == http.StatusServiceUnavailable:
		default:
			if err := r.keep(one, reply); err != nil {
				r.cancel(err)
			}
			return
		}
		if reply.RetryAfter > 0 {
			r.delay(reply.RetryAfter)
		}
		if !r.enter(ctx, time.Now().Add(wait)) {
			return
		}
	}
}

// result is a line of an output or error file.
type result struct {
	ID       string       `json:"id"`
	Custom   string       `json:"custom_id"`
	Response *response    `json:"response"`
	Error    *resultError `json:"error"`
}

type response struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

type resultError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// encode returns a result as one line without its end.
func (r *result) encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		panic("BUG: batches: a result can't be encoded: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// keep appends the result of a request to the journal.
func (r *run) keep(one line, reply Reply) error {
	res := result{ID: newID("batch_req_"), Custom: one.custom,
		Response: &response{reply.Status, reply.RequestID, reply.Body}}
	if !json.Valid(reply.Body) {
		res.Response, res.Error = nil, &resultError{"server_error",
			fmt.Sprintf("the reply with status %d is not JSON, or has more than %d bytes", reply.Status,
				r.store.limits.MaxResult)}
	}
	text := res.encode()
	ok := res.Error == nil && reply.Status < 300
	more := 2 * int64(len(text)+recordBytes)
	if err := r.store.take(r.owner, more); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charged += more
	if err := r.journal.add(one.index, ok, text); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(r.synced) > time.Second { // what a loss of power takes is answered again
		r.synced = now
		_ = r.journal.file.Sync()
	}
	counts := Counts{r.total, r.journal.completed, r.journal.failed}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.batch.Counts = counts
	return nil
}

// recordBytes is about what a record has beside its result.
const recordBytes = 24

// has reports whether a request has a record, or can have none since it was not there when requests were counted: such
// an input is an error when the batch is finished.
func (r *run) has(index int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return index >= r.total || r.journal.has(index)
}
