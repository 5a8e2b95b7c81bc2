package fetch

import "sync"

// Item is how far one file is.
type Item struct {
	Path string
	// URL without its query.
	URL string
	// SHA256 that the source promised, in hex; empty when it did not.
	SHA256 string
	// Done and Total are bytes; Total is -1 while it is not known.
	Done, Total int64
}

// Progress is how far a download is. It may be read while the download runs;
// Done goes back where a file has to be fetched anew.
type Progress struct {
	// On, when set before the download starts, is called after each change
	// with what Bytes would return. It must be quick and must not call the
	// Progress; calls follow one another.
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

// Bytes returns the bytes that lie here and those in all; total is 0 while it
// is not known.
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
		p.items[i] = Item{Path: f.Path, URL: show(f.url), SHA256: f.SHA256, Total: f.Size}
		if f.Size < 0 {
			p.unknown++
		} else {
			p.total += f.Size
		}
	}
	p.tell()
}

// set notes a file's bytes, and its size once that is known.
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
	p.tell()
}

func (p *Progress) tell() {
	if p.On != nil {
		p.On(p.bytes())
	}
}
