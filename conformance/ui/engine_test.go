package ui

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestEngine: the page counts what requests had computed, stops while it is paused or hidden, and says who may see it.
func TestEngine(t *testing.T) {
	s := serve(t, keyed)
	p := open(t, s.URL, "/#/chat")
	p.useKey("boss")
	p.visit("Engine")
	p.rowOf("tgi-demo", "running")
	p.reads(".facts", "in flight")
	for range 3 {
		call(t, http.MethodPost, s.URL+"/v1/completions", "guest",
			`{"model":"tgi","prompt":"Once upon a time","max_tokens":200,"ignore_eos":true}`)
	}
	p.rowOf("tgi-demo", "600")
	p.eventually("the chart shows tokens", `[...document.querySelectorAll('section[aria-label=Generated] .line')]
		.some((e) => new Set(e.getAttribute('d').match(/ [\d.]+/g)).size > 1)`)
	p.rowOf("guest", "600")
	p.reads("section[aria-label=Cache]", "held")
	p.checkNames()
	if os.Getenv("TGI_UI_SHOTS") != "" { // the pictures show something
		p.work(s.URL, 20)
	}
	p.shots("engine")
	p.size(1280, 1500)
	p.shot("engine-whole")
	p.size(1280, 860)

	p.click("button", "Pause")
	p.eventually("it is paused", `document.querySelector('[aria-pressed=true]')?.innerText === 'Pause'`)
	const live = "/admin/live"
	before := p.quiet(live, "paused")
	p.click("button", "Pause")
	p.eventually("it goes on", asked(live)+" > "+fmt.Sprint(before))

	// The same in a tab that is hidden.
	eval[chromedp.Void](p, `Object.defineProperty(document, 'hidden', {value: true, configurable: true}),
		document.dispatchEvent(new Event('visibilitychange'))`)
	before = p.quiet(live, "hidden")
	eval[chromedp.Void](p, `delete document.hidden, document.dispatchEvent(new Event('visibilitychange'))`)
	p.eventually("it goes on", asked(live)+" > "+fmt.Sprint(before))

	p.visit("Chat")
	p.quiet(live, "left")

	p.useKey("guest")
	p.visit("Engine")
	p.alerts("Your key may not do this: this route needs a key with the scope `admin`")
}

// TestServerGone: a page whose server ends says so, and goes on when another one is there.
func TestServerGone(t *testing.T) {
	demand(t)
	l := sure(net.Listen("tcp", "127.0.0.1:0"))
	addr := l.Addr().String()
	s := serve(t, keyed)
	forward := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(sure(url.Parse(s.URL)))
		r.Out.Host = r.In.Host
	}}}
	go func() { _ = forward.Serve(l) }()
	p := open(t, "http://"+addr, "/#/chat")
	p.useKey("boss")
	p.visit("Engine")
	p.rowOf("tgi-demo", "running")
	if err := forward.Close(); err != nil {
		t.Fatal(err)
	}
	p.alerts("The server does not answer")
	again := &http.Server{Handler: forward.Handler}
	l = sure(net.Listen("tcp", addr))
	go func() { _ = again.Serve(l) }()
	t.Cleanup(func() { _ = again.Close() })
	p.silent("[role=alert]", "does not answer")
}

// work has the server write texts for so many seconds, and more of them in the second half.
func (p *page) work(base string, seconds int) {
	p.t.Helper()
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var done sync.WaitGroup
	for i := range 6 {
		done.Go(func() {
			if i >= 3 {
				time.Sleep(time.Until(end) / 2)
			}
			for time.Now().Before(end) {
				call(p.t, http.MethodPost, base+"/v1/completions", "guest", fmt.Sprintf(
					`{"model":"tgi","prompt":"Once upon a time %d","max_tokens":%d,"ignore_eos":true}`, i, 100+80*i))
			}
		})
	}
	time.Sleep(time.Until(end) - time.Second)
	p.shot("engine-working")
	done.Wait()
}
