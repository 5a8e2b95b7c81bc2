package batches

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// finishRetry is when files that could not be written are written again.
var finishRetry = 30 * time.Second

// finish writes the files of a batch and gives it its last state. While the disk can't be written it tries again, until
// the store is closed; a batch whose input or journal is not whole fails.
func (r *run) finish(final string) {
	s, now := r.store, time.Now().Unix()
	s.update(r.owner, r.batch, func(b *Batch) {
		b.Final = final
		b.Counts = Counts{r.total, r.journal.completed, r.journal.failed}
		if final != Cancelled { // which is Cancelling by now
			b.Status = Finalizing
			b.FinalizingAt = cmp.Or(b.FinalizingAt, &now)
		}
	})
	for {
		output, failures, err := r.writeFiles(final == Expired)
		if err == nil {
			now := time.Now().Unix()
			err = s.commit(r.owner, r.batch, func(b *Batch) {
				b.OutputFile, b.ErrorFile = output, failures
				if final == Expired {
					b.Counts.Failed = b.Counts.Total - b.Counts.Completed
				}
				b.end(final, now)
			})
		}
		if err == nil {
			s.forget(r.owner, r.batch)
			return
		}
		if errors.Is(err, errDamaged) {
			r.fail(err)
			return
		}
		s.log.Error("batches: the files of a batch can't be written; trying again", "batch", r.batch.ID, "error", err)
		select {
		case <-time.After(finishRetry):
		case <-s.done:
			return
		}
	}
}

// output is a file of results that is being written.
type output struct {
	file  *os.File
	w     *bufio.Writer
	bytes int64
}

func (o *output) add(text []byte) error {
	o.bytes += int64(len(text)) + 1
	if _, err := o.w.Write(text); err != nil {
		return err
	}
	return o.w.WriteByte('\n')
}

// writeFiles writes the output and the error file in the order of the input, and returns their ids: nil for one that
// would be empty. expired says that requests without a record are among the errors.
func (r *run) writeFiles(expired bool) (good, bad *string, err error) {
	outputs := map[bool]*output{}
	ids := map[bool]string{true: r.batch.outputID(), false: r.batch.errorID()}
	for ok, id := range ids {
		f, err := os.OpenFile(r.store.path(r.owner.name, id+tempExt), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, disk(err)
		}
		defer func() {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}()
		outputs[ok] = &output{file: f, w: bufio.NewWriter(f)}
	}
	if err := r.copyResults(outputs, expired); err != nil {
		return nil, nil, disk(err)
	}
	for ok, o := range outputs {
		if err := o.w.Flush(); err != nil {
			return nil, nil, disk(err)
		}
		if o.bytes == 0 {
			continue
		}
		if err := r.publish(ids[ok], o); err != nil {
			return nil, nil, err
		}
		if id := ids[ok]; ok {
			good = &id
		} else {
			bad = &id
		}
	}
	return good, bad, nil
}

// copyResults copies the results into the outputs.
func (r *run) copyResults(outputs map[bool]*output, expired bool) error {
	l, file, err := r.open()
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		one, bad, err := l.next()
		switch {
		case errors.Is(err, io.EOF) && l.index != r.total:
			return fmt.Errorf("%w: the input had %d requests and has %d", errDamaged, r.total, l.index)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case bad != nil:
			continue
		}
		if one.index < r.total && r.journal.has(one.index) {
			text, ok, err := r.journal.result(one.index)
			if err != nil {
				return err
			}
			if err := outputs[ok].add(text); err != nil {
				return err
			}
			continue
		}
		if !expired {
			continue
		}
		res := result{ID: newID("batch_req_"), Custom: one.custom, Error: &resultError{"batch_expired",
			"This request could not be executed before the completion window expired."}}
		if err := outputs[false].add(res.encode()); err != nil {
			return err
		}
	}
}

// publish makes an output one of the owner's files.
func (r *run) publish(id string, o *output) error {
	s, now := r.store, time.Now()
	keep := cmp.Or(time.Duration(r.batch.OutputSeconds)*time.Second, s.limits.Keep)
	end := now.Add(keep).Unix()
	name := r.batch.ID + "_output.jsonl"
	if id == r.batch.errorID() {
		name = r.batch.ID + "_error.jsonl"
	}
	f := &File{ID: id, Object: "file", Bytes: o.bytes, CreatedAt: now.Unix(), ExpiresAt: &end, Name: name,
		Purpose: PurposeOutput, Status: "processed"}
	if err := s.publish(r.owner, o.file, f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := r.owner.files[id]; before != nil { // of an attempt that was broken off
		s.charge(r.owner, -before.Bytes-entryBytes)
	}
	r.owner.files[id] = f
	s.charge(r.owner, f.Bytes+entryBytes)
	return nil
}
