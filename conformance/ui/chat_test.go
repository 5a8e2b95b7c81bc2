package ui

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tgi/models/vision/visiontest"
)

const (
	messageBox = "Message"
	reply      = ".message.assistant:last-of-type"
)

// withPlugins are settings with plugins that requests may name.
const withPlugins = `
[[plugin]]
name = "banned-strings"
source = "builtin:banned-strings"
[[plugin]]
name = "no-repeat"
source = "builtin:no-repeat-ngram"
`

// openSettled opens the chat page and waits until it knows what the server has.
func openSettled(t *testing.T, base string) *page {
	t.Helper()
	p := open(t, base, "/#/chat")
	p.reads(".model-name", "tgi-demo")
	return p
}

// ask pastes a message, since a line end that is typed would send what stands before it, sends it with Enter, and
// waits for the whole reply.
func (p *page) ask(text string) {
	p.t.Helper()
	p.put(messageBox, text)
	before := eval[int](p, `document.querySelectorAll('.message.assistant').length`)
	p.press(kb.Enter)
	p.replied(before + 1)
	// The browser's driver types a line end even though the page took the key.
	eval[chromedp.Void](p, `document.querySelector('#message').value = ''`)
}

// replied waits for so many replies that are whole.
func (p *page) replied(n int) {
	p.t.Helper()
	p.eventually("the reply is there", `document.querySelectorAll('.message.assistant').length >= `+strconv.Itoa(n)+
		` && !document.querySelector('.message.busy')`)
}

// section opens a section of the settings.
func (p *page) section(title string) {
	p.t.Helper()
	p.eventually("there is the section "+title, `(() => {
		const found = [...document.querySelectorAll('.section > summary')].find((s) => s.textContent === `+quote(title)+`);
		if (found && !found.parentElement.open) found.click();
		return found;
	})()`)
}

// choose chooses an option by its text.
func (p *page) choose(name, option string) {
	p.t.Helper()
	p.focus("combobox", name)
	if !eval[bool](p, `(() => {
		const select = document.activeElement;
		select.selectedIndex = [...select.options].findIndex((o) => o.text === `+quote(option)+`);
		select.dispatchEvent(new Event('change', {bubbles: true}));
		return select.selectedIndex >= 0 || !select.isConnected;
	})()`) {
		p.t.Fatalf("%s has no option %q", name, option)
	}
}

// put gives a field a text at once, as pasting does.
func (p *page) put(name, text string) {
	p.t.Helper()
	p.focus("textbox", name)
	eval[chromedp.Void](p, `(() => {
		document.activeElement.select();
		document.execCommand('insertText', false, `+quote(text)+`);
	})()`)
}

// greedy makes replies the same each time.
func (p *page) greedy() {
	p.t.Helper()
	p.put("Temperature", "0")
}

func TestChatSends(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.greedy()
	p.fill("textbox", messageBox, "What is")
	p.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(8)))
	if got := eval[int](p, `document.querySelectorAll('.message').length`); got != 0 {
		t.Fatalf("Shift+Enter sent the message: %d", got)
	}
	p.press("three plus four?")
	if got := eval[string](p, `document.querySelector('#message').value`); got != "What is\nthree plus four?" {
		t.Errorf("Shift+Enter made %q", got)
	}
	p.press(kb.Enter)
	p.replied(1)
	p.reads(".message.user .text", "three plus four?")
	p.reads(reply+" .stats", "tokens/s")
	p.ask("What is three plus four?")
	p.reads(reply+" .text", "3 plus 4 is 7.")
	p.reads("#chat-status", "3 plus 4 is 7.") // what a screen reader says
	p.checkNames()
	p.shots("chat")

	p.do(chromedp.Reload())
	p.reads(reply+" .text", "3 plus 4 is 7.") // the tab remembers
	fresh := openSettled(t, p.base)
	if got := fresh.text(".message"); got != "" {
		t.Errorf("another tab knows %q", got)
	}
	p.click("button", "Clear")
	p.find("heading", "What would you like to ask?")
	p.click("button", "Who lives in the old mill?")
	p.replied(1)
	p.reads(reply+" .text", "Mira")
}

func TestChatStops(t *testing.T) {
	s := serve(t, "[limits]\nmax_total_tokens = 900\n")
	p := openSettled(t, s.URL)
	p.click("button", "Explain tokens") // which makes each token take longer
	p.section("More")
	p.put("More members of the request", `{"ignore_eos": true, "explain": {"top": 20, "tokens": 800}}`)
	for _, how := range []func(){func() { p.click("button", "Stop") }, func() { p.press(kb.Escape) }} {
		p.fill("textbox", messageBox, "Tell me a story.")
		p.press(kb.Enter)
		p.eventually("the reply comes", `document.querySelector('.message.busy .text')?.textContent.length > 5`)
		how()
		p.eventually("it is stopped", `!document.querySelector('.message.busy')`)
		p.reads(reply+" .stats", "stopped")
		if got := p.text(reply + " .text"); got == "" {
			t.Error("what was said until then is gone")
		}
		p.find("button", "Send")
		p.click("button", "Clear")
	}
}

func TestChatEditsMessages(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.greedy()
	p.ask("Who are you?")
	p.ask("Who lives in the old mill?")
	p.click("button", "Edit")
	p.fill("textbox", "Edit the message", "What is three plus four?")
	p.press(kb.Enter)
	p.reads(reply+" .text", "3 plus 4 is 7.")
	if got := eval[int](p, `document.querySelectorAll('.message').length`); got != 2 {
		t.Errorf("%d messages after the first one was changed, want it and its reply", got)
	}
	p.put("Max tokens", "2")
	p.click("button", "Retry")
	p.reads(reply+" .stats", "ended by the length limit")
	p.click("button", "Delete")
	p.eventually("the message is gone", `document.querySelectorAll('.message').length === 1`)
}

func TestChatHoldsRepliesToGrammars(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.section("Grammar")
	p.choose("The reply is held to", "JSON Schema")
	p.put("JSON Schema", `{"type": "object", "required": ["name"], "additionalProperties": false,
		"properties": {"name": {"type": "string", "maxLength": 12}}}`)
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .verdict.good", "valid by the schema")
	var got map[string]string
	if err := json.Unmarshal([]byte(p.text(reply+" .text")), &got); err != nil || len(got) != 1 {
		t.Errorf("the reply is %q: %v", p.text(reply+" .text"), err)
	}
	p.shots("chat-grammar")
	p.put("Max tokens", "3")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .verdict.bad", "JSON that is cut")
	p.put("Max tokens", "")

	p.put("JSON Schema", `{"type": `)
	p.reads(".settings", "Not JSON")
	p.fill("textbox", messageBox, "Hello")
	p.press(kb.Enter)
	p.reads(".composer-error", "this is not JSON")
	if got := eval[string](p, `document.querySelector('#message').value`); strings.TrimSpace(got) != "Hello" {
		t.Errorf("the message that was not sent is gone: %q", got)
	}
	p.put("JSON Schema", `{"type": "strin"}`)
	p.focus("textbox", messageBox)
	p.press(kb.Enter)
	p.replied(3)
	p.reads(reply+" [role=alert]", "strin") // the server's own text

	p.choose("The reply is held to", "Choices")
	p.put("Choices", "red\ngreen")
	p.ask("Which colour?")
	p.reads(reply+" .verdict.good", "one of the choices")
	p.choose("The reply is held to", "Regular expression")
	p.put("Regular expression", "[0-9]{2} pears")
	p.ask("How many?")
	p.reads(reply+" .verdict.good", "matches the expression")
}

func TestChatExplainsPlugins(t *testing.T) {
	p := openSettled(t, serve(t, withPlugins).URL)
	p.greedy()
	p.click("button", "Explain tokens")
	p.choose("Add a plugin", "banned-strings")
	p.put("strings", "lives in")
	p.put("depth", "99")
	p.reads(".plugin", "must be at most 16")
	p.put("depth", "")
	p.ask("Who lives in the old mill?")
	p.reads(reply+" .text", "Mira has")
	p.click("button", "Tokens")
	p.checkNames()
	p.eventually("a token shows that something was taken back", `document.querySelector('.token.rewound')`)
	eval[chromedp.Void](p, `document.querySelector('.token.rewound').click()`)
	p.reads(".token-detail", "2 tokens in front of it, by banned-strings")
	p.reads(".token-detail", "of the probability") // which the guard took from what would come to the same
	p.reads(".token-detail .changes", "guard")
	eval[chromedp.Void](p, `document.querySelector(".plugin").scrollIntoView({block: "center"})`) // for the picture
	p.shots("chat-tokens")
	eval[chromedp.Void](p, `document.querySelector('.token').focus()`)
	p.reads(".token-detail .token-head", "token 1,")
	p.press(kb.ArrowRight)
	p.reads(".token-detail .token-head", "token 2,")
	p.press(kb.End)
	p.reads(".token-detail .token-name", "<|im_end|>")
	p.reads(".token-detail", "the likeliest token")

	p.click("button", "Remove banned-strings")
	p.choose("Add a plugin", "no-repeat")
	p.put("n", "1")
	p.ask("Who lives in the old mill?")
	p.onMessage(".message", "Request")
	p.reads("#snippet", `"name": "no-repeat"`)
	p.click("button", "Close")
	p.eventually("the reply has tokens that the plugin changed", `(() => {
		const last = document.querySelector('.message:last-child');
		if (!last.querySelector('.token')) {
			[...last.querySelectorAll('button')].find((b) => b.textContent === 'Tokens').click();
		}
		last.querySelector('.token.changed')?.click();
		return last.querySelector('.token-detail')?.innerText.includes('no-repeat');
	})()`)
}

func TestChatCompares(t *testing.T) {
	p := openSettled(t, serve(t, withPlugins).URL)
	p.greedy()
	p.click("button", "Compare")
	p.find("tab", "Settings B")
	p.choose("Add a plugin", "banned-strings")
	p.put("strings", "Mira")
	p.fill("textbox", messageBox, "Who lives in the old mill?")
	p.press(kb.Enter)
	p.replied(2)
	p.reads(".thread:first-child .message.assistant .text", "Mira")
	p.silent(".thread:last-child .message.assistant .text", "Mira")
	p.reads(".thread:last-child .thread-head", "banned-strings")
	p.silent(".thread:first-child .thread-head", "banned-strings")
	p.checkNames()
	p.shots("chat-compare")
	p.click("tab", "Settings A")
	p.eventually("A's settings are shown", `!document.querySelector('#panel .plugin')`)
	p.click("button", "Compare")
	p.eventually("one conversation is left", `document.querySelectorAll('.thread').length === 1`)
}

func TestChatCallsTools(t *testing.T) {
	p := openSettled(t, serve(t, "").URL)
	p.greedy()
	p.section("Tools")
	p.put("Definitions", `{"name": "get_weather", "description": "Get the weather of a city",
		"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}`)
	p.ask("What is the weather in Paris?")
	p.reads(reply+" .call", "get_weather")
	p.reads(reply+" .call", "Paris")
	p.put("Result of get_weather", `{"weather": "sunny"}`)
	p.click("button", "Send results")
	p.replied(2)
	p.reads(".message.tool", "sunny")
	p.reads(reply+" .text", "sunny")
	p.shots("chat-tools")
}

// TestChatAsPrograms: what the page shows as a program is one: the server answers the shell's as it answers the page.
func TestChatAsPrograms(t *testing.T) {
	p := openSettled(t, serve(t, withPlugins).URL)
	p.greedy()
	p.put("System prompt", `It's "quoted" $HOME \n `+"`id` \u00e9\U0001f600")
	p.put("Max tokens", "20")
	p.choose("Add a plugin", "no-repeat")
	p.put("n", "3")
	p.fill("textbox", messageBox, "What's 'three' plus four?")
	p.click("button", "Code")
	p.checkNames()
	p.shots("chat-code")
	p.runsInShell()
	for name, check := range map[string][]string{
		"Python":     {"python3", "-c", "import ast,sys; ast.parse(sys.stdin.read())"},
		"JavaScript": {"node", "--input-type=module", "--check"},
	} {
		p.click("tab", name)
		p.reads("#snippet", "chat.completions.create")
		code := p.text("#snippet")
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not there: its program is not parsed", check[0])
			continue
		}
		parse := exec.Command(check[0], check[1:]...)
		parse.Stdin = strings.NewReader(code)
		if out, err := parse.CombinedOutput(); err != nil {
			t.Errorf("%s\n%s: %v", code, out, err)
		}
	}
	p.click("button", "Close")
	p.absent("dialog", "The request as a program")
}

// runsInShell runs the program for the shell that is shown, as one who pastes it; the server must answer.
func (p *page) runsInShell() {
	p.t.Helper()
	curl := p.text("#snippet")
	shell := exec.Command("bash")
	program := strings.Replace(curl, "curl -N", "curl -sSN", 1)
	shell.Stdin = strings.NewReader("set -u; TGI_API_KEY=none\n" + program + "\n")
	out, err := shell.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "data: [DONE]") {
		p.t.Errorf("%.2000s\nanswers %.2000s: %v", curl, out, err)
	}
}

// TestChatAsProgramsWithPictures: the program for the shell runs with a picture of 200 KB.
func TestChatAsProgramsWithPictures(t *testing.T) {
	p := openSeeing(t)
	noise, err := visiontest.Noise(200_000)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "noise.png")
	if err := os.WriteFile(file, noise, 0o600); err != nil {
		t.Fatal(err)
	}
	p.dropOn(".chat", file)
	p.find("button", "Remove image 1")
	p.put(messageBox, "END\nWhat's this?")
	p.click("button", "Code")
	p.reads("#snippet", "data:image/png;base64,")
	p.runsInShell()
}

// hostileTexts are texts that would run if a page took them for HTML, or lead somewhere that is no page.
var hostileTexts = []string{
	`<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`,
	"[a](javascript:window.hacked=1) [b](JaVaScRiPt:window.hacked=1) [c](data:text/html,<script>hacked=1</script>)",
	"<a href='javascript:window.hacked=1'>x</a><svg onload=window.hacked=1><iframe srcdoc='<script>parent.hacked=1</script>'>",
	"![x](https://evil.example/p.png) ![x](data:image/svg+xml,<svg onload=hacked=1>) [ok](https://example.com/)",
	"```<b>\n</pre><script>window.hacked=1</script>\n```\n\n| <b>a</b> |\n|---|\n| <img src=x onerror=hacked=1> |",
	strings.Repeat(">", 300) + "x",
}

// TestChatRunsNothing: what models, clients and errors say is text.
func TestChatRunsNothing(t *testing.T) {
	p := openSettled(t, serve(t, "[server]\npayload_limit = 4000000\n").URL)
	p.greedy()
	p.section("More")
	for i, text := range hostileTexts {
		only := map[string]any{"type": "choice", "value": []string{text}}
		body, err := json.Marshal(map[string]any{"response_format": only})
		if err != nil {
			t.Fatal(err)
		}
		p.put("More members of the request", string(body))
		p.click("button", "Clear")
		p.ask(text)
		p.runsNothing(text)
		if i == 0 {
			p.reads(reply+" .text", "onerror")
		}
	}
	p.eventually("a link leads to the web only with a new window that knows nothing of this one",
		`[...document.querySelectorAll('.markdown a')].every((a) => /^https?:$/.test(a.protocol) &&
			a.rel.includes('noopener') && a.rel.includes('noreferrer'))`)
	for _, more := range []string{
		`{"temperature": "<img src=x onerror=window.hacked=1>"}`,
		`{"tools": [{"type": "function", "function": {"name": "<img src=x onerror=window.hacked=1>"}}]}`,
	} {
		p.put("More members of the request", more)
		p.ask("Hello")
		p.reads(reply+" [role=alert]", "<img src=x")
		p.runsNothing(more)
	}
}

// runsNothing fails if a text became something that the page did not make.
func (p *page) runsNothing(text string) {
	p.t.Helper()
	if eval[bool](p, `'hacked' in window || !!document.querySelector('main :is(script, iframe, svg, object, embed), '+
		'main [onerror], main [onload], main img[src^="http"], main img[src="x"], '+
		'main a[href]:not([href^="http"]):not([href^="#"])')`) {
		p.t.Errorf("%q became a part of the page: %s", text, eval[string](p, `document.querySelector('.log').outerHTML`))
	}
}

func TestChatAsksForKeys(t *testing.T) {
	s := serve(t, "[server]\napi_keys = [\"right-key\"]\n")
	p := open(t, s.URL, "/#/chat")
	p.find("dialog", "Key")
	p.reads("dialog [role=alert]", "This server needs a key.")
	p.silent("dialog", "401")
	p.fill("textbox", "Key of this server", "wrong-key")
	p.press(kb.Enter)
	p.reads("dialog [role=alert]", "This server does not know that key.")
	p.eventually("it is asked again", `document.querySelectorAll('dialog').length === 1 &&
		document.querySelector('dialog input').value === 'wrong-key'`)
	p.checkNames()
	p.shots("chat-key")
	p.fill("textbox", "Key of this server", "right-key")
	p.click("button", "Use key")
	p.reads(".model-name", "tgi-demo")
	p.absent("dialog", "Key")
	p.ask("Who are you?")
	p.reads(reply+" .stats", "tokens")
	p.click("button", "Code")
	p.reads("#snippet", "$TGI_API_KEY")
	p.silent("#snippet", "right-key")
	p.click("button", "Close")
	p.do(chromedp.Reload())
	p.reads(".model-name", "tgi-demo")
	if kept := eval[string](p, `JSON.stringify(localStorage) + document.cookie + location.href`); strings.Contains(kept, "key") {
		t.Errorf("the browser keeps %s", kept)
	}
	fresh := open(t, s.URL, "/#/chat")
	fresh.find("dialog", "Key")
	fresh.click("button", "Cancel")
	fresh.absent("dialog", "Key")
	fresh.reads(".composer-error", "This server needs a key.")
}

// TestChatSendsImages: a model that reads images is given them; the button is for such models alone.
func TestChatSendsImages(t *testing.T) {
	demo := openSettled(t, serve(t, "").URL)
	demo.absent("button", "+ Image")
	p := openSeeing(t)
	eval[chromedp.Void](p, `(async () => {
		const canvas = Object.assign(document.createElement('canvas'), {width: 40, height: 30});
		canvas.getContext('2d').fillRect(5, 5, 20, 20);
		const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
		const files = new DataTransfer();
		files.items.add(new File([blob], 'a.png', {type: 'image/png'}));
		const input = document.querySelector('.composer input[type=file]');
		input.files = files.files;
		input.dispatchEvent(new Event('change'));
	})()`)
	p.find("button", "Remove image 1")
	p.ask("What is this?")
	p.reads(reply+" .stats", "3 tokens")
	p.eventually("the image is in the message", `document.querySelector('.message.user img')?.naturalWidth === 40`)
}
