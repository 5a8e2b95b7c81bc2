package ui

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// modules are plugins of the examples: two versions of one.
const modules = "../../examples/hot-swap/marker/"

// dropOn drops files on what a selector names, as a person does who drags them from a folder.
func (p *page) dropOn(selector string, files ...string) {
	p.t.Helper()
	at := eval[[]float64](p, `(() => { const e = document.querySelector(`+quote(selector)+`);
		e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + 30]; })()`)
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter,
		input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		command(p, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at[0], Y: at[1],
			Data: &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}})
	}
}

// TestPlugins: a person looks for a plugin, uploads one, replaces it, is refused a bad one, and removes it.
func TestPlugins(t *testing.T) {
	demand(t)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad one.wasm")
	if err := os.WriteFile(bad, []byte("no module at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	one, two := sure(filepath.Abs(modules+"marker-1.wasm")), sure(filepath.Abs(modules+"marker-2.wasm"))
	s := serve(t, keyed+"[plugins]\nuploads = "+quote(filepath.Join(dir, "uploads"))+`
[[plugin]]
name = "dry"
source = "builtin:dry"

[[plugin]]
name = "redact"
source = "builtin:redact"
`)

	p := openAs(t, s.URL, "/#/plugins", "boss")
	p.rowOf("dry", "ready")
	p.checkNames()
	p.shots("plugins")
	p.fill("searchbox", "Find a plugin", "guard")
	p.silent("tbody", "dry")
	p.rowOf("redact", "guard")
	p.click("button", "Details of redact")
	p.reads("dialog", "SHA-256")
	p.checkNames()
	p.shots("plugins-details")
	p.click("button", "Close")
	p.fill("searchbox", "Find a plugin", "")
	p.press(kb.Backspace)

	p.upload("Module", bad)
	p.eventually("a name is made of the file's",
		`[...document.querySelectorAll('input')].some((e) => e.value === 'bad-one')`)
	p.click("button", "Upload")
	p.says("bad-one was refused: ")
	p.shots("plugins-refused")

	// Another file gives another name, and one that is no module is criticised and never sent.
	p.upload("Module", one)
	p.eventually("the name is that of the second file",
		`[...document.querySelectorAll('input')].some((e) => e.value === 'marker-1')`)
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("no module"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.upload("Module", text)
	p.reads("form.drop", "notes.txt is no .wasm file.")
	p.fill("textbox", "Name", "marker")
	p.upload("Module", one)
	p.eventually("a name that somebody wrote stays",
		`[...document.querySelectorAll('input')].some((e) => e.value === 'marker')`)
	p.dropOn("form.drop", one)
	p.reads("form.drop", "marker-1.wasm")
	p.choose("It runs for", "every request")
	p.click("button", "Upload")
	p.rowOf("marker", "ready")
	p.says("marker version")
	p.rowOf("marker", "1.0.0 ")
	call(t, http.MethodPost, s.URL+"/generate", "guest",
		`{"inputs":"Once","parameters":{"max_new_tokens":5,"plugins":[{"name":"marker"}]}}`)
	p.eventually("its calls are counted", `![...document.querySelectorAll('tbody tr')].find((e) =>
		e.innerText.startsWith('marker')).children[3].innerText.match(/^0$/)`)

	p.click("button", "Replace marker")
	p.eventually("its name is there", `[...document.querySelectorAll('input')].some((e) => e.value === 'marker')`)
	p.upload("Module", two)
	p.click("button", "Check only")
	p.reads("form.drop", "The module is good: logits, version 2.0.0.")
	p.reads("form.drop", "It would replace 1.0.0.")
	p.reads("form.drop", "apply stays always.")
	p.rowOf("marker", "1.0.0 ")
	p.shots("plugins-checked")
	p.click("button", "Upload")
	p.rowOf("marker", "2.0.0 ")
	p.says("marker version 2.0.0 is ready for every request")
	p.rowOf("marker", "every request")
	p.shots("plugins-swapped")

	p.click("button", "Details of marker")
	p.reads("dialog", "serves")
	p.reads("dialog", "Log")
	p.checkNames()
	p.shots("plugins-versions")
	p.click("button", "Roll back to 1.0.0")
	p.rowOf("marker", "1.0.0 ")
	p.says("marker serves 1.0.0 again")

	// What a module says of itself is not HTML.
	says := []byte("Begins and ends every text with a mark.")
	module := sure(os.ReadFile(one))
	at := bytes.Index(module, says)
	if at < 0 {
		t.Fatalf("%s does not say %s", one, says)
	}
	copy(module[at:at+len(says)], fmt.Sprintf("%-*s", len(says), "<img src=x onerror=document.title=1>"))
	lies := filepath.Join(dir, "lies.wasm")
	if err := os.WriteFile(lies, module, 0o644); err != nil {
		t.Fatal(err)
	}
	p.upload("Module", lies)
	p.click("button", "Upload")
	p.rowOf("lies", "<img src=x onerror")
	p.click("button", "Details of lies")
	p.reads("dialog", "<img src=x onerror")
	p.notHTML()
	p.click("button", "Close")

	// The name of a file is a person's, and what it says is not HTML.
	odd := filepath.Join(dir, "<img src=x onerror=alert(1)>.wasm")
	if err := os.WriteFile(odd, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.upload("Module", odd)
	p.reads("form.drop", "<img src=x")
	p.notHTML()

	p.confirm("Remove marker", "Remove marker?", "Remove")
	p.silent("tbody", "marker")
	p.says("marker is removed")

	p.click("button", "Reload the settings")
	p.says("no plugin changed")

	p.useKey("guest")
	p.alerts("Your key may not do this: this route needs a key with the scope `admin`")
}

// TestPluginsOrder: what does not serve is first, then what failed, and then the rest by name.
func TestPluginsOrder(t *testing.T) {
	s := serve(t, keyed+`
[[plugin]]
name = "a-good"
source = "builtin:dry"
[[plugin]]
name = "b-failed"
source = "builtin:dry"
[[plugin]]
name = "c-off"
source = "builtin:dry"
`)
	p := openAs(t, s.URL, "/#/plugins", "boss")
	p.rowOf("a-good", "ready")
	eval[chromedp.Void](p, `(() => {
		const real = window.fetch;
		window.fetch = async (address, init) => {
			const reply = await real(address, init);
			if (!String(address).endsWith('/admin/plugins')) return reply;
			const body = await reply.json();
			for (const p of body.plugins) {
				if (p.name === 'b-failed') p.faults = {trap: 1};
				if (p.name === 'c-off') p.error = 'switched off for 1 of its clients';
			}
			return new Response(JSON.stringify(body), {status: 200, headers: reply.headers});
		};
	})()`)
	p.eventually("what needs somebody is first", `(() => {
		const rows = [...document.querySelectorAll('tbody tr')].map((e) => e.innerText);
		return rows[0].startsWith('c-off') && rows[1].startsWith('b-failed') && rows[2].startsWith('a-good');
	})()`)
}

// TestChatPluginsBeforeAKey: before a key is given the chat does not say that the server has no plugins: it was not
// told.
func TestChatPluginsBeforeAKey(t *testing.T) {
	s := serve(t, keyed+"[[plugin]]\nname = \"dry\"\nsource = \"builtin:dry\"\n")
	p := open(t, s.URL, "/")
	p.reads("dialog", "key")
	p.eventually("it says that it does not know",
		`document.querySelector('.plugins').textContent.includes('Not known yet')`)
	p.silent(".plugins", "offers no plugins")
}
