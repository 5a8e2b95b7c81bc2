package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var togetherCases = []Case{
	{ID: "together-same", Rule: "four requests at once say what one says alone",
		Source: "TGI 3.3, integration-tests, test_*_load", run: func(p *probe) {
			body := generate(`"max_new_tokens":10,"details":true`)
			alone := p.ask("/generate", body, "GenerateResponse").at("generated_text").text()
			all := p.together(4, request{method: http.MethodPost, path: "/generate", body: body})
			for i, r := range all {
				v, err := parse(r.body)
				if p.last = r; err != nil || v.at("generated_text").text() != alone {
					p.fail("of four at once, number %d says %s, alone %s", i, quote(string(r.body)), quote(alone))
				}
			}
		}},
	{ID: "together-apart", Rule: "different requests at once keep their own texts",
		Source: "TGI 3.3, integration-tests, test_*_load", run: func(p *probe) {
			var wg sync.WaitGroup
			const n = 4
			alone, both := make([]string, n), make([]string, n)
			body := func(i int) request {
				return request{method: http.MethodPost, path: "/generate",
					body: fmt.Sprintf(`{"inputs":"%s","parameters":{"max_new_tokens":8}}`, strings.Repeat(story+" ",
						i+1))}
			}
			for i := range n {
				alone[i] = string(p.do(body(i)).body)
			}
			for i := range n {
				wg.Go(func() {
					if r, err := p.try(body(i)); err == nil {
						both[i] = string(r.body)
					}
				})
			}
			wg.Wait()
			for i := range n {
				p.equal(fmt.Sprintf("reply %d of %d at once", i, n), both[i], alone[i])
			}
		}},
	{ID: "cancel", Rule: "a client that leaves a stream ends its request; others are served",
		Source: "TGI 3.3, closing the connection is how requests are cancelled", run: func(p *probe) {
			for range 3 {
				p.leave()
			}
			p.ask("/generate", generate(`"max_new_tokens":2`), "GenerateResponse")
			p.status(p.get("/health"), http.StatusOK)
		}},
	{ID: "overloaded",
		Rule: "behind max_concurrent_requests the next is a 429, here with Retry-After and some places left for other " +
			"clients; those that leave make room",
		Source: ofErrors, run: overload},
}

// overload fills the server with streams.
func overload(p *probe) {
	n := p.bound("max_concurrent_requests")
	if n > 256 {
		p.skip("the server takes %d requests at once, which are too many to fill it", n)
	}
	var leave []func()
	defer func() {
		for _, l := range leave {
			l()
		}
	}()
	var ended atomic.Int32
	long := p.long()
	for range n {
		res, l := p.enter(long)
		leave = append(leave, l)
		if p.form.this && res.StatusCode == http.StatusTooManyRequests && len(leave) > n/2 {
			break // the rest is for other clients
		}
		go func() { // ends when the stream does, or with its context
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				ended.Add(1)
			}
		}()
		if res.StatusCode != http.StatusOK {
			p.fatal("a stream has status %d before the server is full", res.StatusCode)
		}
	}
	r := p.post("/generate", generate(`"max_new_tokens":1`))
	if r.status == http.StatusOK && ended.Load() > 0 {
		p.skip("streams ended while others began: the server could not be filled")
	}
	if !p.form.this {
		p.refused(r, http.StatusTooManyRequests, "overloaded", "Model is overloaded")
	} else {
		text, kind := p.refusedAs(r, http.StatusTooManyRequests)
		p.begins(text, "Model is overloaded")
		p.equal("error_type", kind, "overloaded")
		p.matches("retry-after", r.header.Get("Retry-After"), `[1-9]\d*`)
	}
	for _, l := range leave {
		l()
	}
	for { // until there is room, or the case's time is up
		r, err := p.try(request{method: http.MethodPost, path: "/generate", body: generate(`"max_new_tokens":1`)})
		if err != nil {
			p.fatal("all clients have left and there is no room for another: %v", err)
		}
		if p.last = r; r.status != http.StatusTooManyRequests {
			p.status(r, http.StatusOK)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-p.ctx.Done():
		}
	}
}

// long is the body of a stream that goes on for a while.
func (p *probe) long() string {
	return generate(fmt.Sprintf(`"ignore_eos":true,"max_new_tokens":%d`, p.room(400)))
}

// enter begins a stream and returns how to leave it.
func (p *probe) enter(body string) (res *http.Response, leave func()) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	res, err := p.begin(ctx, request{method: http.MethodPost, path: "/generate_stream", body: body})
	if err != nil {
		cancel(err)
		p.fatal("POST /generate_stream: no answer: %v", err)
	}
	return res, sync.OnceFunc(func() {
		cancel(errGone)
		res.Body.Close()
	})
}

// together sends n equal requests at once.
func (p *probe) together(n int, q request) []*reply {
	out, errs := make([]*reply, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i], errs[i] = p.try(q) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			p.fatal("of %d requests at once one has no answer: %v", n, err)
		}
	}
	return out
}

// leave begins a long stream and goes after its first event.
func (p *probe) leave() {
	res, gone := p.enter(p.long())
	defer gone()
	if res.StatusCode != http.StatusOK {
		p.fatal("the stream has status %d", res.StatusCode)
	}
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		p.fatal("the stream breaks off before its first event: %v", err)
	}
}
