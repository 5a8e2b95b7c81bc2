package engine

import (
	"context"
	"sync"
	"time"

	"tgi/runtime/kv"
	"tgi/runtime/kvdisk"
	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// Disk is where an engine keeps the prompts that it computed.
type Disk struct {
	// Space holds the blocks of this model. Its folder is closed after the engine.
	Space *kvdisk.Space
	// Blocks reads and writes the model's cache.
	Blocks BlockIO
}

// BlockIO copies cache blocks of a model. The step goroutine calls it, between two steps.
type BlockIO interface {
	// ReadBlock copies a block to memory of Space.BlockBytes, WriteBlock back.
	ReadBlock(block int32, to []byte) error
	WriteBlock(block int32, from []byte) error
}

const (
	// copyTime is how long a step copies blocks from and to the disk's memory at most, while sequences run.
	copyTime = 2 * time.Millisecond
	// maxLoads bounds the prompts that are loaded at once; further ones are computed.
	maxLoads = 4
	// loadMemory bounds the blocks of a load that were read and are not copied yet.
	loadMemory = 4
	// A load may take as long as computing would. Where that is not known, a token counts as unknownToken. Beyond
	// longestLoad it ends in any case.
	unknownToken = time.Millisecond
	longestLoad  = 10 * time.Second
	// flushTime is how long the end of an engine waits for prompts that are not on disk yet.
	flushTime = 3 * time.Second
)

// disk moves blocks between the cache and a Disk. Only the step goroutine uses it, but for load.
type disk struct {
	Disk
	loads []*load
	dirty []kv.Block // of prompts that were computed, to be kept
	end   sync.WaitGroup
}

// load is a prompt whose first blocks are being read. Its request waits for it.
type load struct {
	job    *job
	blocks []kv.Block
	until  time.Time
	wake   *time.Timer // at until
	stop   context.CancelFunc
	memory chan []byte

	mu      sync.Mutex
	arrived []arrival
	read    bool // no more will arrive
}

// arrival is a block that was read.
type arrival struct {
	block kv.Block
	data  []byte
}

// slots counts the sequences that wait for a load.
func (d *disk) slots() (n int) {
	for _, l := range d.loads {
		n += l.job.stream.live
	}
	return n
}

// matchDisk notes which blocks a request's prompt has, and which of them may be on disk. It runs in the goroutine of
// Submit.
func (e *Engine) matchDisk(j *job, scored bool) {
	if e.disk.Space == nil {
		return
	}
	chain := e.sched.Chain(sched.Job{Prompt: j.prompt, Salt: j.salt, Embeddings: j.embeddings})
	j.stream.chain = chain
	if !scored { // scored prompts are computed anew
		j.kept = chain[:e.disk.Space.Match(chain)]
	}
}

// load starts reading what the cache lacks of a request's prompt, and reports whether the request has to wait for it.
func (e *Engine) load(j *job) bool {
	blocks := j.kept
	for len(blocks) > 0 {
		if _, ok := e.sched.Lookup(blocks[0].Key); !ok {
			break
		}
		blocks = blocks[1:]
	}
	blocks = blocks[:min(len(blocks), e.sched.Room())]
	if len(blocks) == 0 || len(e.disk.loads) >= maxLoads {
		return false
	}
	token := unknownToken
	if s := e.pace.perToken(); s > 0 {
		token = time.Duration(s * float64(time.Second))
	}
	most := min(time.Duration(len(blocks)*e.shape.BlockSize)*token, longestLoad)
	if e.disk.Space.Expect(len(blocks)) > most {
		return false // computing is faster
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &load{job: j, blocks: blocks, until: time.Now().Add(most), wake: time.AfterFunc(most, e.signal), stop: stop,
		memory: make(chan []byte, loadMemory)}
	for range min(loadMemory, len(blocks)) {
		l.memory <- make([]byte, e.disk.Space.BlockBytes())
	}
	e.sched.Refresh(j.kept) // the cache has the beginning, and Import evicts the least recently used
	e.disk.loads = append(e.disk.loads, l)
	e.disk.end.Go(func() { e.read(ctx, l) })
	return true
}

// read reads the blocks of a load in a goroutine of its own.
func (e *Engine) read(ctx context.Context, l *load) {
	e.disk.Space.Load(l.blocks, func() []byte {
		select {
		case b := <-l.memory:
			return b
		case <-ctx.Done():
			return nil
		}
	}, func(i int, data []byte) bool {
		l.mu.Lock()
		l.arrived = append(l.arrived, arrival{l.blocks[i], data})
		l.mu.Unlock()
		e.signal()
		return ctx.Err() == nil
	})
	l.mu.Lock()
	l.read = true
	l.mu.Unlock()
	e.signal()
}

// take returns the next block that was read, if there is one, and whether no more will come.
func (l *load) take() (a arrival, ok, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.arrived) == 0 {
		return a, false, l.read
	}
	a = l.arrived[0]
	l.arrived = l.arrived[1:]
	return a, true, false
}

// exchange copies what was read into the cache, hands the requests whose loads are over to the scheduler, and copies
// what is to be kept out of the cache. It reports whether there is more to do at once.
func (e *Engine) exchange() (more bool) {
	if e.disk.Space == nil {
		return false
	}
	until := time.Now().Add(copyTime)
	for i := 0; i < len(e.disk.loads); {
		l := e.disk.loads[i]
		if !e.takeIn(l, until) {
			i++
			continue
		}
		e.disk.drop(i)
		if l.job.stream.live > 0 { // it was not aborted
			e.add(l.job)
		}
	}
	return e.keepDirty(until)
}

// takeIn copies what a load has read into the cache and reports whether the load is over.
func (e *Engine) takeIn(l *load, until time.Time) bool {
	for {
		now := time.Now()
		if !now.Before(l.until) {
			return true
		}
		a, ok, over := l.take()
		if !ok {
			return over
		}
		done, err := e.sched.Import(a.block, func(block int32) error {
			return e.disk.Blocks.WriteBlock(block, a.data)
		})
		if !done || err != nil { // no room, or a model that is closed
			return true
		}
		l.memory <- a.data
		if now.After(until) {
			e.signal() // the rest after this step
			return false
		}
	}
}

// drop ends a load.
func (d *disk) drop(i int) {
	l := d.loads[i]
	l.stop()
	l.wake.Stop()
	d.loads = append(d.loads[:i:i], d.loads[i+1:]...)
}

// stopLoad ends the load of a request that is aborted.
func (e *Engine) stopLoad(st *Stream) {
	for i, l := range e.disk.loads {
		if l.job.stream == st {
			e.disk.drop(i)
			return
		}
	}
}

// failLoads aborts the requests that wait for loads.
func (e *Engine) failLoads(err error) {
	for len(e.disk.loads) > 0 {
		e.abort(e.disk.loads[0].job.stream, err)
	}
}

// keepPrompt notes that a request's prompt is computed.
func (e *Engine) keepPrompt(st *Stream) {
	chain := st.chain
	if st.chain = nil; len(chain) == 0 {
		return
	}
	e.disk.dirty = append(e.disk.dirty, chain...)
	if over := len(e.disk.dirty) - e.shape.Blocks; over > 0 { // those of the first are no longer in the cache
		e.disk.Space.Drop(over)
		e.disk.dirty = e.disk.dirty[over:]
	}
}

// keepDirty hands blocks that are not on disk to the writer, as far as that has memory, and reports whether it is only
// for the time that it stopped.
func (e *Engine) keepDirty(until time.Time) (more bool) {
	for len(e.disk.dirty) > 0 {
		b := e.disk.dirty[0]
		if !e.disk.Space.Has(b.Key) {
			if time.Now().After(until) {
				return true
			}
			if at, ok := e.sched.Lookup(b.Key); !ok {
				e.disk.Space.Drop(1)
			} else if data := e.disk.Space.Buffer(); data == nil {
				return false // the writer signals
			} else if err := e.disk.Blocks.ReadBlock(at, data); err != nil {
				e.disk.Space.Release(data)
			} else {
				e.disk.Space.Keep(b, data)
			}
		}
		e.disk.dirty = e.disk.dirty[1:]
	}
	e.disk.dirty = nil
	return false
}

// flushDisk ends what reads, and waits a while for what is to be kept. An engine that something is wrong with keeps
// nothing more: its blocks may hold what they should not.
func (e *Engine) flushDisk(why error) {
	if e.disk.Space == nil {
		return
	}
	if why != llm.ErrClosed { // which says more
		e.disk.dirty = nil
	}
	until := time.NewTimer(flushTime)
	defer until.Stop()
	for e.keepDirty(time.Now().Add(copyTime)) || len(e.disk.dirty) > 0 {
		select {
		case <-e.wake:
		case <-time.After(time.Millisecond):
		case <-until.C:
			e.disk.dirty = nil
		}
	}
	e.disk.Space.Notify(nil)
	e.disk.end.Wait()
}
