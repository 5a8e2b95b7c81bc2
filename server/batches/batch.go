package batches

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"os"
	"slices"
	"time"
)

// States of a batch.
const (
	Validating = "validating"
	Failed     = "failed"
	InProgress = "in_progress"
	Finalizing = "finalizing"
	Completed  = "completed"
	Expired    = "expired"
	Cancelling = "cancelling"
	Cancelled  = "cancelled"
)

// Batch describes a batch, as clients see it. Times are seconds since 1970.
type Batch struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Endpoint     string            `json:"endpoint"`
	Errors       *Errors           `json:"errors"`
	InputFile    string            `json:"input_file_id"`
	Window       string            `json:"completion_window"`
	Status       string            `json:"status"`
	OutputFile   *string           `json:"output_file_id"`
	ErrorFile    *string           `json:"error_file_id"`
	CreatedAt    int64             `json:"created_at"`
	InProgressAt *int64            `json:"in_progress_at"`
	ExpiresAt    int64             `json:"expires_at"`
	FinalizingAt *int64            `json:"finalizing_at"`
	CompletedAt  *int64            `json:"completed_at"`
	FailedAt     *int64            `json:"failed_at"`
	ExpiredAt    *int64            `json:"expired_at"`
	CancellingAt *int64            `json:"cancelling_at"`
	CancelledAt  *int64            `json:"cancelled_at"`
	Counts       Counts            `json:"request_counts"`
	Metadata     map[string]string `json:"metadata"`

	// The rest is not for clients: how long the output is kept, and what a batch becomes that is finalizing.
	OutputSeconds int64  `json:"output_seconds,omitempty"`
	Final         string `json:"final,omitempty"`
}

// Errors are what is wrong with a batch.
type Errors struct {
	Object string      `json:"object"`
	Data   []lineError `json:"data"`
}

// Counts are those of a batch's requests.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// over reports whether nothing more happens to the batch.
func (b *Batch) over() bool {
	return slices.Contains([]string{Failed, Completed, Expired, Cancelled}, b.Status)
}

// endedAt returns when the batch was over.
func (b *Batch) endedAt() int64 {
	for _, at := range []*int64{b.FailedAt, b.CompletedAt, b.ExpiredAt, b.CancelledAt} {
		if at != nil {
			return *at
		}
	}
	return b.CreatedAt
}

// outputID and errorID are the ids of the files that a batch writes: always the same, so that a batch which is
// finalized twice has one of each.
func (b *Batch) outputID() string { return b.derived("output") }
func (b *Batch) errorID() string  { return b.derived("error") }

func (b *Batch) derived(what string) string {
	sum := sha256.Sum256([]byte(b.ID + "/" + what))
	return "file-" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

// end gives the batch a last state.
func (b *Batch) end(status string, now int64) {
	b.Status, b.Final = status, ""
	switch status {
	case Completed:
		b.CompletedAt = &now
	case Failed:
		b.FailedAt = &now
	case Expired:
		b.ExpiredAt = &now
	case Cancelled:
		b.CancelledAt = &now
	}
}

// shown is a copy of the batch for clients.
func (b *Batch) shown() Batch {
	out := *b
	out.OutputSeconds, out.Final = 0, ""
	return out
}

// Spec is a batch that is asked for.
type Spec struct {
	Endpoint, InputFile, Window string
	// Time is that of the window.
	Time     time.Duration
	Metadata map[string]string
	// Keep is how long the output is kept; 0 leaves it to the store's limits.
	Keep time.Duration
}

// Create begins a batch of an owner.
func (s *Store) Create(ownerName string, spec Spec) (Batch, error) {
	o := s.holdWriting(ownerName)
	if o == nil {
		return Batch{}, fmt.Errorf("%w: no such file: %.64q", ErrNotFound, spec.InputFile)
	}
	defer o.writing.Unlock()
	b, err := s.admit(o, spec)
	if err != nil {
		return Batch{}, err
	}
	defer s.work.Done()
	err = s.write(o.name, b.ID, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.making = nil; err != nil {
		s.charge(o, -entryBytes)
		return Batch{}, err
	}
	o.batches[b.ID] = b
	s.startWork(o)
	return b.shown(), nil
}

// holdWriting locks the writing of an owner, who is nil if there is none.
func (s *Store) holdWriting(ownerName string) *owner {
	s.mu.Lock()
	o := s.owners[ownerName]
	s.mu.Unlock()
	if o != nil {
		o.writing.Lock()
	}
	return o
}

// admit makes a batch and takes room for it, or says why the owner can't have it. The owner's writing is held, and
// work has one more, so that Close waits until the batch is written.
func (s *Store) admit(o *owner, spec Spec) (*Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	input := o.files[spec.InputFile]
	switch {
	case s.closed:
		return nil, ErrStopping
	case input == nil:
		return nil, fmt.Errorf("%w: no such file: %.64q", ErrNotFound, spec.InputFile)
	case input.Purpose != PurposeBatch:
		return nil, fmt.Errorf("%w: the purpose of the input file must be `batch`, it is `%s`", ErrInvalid,
			input.Purpose)
	}
	if err := s.room(o.used, entryBytes); err != nil {
		return nil, err
	}
	going := 0
	for _, b := range o.batches {
		if !b.over() {
			going++
		}
	}
	if going >= s.limits.MaxBatches {
		return nil, fmt.Errorf("%w: a key may have %d batches that are not over (batches.max_batches)", ErrQuota,
			s.limits.MaxBatches)
	}
	now := time.Now()
	o.making = &Batch{ID: newID("batch_"), Object: "batch", Endpoint: spec.Endpoint, InputFile: spec.InputFile,
		Window: spec.Window, Status: Validating, CreatedAt: now.Unix(), ExpiresAt: now.Add(spec.Time).Unix(),
		Metadata: spec.Metadata, OutputSeconds: int64(spec.Keep.Seconds())}
	s.charge(o, entryBytes)
	s.work.Add(1)
	return o.making, nil
}

// Batch returns one of an owner's batches.
func (s *Store) Batch(ownerName, id string) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[ownerName]; o != nil && o.batches[id] != nil {
		return o.batches[id].shown(), nil
	}
	return Batch{}, fmt.Errorf("%w: no such batch: %.64q", ErrNotFound, id)
}

// Batches returns a page of an owner's batches, the newest first.
func (s *Store) Batches(ownerName, after string, limit int) (list []Batch, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[ownerName]; o != nil {
		for _, b := range o.batches {
			list = append(list, b.shown())
		}
	}
	slices.SortFunc(list, func(a, b Batch) int {
		return -cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return page(list, func(b Batch) string { return b.ID }, after, limit)
}

// Cancel ends a batch: what was answered is kept, what is being answered is broken off.
func (s *Store) Cancel(ownerName, id string) (Batch, error) {
	missing := fmt.Errorf("%w: no such batch: %.64q", ErrNotFound, id)
	o := s.holdWriting(ownerName)
	if o == nil {
		return Batch{}, missing
	}
	defer o.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := o.batches[id]
	switch {
	case b == nil:
		return Batch{}, missing
	case b.Status == Cancelling: // twice is once
		return b.shown(), nil
	case b.over() || b.Status == Finalizing:
		return Batch{}, fmt.Errorf("%w: a batch that is %s cannot be cancelled", ErrConflict, b.Status)
	case s.closed:
		return Batch{}, ErrStopping
	}
	s.work.Add(1)
	defer s.work.Done()
	now := time.Now().Unix()
	cancel := func(b *Batch) { b.Status, b.CancellingAt = Cancelling, &now }
	_ = s.save(o, b, cancel) // the log has it
	cancel(b)
	if o.running != nil && o.running.batch == b {
		o.running.cancel(errCancelled)
	}
	return b.shown(), nil
}

// next returns the oldest batch that is not over, nil if there is none. mu is held.
func (o *owner) next() (first *Batch) {
	for _, b := range o.batches {
		if !b.over() && (first == nil || cmp.Or(cmp.Compare(b.CreatedAt, first.CreatedAt),
			cmp.Compare(b.ID, first.ID)) < 0) {
			first = b
		}
	}
	return first
}

// update changes a batch and its description. A description that can't be written is written with the next change.
func (s *Store) update(o *owner, b *Batch, change func(*Batch)) {
	o.writing.Lock()
	defer o.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.save(o, b, change) // the log has it
	change(b)
}

// commit changes a batch if that can be written.
func (s *Store) commit(o *owner, b *Batch, change func(*Batch)) error {
	o.writing.Lock()
	defer o.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.save(o, b, change)
	if err == nil {
		change(b)
	}
	return err
}

// save writes a batch as it is after a change, which the caller makes then: so nobody sees, and builds on, what a loss
// of power would undo. The owner's writing is held, and mu, which save lets go meanwhile.
func (s *Store) save(o *owner, b *Batch, change func(*Batch)) error {
	after := *b
	change(&after)
	s.mu.Unlock()
	err := s.write(o.name, b.ID, &after)
	s.mu.Lock()
	if err != nil {
		s.log.Error("batches: a state can't be written", "batch", b.ID, "error", err)
	}
	return err
}

// forget removes the journal of a batch that is over.
func (s *Store) forget(o *owner, b *Batch) { _ = os.Remove(s.path(o.name, b.ID+journalExt)) }
