package fetch

import "sync"

// Item is the progress of one file.
type Item struct {
	Path string
	// URL without its query.
	URL string
	// SHA256 is the checksum that the source gives, in hex; empty for none.
	SHA256 string
	// Done and Total are bytes; Total is -1 while not known.
	Done, Total int64
}

// Progress is the progress of a download. Its methods are safe for concurrent use. Done
// decreases when a file has to be fetched again.
type Progress struct {
	// On, if set before the download starts, is called after each change with what Bytes
	// would return, one call at a time. It must be quick and must not call the Progress.
	On func(done, total int64)

	mu          sync.Mutex
	items       []Item
	done, total int64 // total of the known sizes
	unknown     int   // files of unknown size
}

// Items returns a copy of the files' state.
func (p *Progress) Items() []Item {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Item(nil), p.items...)
}

// Bytes returns the bytes that have arrived and the total, 0 while not known.
func (p *Progress) Bytes() (done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes()
}

func (p *Progress) bytes() (done, total int64) {
	if p.unknown > 0 {
		return p.done, 0
	}
	return p.done, p.total
}

func (p *Progress) start(files []File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items, p.done, p.total, p.unknown = make([]Item, len(files)), 0, 0, 0
	for i, f := range files {
		p.items[i] = Item{Path: f.Path, URL: redactURL(f.url), SHA256: f.SHA256, Total: f.Size}
		if f.Size < 0 {
			p.unknown++
		} else {
			p.total += f.Size
		}
	}
	p.notify()
}

// set records a file's bytes, and its size once that is known.
func (p *Progress) set(i int, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := &p.items[i]
	p.done += done - it.Done
	it.Done = done
	if total >= 0 {
		if it.Total < 0 {
			p.unknown--
			it.Total = 0
		}
		p.total += total - it.Total
		it.Total = total
	}
	p.notify()
}

func (p *Progress) notify() {
	if p.On != nil {
		p.On(p.bytes())
	}
}
