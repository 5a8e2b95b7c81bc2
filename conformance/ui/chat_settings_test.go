package ui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keysWithPlugins are settings with a key that may name some plugins, and with plugins that always apply, to all or to
// some keys.
const keysWithPlugins = keyed + `
[[key]]
name = "pupil"
key = "pupil"
scopes = ["generate", "models"]
plugins = ["no-*", "banned-strings"]
[[plugin]]
name = "xtc"
source = "builtin:xtc"
[[plugin]]
name = "no-repeat"
source = "builtin:no-repeat-ngram"
[[plugin]]
name = "banned-strings"
source = "builtin:banned-strings"
apply = "always"
[[plugin]]
name = "redact"
source = "builtin:redact"
apply = "always"
keys = ["pupil"]
`

// options are what the select with a name offers.
func (p *page) options(name string) string {
	p.t.Helper()
	p.focus("combobox", name)
	return eval[string](p, `[...document.activeElement.options].map((o) => o.text).join('; ')`)
}

// TestChatOffersPluginsOfKeys: the page offers the plugins that its key may name, says which apply to its requests, and
// takes parameters of those among them that it may name.
func TestChatOffersPluginsOfKeys(t *testing.T) {
	s := serve(t, keysWithPlugins)
	p := openAs(t, s.URL, "/#/chat", "pupil")
	p.reads(".plugins", "Applied to each of your requests: banned-strings, redact.")
	if got := p.options("Add a plugin"); got != "Add a plugin…; no-repeat; banned-strings (always applied)" {
		t.Errorf("key pupil is offered %s", got)
	}
	p.choose("Add a plugin", "banned-strings (always applied)")
	p.put("strings", "Mira")
	p.greedy()
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .stats", "tokens")
	p.silent(reply+" .text", "Mira")
	p.checkNames()

	p.useKey("guest")
	p.reads(".plugins", "Applied to each of your requests: banned-strings.")
	p.silent(".plugins", "redact.")
	if got := p.options("Add a plugin"); got != "Add a plugin…; xtc; no-repeat; redact" {
		t.Errorf("key guest is offered %s", got)
	}
}

// TestChatChoosesCompilers: a grammar is compiled by the plugin that is chosen, in the language that is chosen, with
// parameters; what the page cannot check it says to be held by the server.
func TestChatChoosesCompilers(t *testing.T) {
	p := openSettled(t, serve(t, "[[plugin]]\nname = \"second\"\nsource = \"builtin:grammar\"\n").URL)
	p.watchRequests()
	p.greedy()
	p.section("Grammar")
	p.choose("The reply is held to", "Grammar (GBNF or Lark)")
	p.put("Grammar (GBNF or Lark)", `start: "maybe" | "never"`)
	p.choose("Compiled by", "second")
	p.choose("Language", "lark")
	p.checkNames()
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .verdict", "held by the server, not checked here")
	if got := p.text(reply + " .text"); got != "maybe" && got != "never" {
		t.Errorf("the reply is %q", got)
	}
	if got := eval[string](p, `JSON.stringify(window.sent.at(-1).response_format)`); got != `{"type":"grammar","value":"start: \"maybe\" | \"never\"","language":"lark","plugin":"second"}` {
		t.Errorf("sent %s", got)
	}
	p.reload()
	p.reads(".model-name", "tgi-demo") // and the settings are drawn
	p.choose("The reply is held to", "Regular expression")
	p.put("Regular expression", "[a-c]{200}")
	p.absent("combobox", "Language")
	p.put("Message", "Go on")
	eval[string](p, `window.verdicts = "", new MutationObserver(() => window.verdicts += document.querySelector("`+reply+
		` .verdict")?.innerText ?? "").observe(document.body, {subtree: true, childList: true, characterData: true}), ""`)
	p.press(kb.Enter)
	p.reads(reply+" .verdict.good", "matches the expression")
	// It was there for less than a second.
	if got := eval[string](p, "window.verdicts"); !strings.Contains(got, "held by the server, checked here when it is whole") {
		t.Errorf("before the reply was whole: %s", got)
	}
	p.choose("Compiled by", "The first plugin that knows it")
	p.click("button", "Code")
	p.reads("#snippet", `"type": "regex"`)
	p.silent("#snippet", "second")
}

// TestChatCallsOneFunction: a function is called by its name, and one that is none is not sent.
func TestChatCallsOneFunction(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.greedy()
	p.section("Tools")
	city := `"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}`
	p.put("Definitions", `[{"name": "get_weather", `+city+`, {"name": "get_time", `+city+`]`)
	p.choose("Calls", "It must call get_time")
	p.checkNames()
	p.ask("What is the weather in Paris?")
	p.reads(reply+" .call", "get_time")
	p.put("Definitions", `[{"name": "get_weather", `+city+`]`)
	if got := p.options("Calls"); !strings.HasSuffix(got, "It must call get_weather; It must call get_time") {
		t.Errorf("the calls are %s", got)
	}
	p.put("Message", "And in Rome?")
	p.press(kb.Enter)
	p.reads(".composer-error", "there is no function get_time among the tools")
	p.choose("Calls", "The model decides")
	if got := p.options("Calls"); strings.Contains(got, "get_time") {
		t.Errorf("the calls are %s", got)
	}
}

// TestChatSaysWhichTokensAreMissing: where the server explained a part of a reply, the page says so.
func TestChatSaysWhichTokensAreMissing(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.section("More")
	p.put("More members of the request", `{"ignore_eos": true, "max_tokens": 12, "explain": {"top": 1, "tokens": 5}}`)
	p.ask("Tell me a story.")
	p.click("button", "Tokens")
	const want = "The first 5 of 12 tokens: the server explained no more of this reply."
	p.reads(".token-view", want)
	p.reload()
	p.reads(".model-name", "tgi-demo")
	p.click("button", "Tokens")
	p.reads(".token-view", want)
	p.put("More members of the request", `{"ignore_eos": true, "max_tokens": 5, "explain": {"top": 1, "tokens": 5}}`)
	p.click("button", "Clear")
	p.ask("Tell me a story.")
	p.click("button", "Tokens")
	p.reads(".token-detail", "token 1,")
	p.silent(".token-view", "The first 5")
}

// openFile gives the page a file as a conversation.
func (p *page) openFile(name, text string) {
	p.t.Helper()
	eval[chromedp.Void](p, `(() => {
		const files = new DataTransfer();
		files.items.add(new File([`+quote(text)+`], `+quote(name)+`, {type: 'application/json'}));
		const input = document.querySelector('#panel input[type=file]');
		input.files = files.files;
		input.dispatchEvent(new Event('change'));
	})()`)
}

// TestChatAsFiles: a conversation is saved as a file, and another tab goes on with it: messages, settings, both
// columns, tokens. A file that is none is refused, and what is not well-formed in one is left out.
func TestChatAsFiles(t *testing.T) {
	s := serve(t, withPlugins)
	p := openSettled(t, s.URL)
	p.greedy()
	p.click("button", "Explain tokens")
	p.choose("Add a plugin", "no-repeat")
	p.put("n", "3")
	p.ask("Who lives in the old mill?")
	p.click("button", "Compare")
	p.put("System prompt", "Be brief.")
	dir := t.TempDir()
	command(p, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir,
		BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID})
	p.checkNames()
	p.click("button", "Export")
	var saved []byte
	for end := time.Now().Add(patience); len(saved) == 0; time.Sleep(40 * time.Millisecond) {
		found, err := filepath.Glob(filepath.Join(dir, "conversation-*.json"))
		if err == nil && len(found) == 1 {
			saved, err = os.ReadFile(found[0])
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("no file was saved: %v %v", found, err)
		}
	}
	if !json.Valid(saved) || strings.Contains(string(saved), `"body"`) {
		t.Errorf("the file is %s", saved)
	}

	other := openSettled(t, s.URL)
	other.openFile("story.json", string(saved))
	other.eventually("both conversations are there", `document.querySelectorAll('.thread').length === 2`)
	other.reads(".thread:last-child .message.assistant .text", "Mira")
	other.reads(".thread:last-child .thread-head", "system prompt")
	other.reads(".thread:first-child .thread-head", "no-repeat")
	other.onMessage(".message", "Tokens")
	other.reads(".token-detail", "token 1,")
	other.ask("Who are you?")
	if got := eval[int](other, `document.querySelectorAll('.message.assistant').length`); got != 4 {
		t.Errorf("%d replies, want 2 in each column", got)
	}

	for name, text := range map[string]string{"list.json": `[]`, "no.json": `{`, "other.json": `{"sides": [{}, {}]}`} {
		other.openFile(name, text)
		other.reads(".composer-error", name+" cannot be opened")
	}
	odd := `{"kind": "tgi-conversation", "sides": [{"messages": [{"role": "user", "text": "kept", "images": [7, ` +
		`"https://elsewhere.example/p.png"]}, {"role": "x"}, {"role": "assistant", "text": "also kept", "usage": {"reply": ` +
		`"many"}, "time": {}, "calls": [{"name": "f", "args": 7}], "tokens": [{"text": 1}], "grammar": {"kind": 3}, ` +
		`"body": 5, "notes": [{}]}], "settings": {"temperature": 0, "plugins": [{"name": "p", "wrong": {"a": 1}}]}}, 3]}`
	other.openFile("odd.json", odd)
	other.find("dialog", "Replace the conversation?")
	other.checkNames()
	other.click("button", "Cancel")
	other.absent("dialog", "Replace the conversation?")
	other.reads(".thread:first-child", "Mira")
	other.openFile("odd.json", odd)
	other.click("button", "Replace")
	other.reads(".message.user .text", "kept")
	other.reads(reply+" .text", "also kept")
	other.eventually("no picture is there", `!document.querySelector('.message img')`)
	other.absent("button", "Tokens")
	other.absent("button", "Request")
}
