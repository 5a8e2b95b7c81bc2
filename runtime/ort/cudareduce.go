package ort

import (
	"errors"
	"fmt"
	"unsafe"

	"tgi/runtime/cuda"
	"tgi/runtime/llm"
	"tgi/runtime/reduce"
)

// Rows of logits are reduced on the device, by a kernel of our own, to what a pick needs: see package reduce and
// engine.Reducer.

// reducer is a model's kernel and what it reads and writes.
type reducer struct {
	kernel  *cuda.Kernel // nil where the device does not take it
	refused error        // why
	step    *stepMem     // that holds the last step's logits
	rows    int          // of them
	words   []uint32     // of the request
	request mirror
	answers mirror
	scratch *deviceMem
	whole   *pinnedMem // rows that were asked for
	read    reduce.Answers
}

// openReducer loads the kernel. A device that refuses it gives whole rows to the host.
func (m *CUDA) openReducer() error {
	r := &m.reducer
	if m.o.Vocab > reduce.MaxVocab {
		r.refused = fmt.Errorf("the vocabulary has %d tokens, more than %d", m.o.Vocab, reduce.MaxVocab)
		return nil
	}
	if r.kernel, r.refused = cuda.LoadKernel(m.o.Device, reduce.Kernel, reduce.KernelName); r.refused != nil {
		return nil
	}
	return r.reserve(m, m.o.StepRows) // before the cache takes what is free
}

// reserve makes room for so many processed rows.
func (r *reducer) reserve(m *CUDA, rows int) (err error) {
	bytes := max(rows, 1) * m.o.Vocab * float32s.size()
	if r.scratch != nil {
		if bytes <= r.scratch.bytes {
			return nil
		}
		r.scratch.free()
	}
	r.scratch, err = newDeviceMem(m.o.Device, bytes)
	return err
}

func (r *reducer) free() {
	if r.kernel != nil {
		_ = r.kernel.Close() // fails where the device does
		r.kernel = nil
	}
	r.request.free()
	r.answers.free()
	if r.scratch != nil {
		r.scratch.free()
	}
	if r.whole != nil {
		r.whole.free()
	}
}

// Reduces returns nil if Compute and Fetch can be used instead of Forward, or why the device's driver does not take the
// kernel.
func (m *CUDA) Reduces() error { return m.reducer.refused }

// Compute asks the device for a step, whose logits stay there until the next. Errors are those of Forward; those of the
// device may come from Fetch, which must follow.
func (m *CUDA) Compute(s *llm.Step) (err error) {
	err = m.do(s, func() error {
		m.reducer.rows = 0
		mem, err := m.launch(s)
		if err != nil {
			return err
		}
		m.reducer.step, m.reducer.rows = mem, len(s.LogitRows)
		return nil
	})
	if err != nil {
		m.adapters.ended()
	}
	return err
}

// Fetch waits for the step of the last Compute and returns the logits of the given rows of its LogitRows, and the
// answers to list. They are valid until the next Fetch, Compute or Close. Errors are those of Forward.
func (m *CUDA) Fetch(rows []int, list []llm.Reduction) (logits []float32, answers []llm.Reduced, err error) {
	defer m.adapters.ended()
	if err := m.usable(); err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		if uint(row) >= uint(m.reducer.rows) {
			return nil, nil, fmt.Errorf("%w: BUG: row %d of %d", llm.ErrBackend, row, m.reducer.rows)
		}
	}
	for i := range list {
		if uint(list[i].Row) >= uint(m.reducer.rows) || m.reducer.kernel == nil {
			return nil, nil, fmt.Errorf("%w: BUG: reduction of row %d of %d", llm.ErrBackend, list[i].Row,
				m.reducer.rows)
		}
	}
	recording.RLock()
	defer recording.RUnlock()
	m.thread.do(func() {
		if logits, answers, err = m.reducer.fetch(m, rows, list); err != nil {
			err = m.failed(err)
		}
	})
	return logits, answers, err
}

// fetch asks for everything at once and waits once.
func (r *reducer) fetch(m *CUDA, rows []int, list []llm.Reduction) ([]float32, []llm.Reduced, error) {
	m.counts.whole.Add(int64(len(rows)))
	m.counts.reduced.Add(int64(len(list)))
	if len(list) > 0 {
		if err := r.launch(m, list); err != nil {
			return nil, nil, err
		}
	}
	if err := r.copyRows(m, rows); err != nil {
		return nil, nil, err
	}
	if err := m.stream.Synchronize(); err != nil {
		return nil, nil, err
	}
	var logits []float32
	if len(rows) > 0 {
		logits = unsafe.Slice((*float32)(r.whole.at), len(rows)*m.o.Vocab)
	}
	var answers []llm.Reduced
	if len(list) > 0 {
		answers = r.read.Read(unsafe.Slice((*byte)(r.answers.host.at), len(list)*reduce.AnswerBytes))
	}
	return logits, answers, nil
}

// launch copies the questions to the device, runs the kernel and asks for the answers.
func (r *reducer) launch(m *CUDA, list []llm.Reduction) error {
	var scratch int
	r.words, scratch = reduce.AppendRequest(r.words[:0], list, m.o.Vocab)
	request, answers := len(r.words)*int32s.size(), len(list)*reduce.AnswerBytes
	err := errors.Join(r.request.reserve(m.o.Device, request), r.answers.reserve(m.o.Device, answers),
		r.reserve(m, scratch))
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*uint32)(r.request.host.at), len(r.words)), r.words)
	if err := m.copyIn(r.request.device.at, r.request.host.at, request); err != nil {
		return err
	}
	address := func(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }
	err = r.kernel.Launch(m.stream, len(list), reduce.Threads, address(r.step.logits.device.at),
		address(r.request.device.at), address(r.scratch.at), address(r.answers.device.at), uint64(m.o.Vocab))
	if err != nil {
		return err
	}
	return m.copyOut(r.answers.host.at, r.answers.device.at, answers)
}

// copyRows asks for rows of logits, one copy for those that follow each other.
func (r *reducer) copyRows(m *CUDA, rows []int) (err error) {
	bytes := m.o.Vocab * float32s.size()
	if need := len(rows) * bytes; need > 0 && (r.whole == nil || r.whole.bytes < need) {
		if r.whole != nil {
			r.whole.free()
		}
		if r.whole, err = newPinnedMem(m.o.Device, need); err != nil {
			return err
		}
	}
	for i := 0; i < len(rows); {
		n := 1
		for i+n < len(rows) && rows[i+n] == rows[i]+n {
			n++
		}
		err := m.copyOut(unsafe.Add(r.whole.at, i*bytes), unsafe.Add(r.step.logits.device.at, rows[i]*bytes),
			n*bytes)
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}
