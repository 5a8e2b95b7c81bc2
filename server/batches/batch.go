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
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[ownerName]
	switch {
	case s.closed:
		return Batch{}, ErrStopping
	case o == nil || o.files[spec.InputFile] == nil:
		return Batch{}, fmt.Errorf("%w: no such file: %.64q", ErrNotFound, spec.InputFile)
	case o.files[spec.InputFile].Purpose != PurposeBatch:
		return Batch{}, fmt.Errorf("%w: the purpose of the input file must be `batch`, it is `%s`", ErrInvalid,
			o.files[spec.InputFile].Purpose)
	case s.used+entryBytes > s.limits.Storage || o.used+entryBytes > s.limits.OwnerStorage:
		return Batch{}, fmt.Errorf("%w: files and batches have all that batches.storage and batches.key_storage allow",
			ErrQuota)
	}
	going := 0
	for _, b := range o.batches {
		if !b.over() {
			going++
		}
	}
	if going >= s.limits.MaxBatches {
		return Batch{}, fmt.Errorf("%w: a key may have %d batches that are not over (batches.max_batches)", ErrQuota,
			s.limits.MaxBatches)
	}
	now := time.Now()
	b := &Batch{ID: newID("batch_"), Object: "batch", Endpoint: spec.Endpoint, InputFile: spec.InputFile,
		Window: spec.Window, Status: Validating, CreatedAt: now.Unix(), ExpiresAt: now.Add(spec.Time).Unix(),
		Metadata: spec.Metadata, OutputSeconds: int64(spec.Keep.Seconds())}
	if err := s.write(ownerName, b.ID, b); err != nil {
		return Batch{}, err
	}
	s.charge(o, entryBytes)
	o.batches[b.ID] = b
	s.startWork(o)
	return b.shown(), nil
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
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[ownerName]
	if o == nil || o.batches[id] == nil {
		return Batch{}, fmt.Errorf("%w: no such batch: %.64q", ErrNotFound, id)
	}
	b := o.batches[id]
	switch {
	case b.Status == Cancelling: // twice is once
		return b.shown(), nil
	case b.over() || b.Status == Finalizing:
		return Batch{}, fmt.Errorf("%w: a batch that is %s cannot be cancelled", ErrConflict, b.Status)
	}
	now := time.Now().Unix()
	b.Status, b.CancellingAt = Cancelling, &now
	if err := s.write(o.name, b.ID, b); err != nil {
		s.log.Error("batches: a state can't be written", "batch", b.ID, "error", err)
	}
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
func (s *Store) update(o *owner, b *Batch, change func(*Batch)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(b)
	if err := s.write(o.name, b.ID, b); err != nil {
		s.log.Error("batches: a state can't be written", "batch", b.ID, "error", err)
		return err
	}
	return nil
}

// forget removes the journal of a batch that is over.
func (s *Store) forget(o *owner, b *Batch) { _ = os.Remove(s.path(o.name, b.ID+journalExt)) }
