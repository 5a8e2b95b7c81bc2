package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keyed are settings with a key that may do all, "boss", and one that may look and chat, "guest".
const keyed = `
[[key]]
name = "boss"
key = "boss"
scopes = ["generate", "models", "admin"]

[[key]]
name = "guest"
key = "guest"
scopes = ["generate", "models"]
`

// hostile is a text that would run if it became HTML.
const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// openAs opens a page and gives the key that it asks for.
func openAs(t testing.TB, base, path, key string) *page {
	t.Helper()
	p := open(t, base, path)
	p.signIn(key)
	return p
}

// signIn gives the key that the page asks for.
func (p *page) signIn(key string) {
	p.t.Helper()
	p.find("dialog", "Key")
	p.fill("textbox", "Key of this server", key)
	p.press(kb.Enter)
	p.absent("dialog", "Key")
}

// useKey has the tab use a key of the server from now on, as if it had been typed.
func (p *page) useKey(key string) {
	p.t.Helper()
	eval[chromedp.Void](p, `sessionStorage.setItem('tgi.key', `+quote(key)+`)`)
	p.reload()
}

// reload loads the page again.
func (p *page) reload() {
	p.t.Helper()
	p.do(chromedp.Reload())
	p.eventually("the page is there", `document.querySelector('#main')?.children.length > 0`)
}

// wait lets the page be for a while.
func (p *page) wait(d time.Duration) {
	p.t.Helper()
	eval[int](p, fmt.Sprintf(`new Promise((done) => setTimeout(() => done(1), %d))`, d.Milliseconds()))
}

// asked is an expression: how often the page asked for a path of the server.
func asked(path string) string {
	return `performance.getEntriesByType('resource').filter((e) => e.name.includes(` + quote(path) + `)).length`
}

// quiet fails if the page goes on asking for a path of the server, as it must not when it is paused, hidden or left. It
// returns how often it has asked.
func (p *page) quiet(path, when string) int {
	p.t.Helper()
	p.wait(300 * time.Millisecond) // what was asked before is answered
	before := eval[int](p, asked(path))
	p.wait(2500 * time.Millisecond)
	after := eval[int](p, asked(path))
	if after != before {
		p.t.Errorf("%s, the page asked %d times", when, after-before)
	}
	return after
}

// says waits for a message of the page about what was done or refused.
func (p *page) says(text string) {
	p.t.Helper()
	p.reads("[role=status]", text)
}

// alerts waits for a message about what is wrong.
func (p *page) alerts(text string) {
	p.t.Helper()
	p.reads("[role=alert]", text)
}

// confirm answers the question that clicking a button asks by the button of the same text.
func (p *page) confirm(button, question, yes string) {
	p.t.Helper()
	p.click("button", button)
	p.find("dialog", question)
	p.click("button", yes)
	p.absent("dialog", question)
}

// onMessage clicks a button below the last message that has it, of those that a selector names.
func (p *page) onMessage(selector, button string) {
	p.t.Helper()
	p.eventually("there is the button "+button+" at "+selector, `(() => {
		const found = [...document.querySelectorAll(`+quote(selector)+`)].flatMap((m) => [...m.querySelectorAll('button')])
			.findLast((b) => b.textContent === `+quote(button)+`);
		found?.click();
		return found;
	})()`)
}

// rowOf reads the row of a table that begins with a name.
func (p *page) rowOf(name, text string) {
	p.t.Helper()
	p.eventually("the row of "+name+" reads "+text, `[...document.querySelectorAll('tbody tr')].some((e) =>
		e.firstChild.innerText.trim().startsWith(`+quote(name)+`) && e.innerText.includes(`+quote(text)+`))`)
}

// notHTML fails where the hostile text became more than text.
func (p *page) notHTML() {
	p.t.Helper()
	if eval[bool](p, `document.title === 'owned' || !!document.querySelector('main img[src="x"], main script')`) {
		p.t.Error("a text became HTML")
	}
}

// call sends a request as a client beside the page. Any goroutine may call it.
func call(t testing.TB, method, url, key, body string) {
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode >= 300 {
		t.Errorf("%s %s: %s", method, url, reply.Status)
	}
}

// sure is a value that is there.
func sure[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
