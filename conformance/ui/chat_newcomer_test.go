package ui

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// watchRequests has the page keep the bodies that it sends in window.sent.
func (p *page) watchRequests() {
	p.t.Helper()
	eval[chromedp.Void](p, `(() => {
		const real = window.fetch;
		window.sent = [];
		window.fetch = (address, init) => {
			if (init?.body) window.sent.push(JSON.parse(init.body));
			return real(address, init);
		};
	})()`)
}

// sentRoles is an expression: the roles of the messages of the request that was sent last, counted from its end.
func sentRoles(fromEnd int) string {
	return `window.sent.at(-` + strconv.Itoa(fromEnd) + `)?.messages.map((m) => m.role).join()`
}

// TestChatColoursTokens: a token has the colour that the legend gives its probability, by day and by night.
func TestChatColoursTokens(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.click("button", "Explain tokens")
	p.put("Temperature", "1.5")
	p.put("Seed", "7")
	p.put("Max tokens", "60")
	p.section("More")
	p.put("More members of the request", `{"ignore_eos": true}`)
	p.ask("Tell me a story.")
	p.click("button", "Tokens")
	p.shots("chat-colours")
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		wrong := eval[string](p, `(() => {
			const colour = (node) => getComputedStyle(node).backgroundColor;
			const seen = new Set(), wrong = [];
			for (const token of document.querySelectorAll('.token')) {
				const level = [...token.classList].find((name) => /^p\d$/.test(name));
				seen.add(level);
				if (colour(token) !== colour(document.querySelector('.swatch.' + level))) {
					wrong.push(token.textContent + ' of ' + level + ' is ' + colour(token));
				}
			}
			if (seen.size < 3) wrong.push('the reply has tokens of ' + [...seen]);
			const steps = new Set([...document.querySelectorAll('.swatch:not(.changed)')].map(colour));
			if (steps.size !== 5) wrong.push('the legend has the colours ' + [...steps]);
			return wrong.slice(0, 5).join('; ');
		})()`)
		if wrong != "" {
			t.Errorf("%s: %s", theme, wrong)
		}
	}
}

// TestChatComparesOneConversation: B goes on from what was said before, and again when A went on alone; what is open
// in a column keeps to it.
func TestChatComparesOneConversation(t *testing.T) {
	p := openSettled(t, serve(t, withPlugins).URL)
	p.greedy()
	p.click("button", "Explain tokens")
	p.ask("Who are you?")
	p.click("button", "Compare")
	p.eventually("B has the same messages", `(() => {
		const [a, b] = [...document.querySelectorAll('.thread')].map((n) =>
			[...n.querySelectorAll('.message .text')].map((m) => m.innerText).join('|'));
		return a && a === b;
	})()`)
	p.reads(".thread:last-child .thread-head", "temperature 0")
	p.watchRequests()
	p.fill("textbox", messageBox, "Who lives in the old mill?")
	p.press(kb.Enter)
	p.replied(4)
	for n := range 2 {
		p.eventually("both sides send three messages", sentRoles(n+1)+` === 'user,assistant,user'`)
	}
	p.onMessage(".thread:first-child .message", "Tokens")
	p.onMessage(".thread:last-child .message", "Tokens")
	p.shots("chat-compare-tokens")
	p.eventually("nothing lies over the table", `[...document.querySelectorAll('.token-columns')].every((columns) => {
		const [table, beside] = [...columns.children].map((n) => n.getBoundingClientRect());
		return table.right <= beside.left || table.bottom <= beside.top;
	})`)
	p.eventually("nothing leaves the detail", `[...document.querySelectorAll('.token-detail')].every((n) =>
		n.scrollWidth <= n.clientWidth)`)

	p.click("button", "Compare")
	p.eventually("one conversation is left", `document.querySelectorAll('.thread').length === 1`)
	p.ask("What is three plus four?")
	p.click("button", "Compare")
	p.reads(".thread:last-child .message.user", "What is three plus four?")
}

// TestChatComparesOnPhones: the settings do not lie over the conversations unless they are asked for, nor when a
// message is sent.
func TestChatComparesOnPhones(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.size(390, 844)
	hidden := `document.querySelector('#panel').hidden`
	p.eventually("the settings are closed", hidden)
	p.click("button", "Compare")
	p.eventually("there are two conversations", `document.querySelectorAll('.thread').length === 2`)
	if !eval[bool](p, hidden) {
		t.Error("comparing opens the settings over the conversations")
	}
	p.click("button", "Settings")
	p.find("tab", "Settings B")
	eval[chromedp.Void](p, `document.querySelector('#message').value = 'Who are you?',
		document.querySelector('form.composer').requestSubmit()`)
	p.replied(2)
	if !eval[bool](p, hidden) {
		t.Error("the settings lie over the replies")
	}
}

// TestChatSettingsInWideWindows: whether the settings are open in a wide window is what a person chose there, whatever
// the window was meanwhile.
func TestChatSettingsInWideWindows(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	hidden := `document.querySelector('#panel').hidden`
	narrow := func() {
		t.Helper()
		p.size(390, 844)
		p.eventually("they are closed in a narrow window", hidden)
	}
	narrow()
	p.click("button", "Settings")
	p.click("button", "Close the settings")
	p.eventually("they are closed again", hidden)
	p.reload()
	p.reads(".model-name", "tgi-demo")
	p.eventually("they are closed in a page that was loaded narrow", hidden)
	p.size(1280, 860)
	p.eventually("they are open in a wide window", "!"+hidden)

	p.click("button", "Close the settings")
	narrow()
	p.click("button", "Settings")
	p.eventually("they open in a narrow window", "!"+hidden)
	p.size(1280, 860)
	p.eventually("they stay closed in a wide window", hidden)
	p.reload()
	p.reads(".model-name", "tgi-demo")
	p.eventually("they stay closed in a page that is loaded again", hidden)
}

// TestChatOnTouchScreens: Return begins a line where there is no other key for it.
func TestChatOnTouchScreens(t *testing.T) {
	s := serve(t, "")
	p := openSettled(t, s.URL)
	p.size(390, 844)
	command(p, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true})
	p.reload()
	p.reads(".model-name", "tgi-demo")
	p.fill("textbox", messageBox, "What is")
	p.press(kb.Enter, "three plus four?")
	p.eventually("Return began a line", `document.querySelector('#message').value === 'What is\nthree plus four?'`)
	p.click("button", "Send")
	p.replied(1)
	p.reads(".message.user .text", "three plus four?")
}

// TestChatLeavesOutRefusedMessages: what the server refused stays to be seen and tried again, and is not sent with
// the next message.
func TestChatLeavesOutRefusedMessages(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.greedy()
	p.section("More")
	p.put("More members of the request", `{"temperature": "warm"}`)
	p.ask("Who are you?")
	p.reads(reply+" [role=alert]", "temperature")
	p.reads(".message.user .stats", "left out")
	p.shots("chat-refused")
	p.put("More members of the request", "")
	p.watchRequests()
	p.ask("Who lives in the old mill?")
	p.eventually("the refused message is left out", sentRoles(1)+` === 'user' &&
		window.sent.at(-1).messages[0].content.includes('mill')`)
	p.reads(reply+" .text", "Mira")
	if got := p.text(".message.user"); !bytes.Contains([]byte(got), []byte("Who are you?")) {
		t.Errorf("the refused message is gone: %q", got)
	}
	// Even where its error is deleted, and after a reload.
	p.onMessage(".message.assistant:nth-child(2)", "Delete")
	p.eventually("the error is gone", `document.querySelectorAll('.message').length === 3`)
	p.do(chromedp.Reload())
	p.reads(".model-name", "tgi-demo")
	p.watchRequests()
	p.ask("What is three plus four?")
	p.eventually("it still is left out", sentRoles(1)+` === 'user,assistant,user'`)

	// Sent again, it is a message as any other.
	p.click("button", "Edit")
	p.fill("textbox", "Edit the message", "Who lives in the old mill?")
	p.press(kb.Enter)
	p.reads(reply+" .text", "Mira")
	p.silent(".message.user", "left out")
	p.ask("What is three plus four?")
	p.eventually("it is sent now", sentRoles(1)+` === 'user,assistant,user'`)
}

// TestChatMarksRequiredParameters: a parameter that a plugin needs is asked for in the form, and nothing is sent
// without it.
func TestChatMarksRequiredParameters(t *testing.T) {
	demand(t)
	module := sure(os.ReadFile("../../plugins/std/wasm/no-repeat-ngram.wasm"))
	free, needed := []byte(`"additionalProperties":false`), []byte(`"required": ["n"]           `)
	if len(free) != len(needed) || bytes.Count(module, free) != 1 {
		t.Fatalf("the module does not have %s once", free)
	}
	file := filepath.Join(t.TempDir(), "needs.wasm")
	if err := os.WriteFile(file, bytes.Replace(module, free, needed, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openSettled(t, serve(t, "[[plugin]]\nname = \"needs\"\nsource = "+quote(file)+"\n").URL)
	p.greedy()
	p.choose("Add a plugin", "needs")
	p.reads(".plugin", "n (required)")
	p.click("button", "Close the settings")
	p.watchRequests()
	p.fill("textbox", messageBox, "Who are you?")
	p.press(kb.Enter)
	p.reads(".composer-error", "needs: n is required")
	p.reads(".plugin .hint.bad", "required")
	p.eventually("the field has the focus and is marked", `document.activeElement.dataset.parameter === 'n' &&
		document.activeElement.getAttribute('aria-invalid') === 'true'`)
	if eval[int](p, `window.sent.length + document.querySelectorAll('.message').length`) != 0 {
		t.Error("the message was sent")
	}
	p.shot("chat-required")
	p.press("3")
	p.silent(".plugin .hint.bad", "required")
	p.focus("textbox", messageBox)
	p.press(kb.Enter)
	p.replied(1)
	p.reads(reply+" .stats", "tokens")

	// Of two sides, the one that lacks it is shown.
	p.click("button", "Compare")
	p.find("tab", "Settings B")
	p.click("tab", "Settings A")
	p.put("n (required)", "")
	p.click("tab", "Settings B")
	p.fill("textbox", messageBox, "Who are you?")
	p.press(kb.Enter)
	p.eventually("A's field has the focus", `document.activeElement.dataset.parameter === 'n' &&
		document.querySelector('#side-0').getAttribute('aria-selected') === 'true'`)
}

// TestChatSendsNoWrongParameters: what a form marks as wrong is not sent, nor sent without it, also after a reload.
func TestChatSendsNoWrongParameters(t *testing.T) {
	p := openSettled(t, serve(t, withPlugins).URL)
	p.greedy()
	p.choose("Add a plugin", "banned-strings")
	p.put("strings", "Mira")
	p.watchRequests()
	refused := func(typed, why string) {
		t.Helper()
		p.put("depth", typed)
		p.reads(".plugin .hint.bad", why)
		p.put(messageBox, "Who lives in the old mill?")
		p.press(kb.Enter)
		p.reads(".composer-error", "banned-strings: depth "+why)
		p.eventually("the field has the focus", `document.activeElement.dataset.parameter === 'depth' &&
			document.activeElement.value === `+quote(typed))
		if eval[int](p, `window.sent.length + document.querySelectorAll('.message').length`) != 0 {
			t.Fatalf("the message was sent with a depth of %s", typed)
		}
	}
	refused("99", "must be at most 16")
	refused("1.5", "must be a whole number")
	refused("much", "must be a whole number")
	p.shots("chat-parameters")
	p.reload()
	p.reads(".plugin .hint.bad", "must be a whole number")
	p.watchRequests()
	refused("-3", "must be at least")
	p.put("depth", "5")
	p.silent(".plugin .hint.bad", "must")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .stats", "tokens")
	p.eventually("it is sent now", `JSON.stringify(window.sent.at(-1).plugins[0].params) ===
		'{"strings":["Mira"],"depth":5}'`)

	// What the fields cannot mark, the schema refuses.
	p.put("strings", strings.Repeat("x", 300))
	p.put(messageBox, "Who are you?")
	p.press(kb.Enter)
	p.reads(".composer-error", "banned-strings: strings is refused: ")
}
