package kvdisk

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"tgi/runtime/kv"
)

// Space holds the blocks of one model.
type Space struct {
	folder *Folder
	id     ID
	bytes  int // of a block

	mu       sync.Mutex
	free     [][]byte // memory for blocks
	made     int      // how many there are
	most     int
	notify   func()
	perBlock time.Duration // moving average of what reading one takes; 0: unknown
}

// bufferMemory bounds the memory of the blocks of a space that are on their way, in each direction.
const bufferMemory = 32 << 20

// saveAfter is how old the time of a file that is used may be.
const saveAfter = 10 * time.Minute

// Space returns the space of a name, for blocks of so many bytes.
func (f *Folder) Space(id ID, blockBytes int) *Space {
	return &Space{folder: f, id: id, bytes: blockBytes, most: min(max(bufferMemory/blockBytes, 2), 64)}
}

// BlockBytes returns the bytes of a block.
func (s *Space) BlockBytes() int { return s.bytes }

// Stats returns those of the folder, which all its spaces share.
func (s *Space) Stats() Stats { return s.folder.Stats() }

// Notify has call called whenever Buffer may have memory again. It must not wait.
func (s *Space) Notify(call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = call
}

// Has reports whether a block is there, or about to be written.
func (s *Space) Has(k kv.Key) bool {
	f := s.folder
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries[ref{s.id, k}] != nil || f.writing[ref{s.id, k}]
}

// Match returns how many of a chain's blocks, from the first, are there, and counts these as used.
func (s *Space) Match(chain []kv.Block) (n int) {
	f := s.folder
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(chain) && f.entries[ref{s.id, chain[n].Key}] != nil {
		n++
	}
	now := time.Now()
	for i := n - 1; i >= 0; i-- { // the first is the newest then
		k := ref{s.id, chain[i].Key}
		at := f.entries[k]
		f.lru.MoveToBack(at)
		e := at.Value.(*entry)
		if e.used = now; now.Sub(e.saved) > saveAfter {
			f.touched[k] = true
		}
	}
	return n
}

// Load reads blocks in order and hands the memory of each to got, which owns it then and says whether to go on. It ends
// at the first that cannot be read. buffer gives the memory, or nil to end.
//
// The blocks behind one that is damaged are forgotten with it: whoever computes that computes them, too, and writes
// them anew. Otherwise each that is damaged as well would be found at a start of its own.
func (s *Space) Load(blocks []kv.Block, buffer func() []byte, got func(i int, data []byte) bool) {
	for i, b := range blocks {
		data := buffer()
		if data == nil {
			return
		}
		begin := time.Now()
		ok, damaged := s.load(b, data)
		if damaged {
			s.folder.forget(s.id, blocks[i:])
		}
		if !ok || !got(i, data) {
			return
		}
		s.mu.Lock()
		if took := time.Since(begin); s.perBlock == 0 {
			s.perBlock = took
		} else {
			s.perBlock += (took - s.perBlock) / 8
		}
		s.mu.Unlock()
	}
}

// load reads one block. damaged says that there is a file, and that it is of no use.
func (s *Space) load(b kv.Block, data []byte) (ok, damaged bool) {
	f, k := s.folder, ref{s.id, b.Key}
	f.mu.Lock()
	at := f.entries[k]
	var path string
	if at != nil {
		path = f.path(at.Value.(*entry))
	}
	f.mu.Unlock()
	if at == nil {
		return false, false
	}
	err := read(path, s.id, b, data)
	switch {
	case err == nil:
		f.count(func(s *Stats) { s.Read++ })
		return true, false
	case errors.Is(err, errDamaged):
		f.count(func(s *Stats) { s.Damaged++ })
		return false, true
	case !errors.Is(err, fs.ErrNotExist): // else it was evicted meanwhile
		f.failed("reading", err)
	}
	f.forget(s.id, []kv.Block{b})
	return false, false
}

// Expect is how long reading so many blocks takes; 0 if that is not known.
func (s *Space) Expect(blocks int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(blocks) * s.perBlock
}

// Buffer returns memory for a block to keep, nil if so many are on their way that there is none.
func (s *Space) Buffer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b
	}
	if s.made == s.most {
		return nil
	}
	s.made++
	return make([]byte, s.bytes)
}

// Release gives memory of Buffer back.
func (s *Space) Release(b []byte) {
	s.mu.Lock()
	s.free = append(s.free, b)
	s.mu.Unlock()
}

// Keep has a block written, whose memory is of Buffer and belongs to the space from now on. It does not wait for the
// disk: while that is behind, the block is dropped.
func (s *Space) Keep(b kv.Block, data []byte) {
	if !s.folder.enqueue(job{s, b, data}) {
		s.Release(data)
	}
}

// Drop counts blocks that nobody could give to Keep in time.
func (s *Space) Drop(n int) { s.folder.count(func(st *Stats) { st.Dropped += int64(n) }) }

// written takes memory back when the writer is done with it.
func (s *Space) written(data []byte) {
	s.Release(data)
	s.mu.Lock()
	call := s.notify
	s.mu.Unlock()
	if call != nil {
		call()
	}
}
