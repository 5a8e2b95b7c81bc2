// Package record keeps requests and their replies in files, for tgi replay: what was asked, what was answered, and when
// each part of a stream left.
//
// A Recorder never holds a request up. What it takes is copied into memory that is bounded, and written by a goroutine
// of its own; what it cannot keep up with is dropped and counted. The format of a line is Record.
package record

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a Recorder.
type Config struct {
	// Folder holds the files.
	Folder string
	// MaxFile bounds a file in bytes, MaxFiles their number: the oldest goes first.
	MaxFile  int64
	MaxFiles int
	// MaxBody bounds the body of a request and its reply, each, in bytes. What has more is cut.
	MaxBody int64
	// Memory bounds what is held of all requests until it is written, in bytes.
	Memory int64
	// Fields are the members of bodies whose values are left out, Headers further fields of headers and queries.
	Fields, Headers []string
}

// waiting is how many exchanges may wait to be written.
const waiting = 256

// Recorder keeps exchanges. It is safe for concurrent use; the nil Recorder keeps none.
type Recorder struct {
	config Config
	hide   hiding
	log    *slog.Logger
	queue  chan *Exchange
	done   chan struct{}

	held          atomic.Int64 // bytes in memory
	kept, dropped atomic.Int64

	mu     sync.Mutex // guards closed against queue's end
	closed bool
}

// Open begins to record. The folder is made if it is not there. It must be closed.
func Open(c Config, log *slog.Logger) (*Recorder, error) {
	f, err := openFiles(c.Folder, c.MaxFile, c.MaxFiles)
	if err != nil {
		return nil, err
	}
	r := &Recorder{config: c, hide: newHiding(c.Fields, c.Headers), log: log, queue: make(chan *Exchange, waiting),
		done: make(chan struct{})}
	go r.write(f)
	return r, nil
}

// Close writes what waits. What ends after it is dropped.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	<-r.done
}

// Counts returns how many exchanges were written, and how many were dropped.
func (r *Recorder) Counts() (kept, dropped int64) {
	if r == nil {
		return 0, 0
	}
	return r.kept.Load(), r.dropped.Load()
}

// Held returns the bytes that wait to be written.
func (r *Recorder) Held() int64 { return r.held.Load() }

// Exchange is a request and its reply while they are recorded. The body is read by one goroutine and the reply written
// by one; they may be two.
type Exchange struct {
	from   *Recorder
	id     string
	began  time.Time
	took   time.Duration
	method string
	path   string
	query  string
	key    string // its name
	header http.Header

	mu     sync.Mutex
	body   part
	reply  part
	sent   []sent // the writes of the reply
	held   int64
	lost   bool // there was no memory for it
	ended  bool
	status int
	back   http.Header
}

// part is what is kept of a body.
type part struct {
	bytes.Buffer
	cut bool
}

// sent is a write: when, and where it ended.
type sent struct {
	after time.Duration
	end   int
}

// sentSize is what a write of a reply counts for beside its bytes.
const sentSize = 16

// Begin begins to record the request q, called id; key is the name of its key, empty for none. It returns nil from a
// nil Recorder.
func (r *Recorder) Begin(q *http.Request, id, key string) *Exchange {
	if r == nil {
		return nil
	}
	return &Exchange{from: r, id: id, began: time.Now(), method: q.Method, path: q.URL.Path, query: q.URL.RawQuery,
		key: key, header: q.Header.Clone()}
}

// Body returns body, whose bytes are recorded as they are read.
func (e *Exchange) Body(body io.ReadCloser) io.ReadCloser {
	if e == nil {
		return body
	}
	return &tee{body, e}
}

type tee struct {
	io.ReadCloser
	to *Exchange
}

// Read implements io.Reader.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.to.mu.Lock()
	defer t.to.mu.Unlock()
	t.to.add(&t.to.body, p[:n])
	return n, err
}

// Sent records a part of the reply, which was written.
func (e *Exchange) Sent(b []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || e.lost || e.reply.cut || len(b) == 0 {
		return
	}
	if e.add(&e.reply, b); e.take(sentSize) {
		e.sent = append(e.sent, sent{time.Since(e.began), e.reply.Len()})
	}
}

// add adds to a part as much as may be kept.
func (e *Exchange) add(to *part, b []byte) {
	if e.ended || e.lost || to.cut || len(b) == 0 {
		return
	}
	if room := e.from.config.MaxBody - int64(to.Len()); int64(len(b)) > room {
		b, to.cut = b[:room], true
	}
	if e.take(len(b)) {
		to.Write(b)
	}
}

// take counts bytes. Where there is no room for them the exchange is lost.
func (e *Exchange) take(n int) bool {
	if e.from.held.Add(int64(n)) > e.from.config.Memory {
		e.from.held.Add(-int64(n))
		e.lose()
		return false
	}
	e.held += int64(n)
	return true
}

// lose lets go of what is held.
func (e *Exchange) lose() {
	e.lost, e.body, e.reply, e.sent = true, part{}, part{}, nil
	e.from.held.Add(-e.held)
	e.held = 0
}

// End ends the exchange: the reply had a status and a header. It is written behind whoever calls.
func (e *Exchange) End(status int, header http.Header) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended, e.took, e.status, e.back = true, time.Since(e.began), status, header.Clone()
	if !e.lost && e.from.enqueue(e) {
		return
	}
	e.lose()
	e.from.dropped.Add(1)
}

// enqueue reports whether e will be written.
func (r *Recorder) enqueue(e *Exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	select {
	case r.queue <- e:
		return true
	default:
		return false
	}
}

// write writes what comes until the Recorder is closed.
func (r *Recorder) write(to *files) {
	defer close(r.done)
	defer to.close()
	var warned time.Time
	for e := range r.queue {
		e.mu.Lock()
		line, err := e.line(r.hide)
		if err == nil {
			err = to.append(line)
		}
		e.lose()
		e.mu.Unlock()
		if err == nil {
			r.kept.Add(1)
			continue
		}
		r.dropped.Add(1)
		if now := time.Now(); now.Sub(warned) > time.Minute {
			warned = now
			r.log.Error("requests are not recorded", "folder", r.config.Folder, "error", err)
		}
	}
}
