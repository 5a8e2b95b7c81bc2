package server

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// What is read of a body behind the reply that refuses it, to be thrown away. Most clients send all of a request before
// they read the reply, and a connection that is closed with bytes unread is reset, which takes the reply from them.
const (
	// readAnyway is what net/http reads.
	readAnyway = 256 << 10
	// discardBytes and discardTime bound it for one request, discardSilence while nothing comes.
	discardBytes   = 64 << 20
	discardTime    = 15 * time.Second
	discardSilence = 2 * time.Second
	// mostDiscards bodies are read so at the same time, and mostDiscardsEach of one address.
	mostDiscards, mostDiscardsEach = 16, 4
	// discardPart is read at once, and then nothing for discardPause: 64 MiB a second are enough for any client, and
	// one that floods the server with bytes gets a few hundredths of a core.
	discardPart  = 64 << 10
	discardPause = time.Millisecond
	// partCost is what each part counts for among the requests that no model computes.
	partCost = 40 * time.Microsecond
)

// discards counts the bodies that are being thrown away.
type discards struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by address
}

// enter takes a place for an address, false if there is none.
func (d *discards) enter(from string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= mostDiscards || d.of[from] >= mostDiscardsEach {
		return false
	}
	if d.of == nil {
		d.of = map[string]int{}
	}
	d.all++
	d.of[from]++
	return true
}

func (d *discards) leave(from string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.of[from]--; d.of[from] == 0 {
		delete(d.of, from)
	}
}

// begunBody notes that something was read of a body, or tried to be.
type begunBody struct {
	io.ReadCloser
	begun bool
}

func (b *begunBody) Read(p []byte) (int, error) {
	b.begun = true
	return b.ReadCloser.Read(p)
}

// discard sends a refusal and throws away what is left of the body. It is called behind all that the request holds.
// HTTP/2 needs none of it, since a stream is ended by itself, and nor does what net/http reads.
func (s *Server) discard(r *http.Request, body *begunBody, out *reply, account string) {
	waits := !body.begun && r.Header.Get("Expect") != "" // for a word of the server before it sends a body
	short := r.ContentLength >= 0 && r.ContentLength <= readAnyway
	if out.status < http.StatusBadRequest || r.ProtoMajor != 1 || waits || short ||
		s.holds.owes(account, time.Now()) > 0 {
		return
	}
	from := Client(fromAddress(r).Context()).Name
	if !s.discards.enter(from) {
		return
	}
	defer s.discards.leave(from)
	if out.FlushError() != nil {
		return
	}
	part := make([]byte, discardPart)
	end := time.Now().Add(discardTime)
	read := 0 // of a part
	for left := discardBytes; left > 0; {
		_ = out.control.SetReadDeadline(time.Now().Add(min(discardSilence, time.Until(end))))
		n, err := body.ReadCloser.Read(part)
		left, read = left-n, read+n
		if err != nil {
			return
		}
		if read < discardPart {
			continue
		}
		read = 0
		s.holds.reserve(account, partCost, time.Now())
		select {
		case <-time.After(discardPause):
		case <-s.gate.closing:
			return
		}
	}
}
