package mcp

import (
	"io"
	"sync"
	"time"
)

// perSecond is how many bytes of a server are read in a second on average, beyond what its calls may answer: one that
// floods waits for its pipe.
const perSecond = 1 << 20

// paced is a reader of a server's output that takes its time where there is too much.
type paced struct {
	io.ReadCloser
	burst int

	mu   sync.Mutex
	left int
	at   time.Time
	stop chan struct{}
	once sync.Once
}

func newPaced(r io.ReadCloser, burst int) *paced {
	return &paced{ReadCloser: r, burst: burst, left: burst, at: time.Now(), stop: make(chan struct{})}
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.mu.Lock()
	now := time.Now()
	p.left = min(p.burst, p.left+int(now.Sub(p.at).Seconds()*perSecond)) - n
	p.at = now
	wait := time.Duration(0)
	if p.left < 0 {
		wait = time.Duration(-p.left) * time.Second / perSecond
	}
	p.mu.Unlock()
	if wait > 0 && err == nil {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.stop:
			return n, io.ErrClosedPipe
		}
	}
	return n, err
}

// Close implements io.Closer.
func (p *paced) Close() error {
	p.once.Do(func() { close(p.stop) })
	return p.ReadCloser.Close()
}
