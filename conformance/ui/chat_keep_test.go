package ui

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	pages "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestChatGoesOnElsewhere: a reply goes on while another page is looked at, and what was being written stays.
func TestChatGoesOnElsewhere(t *testing.T) {
	p := openSettled(t, serve(t, "[limits]\nmax_total_tokens = 900\n").URL)
	p.section("More")
	p.put("More members of the request", `{"ignore_eos": true, "max_tokens": 600}`)
	p.fill("textbox", messageBox, "Tell me a story.")
	p.press(kb.Enter)
	p.eventually("the reply comes", `document.querySelector('.message.busy .text')?.textContent.length > 5`)
	eval[chromedp.Void](p, `document.querySelector('#message').value = ''`)
	p.fill("textbox", messageBox, "What I write next")
	p.visit("Models")
	p.rowOf("tgi-demo", "loaded")
	p.visit("Chat")
	p.replied(1)
	p.reads(reply+" .stats", "600 tokens")
	draft := `document.querySelector('#message')?.value === 'What I write next'`
	p.eventually("the text is there", draft)
	p.reload()
	p.eventually("the text is there after a reload", draft)
}

// TestChatKeepsWhatItCannotSend: a reply is asked for again, and a message changed, only where the settings can be
// sent; else all stays as it is.
func TestChatKeepsWhatItCannotSend(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.greedy()
	p.ask("What is three plus four?")
	p.put("Temperature", "warm")
	p.click("button", "Retry")
	p.reads(".composer-error", "temperature must be a number")
	p.reads(reply+" .text", "3 plus 4 is 7.")
	p.onMessage(".message.user", "Edit")
	p.fill("textbox", "Edit the message", "Who lives in the old mill?")
	p.press(kb.Enter)
	p.reads(".composer-error", "temperature must be a number")
	p.find("textbox", "Edit the message")
	p.put("Temperature", "0")
	p.focus("textbox", "Edit the message")
	p.press(kb.Enter)
	p.reads(reply+" .text", "Mira")

	// While a reply comes, messages have no buttons that would change what it is a reply to.
	p.section("More")
	p.put("More members of the request", `{"ignore_eos": true, "max_tokens": 800, "explain": {"top": 20, "tokens": 800}}`)
	p.fill("textbox", messageBox, "Tell me a story.")
	p.press(kb.Enter)
	p.eventually("the reply comes", `document.querySelector('.message.busy .text')?.textContent.length > 5`)
	p.absent("button", "Retry")
	p.absent("button", "Edit")
	p.absent("button", "Delete")
	p.click("button", "Stop")
	p.find("button", "Retry")
}

// oldToken is a token as a tab keeps it.
const oldToken = `{"id": 1, "text": "old", "raw_logprob": -0.5, "logprob": null, "rank": 0, "picked": "best",
	"changes": [{"kind": "mask", "name": "grammar", "allowed": 3, "forbidden": 0.5, "before": -1, "after": null,
	"count": 1, "moved": [{"id": 2, "text": "new", "by": null}]}],
	"candidates": [{"id": 1, "text": "old", "raw_logprob": -0.5, "logprob": null}], "rewound": [{"by": "g", "tokens": 2}]}`

// TestChatOutlivesUpdates: what another version of the server kept in the tab is no reason to show nothing.
func TestChatOutlivesUpdates(t *testing.T) {
	p := openSettled(t, serve(t, withPlugins).URL)
	for _, kept := range []string{`{"sides": [{"messages": [{"role": "assistant"}, {"role": "user", "text": 3}, null, 5,
		{"role": "assistant", "text": "kept", "calls": [null, {}], "tokens": [{}], "view": "tokens"},
		{"role": "assistant", "text": "b", "tokens": [` + oldToken + `, {"text": "x", "picked": "best", "rank": 0}]},
		{"role": "assistant", "text": "c", "tokens": [{"text": "x", "picked": "best", "rank": 0, "candidates": [{}],
		"changes": []}], "usage": {"reply": {}}, "time": "soon"},
		{"role": "assistant", "text": "d", "tokens": [{"text": "x", "picked": "best", "rank": 0, "candidates": [],
		"changes": [{"kind": "mask", "name": "grammar"}]}], "notes": [{}], "explained": "all"},
		{"role": "assistant", "text": "a", "tokens": [` + oldToken + `]}], "settings": {"temperature": null, "grammar": null,
		"plugins": [{"name": "no-repeat", "wrong": {"n": 7, "m": {"text": "x"}}}, 7, null], "stop": {}}}, null]}`,
		`{"sides": [1, "x"], "panel": 7, "draft": {}}`, `[]`, `null`, `{`} {
		p.visit("Models") // or leaving the page would keep what it knows
		eval[chromedp.Void](p, `addEventListener('pagehide', () => sessionStorage.setItem('tgi.chat', `+quote(kept)+`))`)
		eval[chromedp.Void](p, `location.hash = '#/chat'`)
		p.reload()
		p.reads(".model-name", "tgi-demo")
		pressed := eval[string](p, `[...document.querySelectorAll('.message')].map((m) => {
			const tokens = [...m.querySelectorAll('button')].find((b) => b.textContent === 'Tokens');
			tokens?.click();
			return tokens ? m.querySelector('.token-name')?.innerText : '';
		}).join()`)
		if want := ",,,,,,old"; strings.Contains(kept, `"old"`) && pressed != want {
			t.Errorf("the tokens of the messages are %q, want %q", pressed, want)
		}
		p.ask("What is three plus four?")
		p.reads(reply+" .stats", "tokens")
		p.click("button", "Clear")
	}
}

// TestChatKeepsNoRequests: what the tab keeps grows with the messages, not with their square.
func TestChatKeepsNoRequests(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.ask("MARK " + strings.Repeat("long ", 40))
	for range 3 {
		p.ask("Who are you?")
	}
	p.eventually("all is kept once", `(() => {
		const kept = sessionStorage.getItem('tgi.chat') ?? '{}';
		return JSON.parse(kept).sides?.[0].messages.length === 8 && kept.split('MARK').length === 2;
	})()`)
	p.onMessage(".message", "Request")
	p.reads("#snippet", "MARK")
}

// TestStorageOff: a browser that keeps nothing for pages shows them all the same.
func TestStorageOff(t *testing.T) {
	s := serve(t, "[server]\napi_keys = [\"right-key\"]\n")
	p := open(t, s.URL, "/#/engine")
	command(p, pages.AddScriptToEvaluateOnNewDocument, pages.AddScriptToEvaluateOnNewDocumentParams{Source: `
		for (const name of ['sessionStorage', 'localStorage']) Object.defineProperty(window, name, {get() {
			throw new DOMException('Access is denied for this document.', 'SecurityError');
		}});`})
	p.do(chromedp.Navigate(s.URL + "/?x#/chat"))
	p.signIn("right-key")
	p.reads(".model-name", "tgi-demo")
	p.ask("Who are you?")
	p.reads(reply+" .stats", "tokens")
	p.click("button", "Theme: auto. Change it")
	p.click("button", "Theme: light. Change it")
	p.eventually("the theme is dark", `document.documentElement.dataset.theme === 'dark'`)
}

// TestKeyWithoutRoom: a key is used where the tab has no room to keep it.
func TestKeyWithoutRoom(t *testing.T) {
	p := open(t, serve(t, "[server]\napi_keys = [\"right-key\"]\n").URL, "/#/chat")
	p.find("dialog", "Key")
	p.fill("textbox", "Key of this server", "wrong")
	p.press(kb.Enter)
	p.reads("dialog [role=alert]", "does not know that key")
	eval[chromedp.Void](p, `(() => {
		for (let size = 1 << 22, n = 0; size >= 1;) {
			try {
				sessionStorage.setItem('filler' + n++, 'x'.repeat(size));
			} catch {
				size = size >> 1;
			}
		}
	})()`)
	p.fill("textbox", "Key of this server", "right-key")
	p.press(kb.Enter)
	p.reads(".model-name", "tgi-demo")
	p.absent("dialog", "Key")
	p.ask("Who are you?")
	p.reads(reply+" .stats", "tokens")
}

// TestOneReplicaForATab: all requests of a tab have one id, by which a router sends them to the same replica; another
// tab has another one.
func TestOneReplicaForATab(t *testing.T) {
	through := httputil.NewSingleHostReverseProxy(sure(url.Parse(serve(t, keyed).URL)))
	var mu sync.Mutex
	asked := map[string]map[string]bool{} // paths by the id
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost || strings.HasPrefix(r.URL.Path, "/admin/") || r.URL.Path == "/v1/models" {
			mu.Lock()
			id := r.Header.Get("X-Session-Id")
			if asked[id] == nil {
				asked[id] = map[string]bool{}
			}
			asked[id][r.URL.Path] = true
			mu.Unlock()
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	for range 2 {
		p := openAs(t, proxy.URL, "/#/chat", "boss")
		p.reads(".model-name", "tgi-demo")
		p.ask("Who are you?")
		p.visit("Engine")
		p.rowOf("tgi-demo", "running")
		p.visit("Models")
		p.rowOf("tgi-demo", "loaded")
		p.reload()
		p.rowOf("tgi-demo", "loaded")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 {
		t.Errorf("two tabs have the ids %v", asked)
	}
	for id, paths := range asked {
		if len(id) != 32 || !paths["/v1/chat/completions"] || !paths["/admin/live"] || !paths["/v1/models"] {
			t.Errorf("the id %q is of requests for %v", id, paths)
		}
	}
}

// TestDialogsEndWithTheirPage: who goes back leaves no question behind.
func TestDialogsEndWithTheirPage(t *testing.T) {
	s := serve(t, keyed+"[[plugin]]\nname = \"dry\"\nsource = \"builtin:dry\"\n")
	p := openAs(t, s.URL, "/#/plugins", "boss")
	p.rowOf("dry", "ready")
	p.visit("Engine")
	p.visit("Plugins")
	p.click("button", "Details of dry")
	p.find("dialog", "dry")
	eval[chromedp.Void](p, `history.back()`)
	p.rowOf("tgi-demo", "running")
	p.absent("dialog", "dry")
}

// TestServerHangs: a server that takes questions and does not answer is said to do so.
func TestServerHangs(t *testing.T) {
	behind := sure(url.Parse(serve(t, keyed).URL))
	through := httputil.NewSingleHostReverseProxy(behind)
	over := make(chan struct{})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/live" {
			<-over
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	p := open(t, proxy.URL, "/#/chat")
	t.Cleanup(func() { close(over) })
	p.useKey("boss")
	eval[chromedp.Void](p, `(() => {
		const real = AbortSignal.timeout;
		AbortSignal.timeout = (ms) => real.call(AbortSignal, ms / 40);
	})()`)
	p.visit("Engine")
	p.alerts("The server does not answer in time. Trying again.")
}

// TestChatBehindPasswords: a password in the address of the page is in no request and no program.
func TestChatBehindPasswords(t *testing.T) {
	s := serve(t, "")
	p := openSettled(t, s.URL)
	p.do(chromedp.Navigate(strings.Replace(s.URL, "//", "//someone:geheim@", 1) + "/?again#/chat"))
	p.reads(".model-name", "tgi-demo")
	p.ask("Who are you?")
	p.reads(reply+" .stats", "tokens")
	p.click("button", "Code")
	p.reads("#snippet", s.URL+"/v1/chat/completions")
	p.silent("#snippet", "geheim")
}
