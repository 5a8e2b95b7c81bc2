package ui

import (
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"tgi/models/demo"
	"tgi/models/library/fetch/hubtest"
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

// TestModels: a person gives a key, unloads and loads the model, pulls another, cancels that, goes on, and deletes it.
func TestModels(t *testing.T) {
	demand(t)
	hub := hubtest.New(t, hubtest.Checkpoint)
	clear(hub.Files)
	largest := ""
	for _, e := range sure(fs.ReadDir(demo.Checkpoint(), ".")) {
		hub.Files[e.Name()] = sure(fs.ReadFile(demo.Checkpoint(), e.Name()))
		if len(hub.Files[e.Name()]) > len(hub.Files[largest]) {
			largest = e.Name()
		}
	}
	hub.StopOnce(largest, len(hub.Files[largest])/2)
	s := serve(t, keyed+fmt.Sprintf("[models]\nfolder = %q\nhub = %q\n", t.TempDir(), hub.URL))

	p := open(t, s.URL, "/#/models")
	p.find("dialog", "Key")
	p.fill("textbox", "Key of this server", "boss")
	p.press(kb.Enter)
	p.rowOf("tgi-demo", "loaded")
	p.checkNames()
	p.shots("models")

	// By keyboard: when the button that was pressed goes away, the focus stays in its row.
	p.focus("button", "Unload tgi-demo")
	p.press(kb.Enter)
	p.rowOf("tgi-demo", "on disk")
	focused := `document.activeElement.getAttribute('aria-label') === `
	p.eventually("the focus is on the button to load it", focused+`'Load tgi-demo'`)
	p.press(kb.Enter)
	p.rowOf("tgi-demo", "loaded")
	p.eventually("the focus is on the button to unload it", focused+`'Unload tgi-demo'`)

	p.fill("textbox", "Model", "no/such")
	p.press(kb.Enter)
	p.rowOf("no/such", "status 404")
	p.click("button", "Delete no/such")
	p.click("button", "Delete")
	p.silent("tbody", "no/such")
	p.fill("textbox", "Model", "a b")
	p.press(kb.Enter)
	p.reads("[role=status]", "a b could not be pulled: ")
	p.shot("models-refused")
	p.eventually("the button that closes the message is beside its text", `(() => {
		const text = document.createRange();
		text.selectNodeContents(document.querySelector('.notice.error p'));
		return text.getBoundingClientRect().right <=
			document.querySelector('.notice.error .close').getBoundingClientRect().left;
	})()`)

	p.fill("textbox", "Model", "org/model")
	p.fill("textbox", "Name on this server", "pulled")
	p.click("button", "Pull")
	p.rowOf("pulled", "downloading")
	p.eventually("the download has a size", `document.querySelector('progress:not([hidden])')?.position > 0`)
	p.shots("models-pulling")
	p.click("button", "Cancel the download of pulled")
	p.rowOf("pulled", "not fetched")
	p.click("button", "Pull pulled")
	p.rowOf("pulled", "on disk")
	p.click("button", "Load pulled")
	p.rowOf("pulled", "loaded")
	p.find("button", "Unload pulled")
	p.absent("button", "Delete pulled")

	// The engine's page has a choice where several models are loaded.
	p.visit("Engine")
	p.rowOf("pulled", "running")
	p.focus("combobox", "Model")
	p.press("pulled")
	p.eventually("one is chosen", `document.querySelector('select').value === 'pulled'`)
	p.reads("section[aria-label=Generated]", "0 tokens/s")
	p.checkNames()
	p.visit("Models")
	p.find("button", "Unload pulled")
	p.click("button", "Unload pulled")
	p.rowOf("pulled", "on disk")

	call(t, http.MethodPost, s.URL+"/v1/models/pull", "boss",
		`{"model":"org/model","id":"titled","name":`+quote(hostile)+`}`)
	p.rowOf("titled", "<img src=x")
	p.notHTML()

	p.click("button", "Delete pulled")
	p.find("dialog", "Delete pulled?")
	p.press(kb.Escape)
	p.absent("dialog", "Delete pulled?")
	p.rowOf("pulled", "on disk")
	p.click("button", "Delete pulled")
	p.click("button", "Delete")
	p.silent("tbody", "pulled")

	// A key with less is told so in a sentence.
	p.useKey("guest")
	p.rowOf("tgi-demo", "loaded")
	p.reads("[role=alert]", "Your key may not do this: this route needs a key with the scope `admin`")
	p.eventually("nothing can be done", readOnly)
	p.useKey("boss")
	p.rowOf("tgi-demo", "loaded")
	p.eventually("who may, can again", `!document.querySelector('td button:disabled, form.pull button:disabled')`)
}
