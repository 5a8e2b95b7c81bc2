package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

var togetherCases = []Case{
	{ID: "together-same", Rule: "four requests at once say what one says alone", Source: "TGI 3.3, integration-tests, test_*_load", run: func(p *probe) {
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
	{ID: "together-apart", Rule: "different requests at once keep their own texts", Source: "TGI 3.3, integration-tests, test_*_load", run: func(p *probe) {
		var wg sync.WaitGroup
		const n = 4
		alone, both := make([]string, n), make([]string, n)
		body := func(i int) request {
			return request{method: http.MethodPost, path: "/generate", body: fmt.Sprintf(`{"inputs":"%s","parameters":{"max_new_tokens":8}}`, strings.Repeat(story+" ", i+1))}
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
	{ID: "cancel", Rule: "a client that leaves a stream ends its request; others are served", Source: "TGI 3.3, closing the connection is how requests are cancelled", run: func(p *probe) {
		for range 3 {
			p.leave()
		}
		p.ask("/generate", generate(`"max_new_tokens":2`), "GenerateResponse")
		p.status(p.get("/health"), http.StatusOK)
	}},
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
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(errGone)
	body := generate(`"max_new_tokens":` + fmt.Sprint(p.room(400)))
	res, err := p.begin(ctx, request{method: http.MethodPost, path: "/generate_stream", body: body})
	if err != nil {
		p.fatal("POST /generate_stream: no answer: %v", err)
	}
	defer res.Body.Close()
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		p.fatal("the stream breaks off before its first event: %v", err)
	}
}
