package ui

import (
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"tgi/models/demo"
	"tgi/models/library/fetch/hubtest"
)

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

	p := openAs(t, s.URL, "/#/models", "boss")
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
	p.confirm("Delete no/such", "Delete no/such?", "Delete")
	p.silent("tbody", "no/such")
	p.fill("textbox", "Model", "a b")
	p.press(kb.Enter)
	p.says("a b could not be pulled: ")
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
	p.confirm("Delete pulled", "Delete pulled?", "Delete")
	p.silent("tbody", "pulled")

	// A key with less is told so in a sentence.
	p.useKey("guest")
	p.rowOf("tgi-demo", "loaded")
	p.alerts("Your key may not do this: this route needs a key with the scope `admin`")
	p.eventually("nothing can be done", readOnly)
	p.useKey("boss")
	p.rowOf("tgi-demo", "loaded")
	p.eventually("who may, can again", `!document.querySelector('td button:disabled, form.pull button:disabled')`)
}

// TestAdapters: a person gives a model an adapter, chats with it, replaces it, is refused what is none, and removes it.
func TestAdapters(t *testing.T) {
	demand(t)
	_, adapter := demoWith(t)
	s := serve(t, keyed+"[model]\nadapter_memory = \"16MiB\"\n")
	p := openAs(t, s.URL, "/#/models", "boss")
	p.rowOf("tgi-demo", "loaded")
	p.click("button", "Adapters of tgi-demo")
	p.reads("dialog", "It has no adapter.")
	add := func(name, path string) {
		t.Helper()
		p.put("Name", name)
		p.put("Folder", path)
		p.click("button", "Add")
	}
	add("pirate", t.TempDir())
	p.reads("dialog .notice.error", "pirate could not be added: ")
	add("pirate", adapter)
	p.reads("dialog .notice.done", "Requests may name pirate now.")
	p.find("button", "Remove the adapter pirate")
	p.checkNames()
	p.shots("models-adapters")
	add("pirate", adapter)
	p.reads("dialog .notice.error", "pirate is loaded already")
	p.click("checkbox", "It may take the place of an adapter of this name")
	add("pirate", adapter)
	p.reads("dialog .notice.done", "Requests may name pirate now.")
	add("poet", adapter)
	p.find("button", "Remove the adapter poet")
	p.click("button", "Close")
	p.rowOf("tgi-demo", "adapters: pirate, poet")

	p.visit("Chat")
	p.choose("Adapter", "pirate")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .stats", "tokens")

	p.visit("Models")
	p.click("button", "Adapters of tgi-demo")
	p.confirm("Remove the adapter poet", "Remove poet?", "Remove")
	p.absent("button", "Remove the adapter poet")
	p.reads("dialog .notice.done", "poet is removed.")
	p.find("button", "Remove the adapter pirate")

	p.useKey("guest")
	p.alerts("Your key may not do this")
	p.eventually("nothing can be done", readOnly)
}
