package server

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"tgi/server/generate"
)

// freeBytes is how much each request holds free of charge: small requests are served
// however many large ones there are.
const freeBytes = 64 << 10

// elementBytes is what a comma or an opening bracket of a body counts for, beside its own byte: what it separates or
// holds becomes a value of Go, which takes more than the few bytes that it may have in JSON.
const elementBytes = 48

// byteBudget bounds the bytes that are held for all requests together: their bodies, and the prompts that templates
// make of them.
type byteBudget struct {
	mu         sync.Mutex
	left, most int64
}

// take takes n bytes for a request that holds so many then. Errors are *generate.Overloaded, and *generate.Invalid
// where the request can't be held by itself.
func (p *byteBudget) take(n, held int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case held > p.most:
		return &generate.Invalid{Field: "inputs", TooLong: true, Msg: fmt.Sprintf(
			"body and prompt must have at most %d bytes together (server.payload_memory). Given: %d", p.most, held)}
	case n > p.left:
		return &generate.Overloaded{RetryAfter: time.Second, Reason: fmt.Sprintf("bodies and prompts of all requests "+
			"must have at most %d bytes together (server.payload_memory), and this one has %d", p.most, held)}
	}
	p.left -= n
	return nil
}

func (p *byteBudget) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += n
}

// grow makes the budget n bytes larger.
func (p *byteBudget) grow(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.most = p.left+n, p.most+n
}

// holding is what one request takes of a byteBudget.
type holding struct {
	from *byteBudget

	mu sync.Mutex
	// bytes are those of its texts, elements what those of its body count for beside them.
	bytes, elements, taken int64
}

// take takes n more bytes. Errors are those of the budget.
func (h *holding) take(n int64) error { return h.takeBody(n, 0) }

// takeBody takes n more bytes of a body with so many elements. Elements never make a request too large that would be
// let through without them: alone it takes all there is.
func (h *holding) takeBody(n, elements int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	bytes, counted := h.bytes+n, h.elements+elementBytes*elements
	held := max(bytes, min(bytes+counted, h.from.most+freeBytes))
	if need := held - freeBytes - h.taken; need > 0 {
		if err := h.from.take(need, held-freeBytes); err != nil {
			return err
		}
		h.taken += need
	}
	h.bytes, h.elements = bytes, counted
	return nil
}

// release gives back what was taken. The request holds nothing any more.
func (h *holding) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from.give(h.taken)
	h.taken, h.bytes, h.elements = 0, 0, 0
}

// budgetedBody is a body whose bytes are taken from a byteBudget as they arrive.
type budgetedBody struct {
	io.ReadCloser
	*holding
}

// Read implements io.Reader. Its errors are also those of the budget.
func (b *budgetedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if short := b.takeBody(int64(n), elements(p[:n])); short != nil {
		return 0, short
	}
	return n, err
}

// elements counts the commas and opening brackets of a text.
func elements(text []byte) (n int64) {
	for _, mark := range []byte(",[{") {
		n += int64(bytes.Count(text, []byte{mark}))
	}
	return n
}
