package server

import (
	"io"
	"sync"
	"time"

	"tgi/server/generate"
)

// freeBody is how much of each body is free of charge: small requests are served
// however many large ones there are.
const freeBody = 64 << 10

// byteBudget bounds the bytes of bodies that are held for all requests together.
type byteBudget struct {
	mu   sync.Mutex
	left int64
}

// take takes n bytes, if there are as many.
func (p *byteBudget) take(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < n {
		return false
	}
	p.left -= n
	return true
}

func (p *byteBudget) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += n
}

// budgetedBody is a body whose bytes are taken from a byteBudget as they arrive.
type budgetedBody struct {
	io.ReadCloser
	from  *byteBudget
	read  int64
	taken int64
}

// Read implements io.Reader. It fails with *generate.Overloaded when the budget is
// empty.
func (b *budgetedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if need := b.read - freeBody - b.taken; need > 0 {
		if !b.from.take(need) {
			return 0, &generate.Overloaded{RetryAfter: time.Second}
		}
		b.taken += need
	}
	return n, err
}

// release gives back what was taken. The body must not be read any more.
func (b *budgetedBody) release() { b.from.give(b.taken) }
