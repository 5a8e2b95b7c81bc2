package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"tgi/conformance/live"
)

// patience bounds each wait for a page that does not come to what is expected; none takes nearly as long.
const patience = 30 * time.Second

// chromium is the browser of all tests of the binary; each has a profile of its own in it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// launch starts the browser.
func launch() (context.Context, func(), error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil, errors.New("TGI_UI is set and there is no chromium: .ci/toolchains installs it")
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 860), chromedp.WSURLReadTimeout(time.Minute))
	ctx, stop := chromedp.NewContext(alloc)
	if err := chromedp.Do(ctx); err != nil {
		stop()
		stopAlloc()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return ctx, func() { stop(); stopAlloc() }, nil
}

// page is a tab.
type page struct {
	t   testing.TB
	ctx context.Context
	// base is the address of the server, without a slash at the end.
	base string

	mu       sync.Mutex
	problems []string
}

// demand leaves the test out where the pages are not to be driven.
func demand(t testing.TB) {
	t.Helper()
	if os.Getenv("TGI_UI") == "" {
		t.Skip("a browser drives the pages where TGI_UI is set: make test-ui")
	}
}

// serve starts the server with the demo model and the settings, which are the text of a tgi.toml.
func serve(t testing.TB, settings string) *live.Server {
	t.Helper()
	demand(t)
	return live.Start(t, settings)
}

// open opens a tab with a profile of its own at a path of the server, such as "/#/chat".
func open(t testing.TB, base, path string) *page {
	t.Helper()
	demand(t)
	chromium.once.Do(func() { chromium.ctx, chromium.stop, chromium.err = launch() })
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	ctx, stop := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	p := &page{t: t, ctx: ctx, base: base}
	if err := chromedp.Listen(ctx, p.watch); err != nil { // which opens the tab
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.shot("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
			t.Logf("the page:\n%s", p.text("body"))
		}
		stop()
		for _, text := range p.found() {
			t.Error(text)
		}
	})
	command(p, runtime.Enable, cdp.Empty{})
	command(p, cdplog.Enable, cdp.Empty{})
	command(p, network.Enable, network.EnableParams{})
	p.size(1280, 860)
	p.do(chromedp.Navigate(base + path))
	p.eventually("the page is there", `document.querySelector('#main')?.children.length > 0`)
	return p
}

// found returns what was wrong with the page until now, and forgets it.
func (p *page) found() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.problems
	p.problems = nil
	return list
}

func (p *page) problem(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// watch notes what no page may do. Replies of the server that are errors are no problem by themselves: pages show them.
func (p *page) watch(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		switch e.Type {
		case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeAssert:
			var args []string
			for _, a := range e.Args {
				args = append(args, strings.Trim(string(a.Value)+" "+a.Description, " "))
			}
			p.problem("the page logged (%s): %s", e.Type, strings.Join(args, " "))
		}
	case *runtime.EventExceptionThrown:
		p.problem("the page threw: %s", thrown(e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			p.problem("the browser says (%s): %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		p.allow(e.Request.URL)
	case *network.EventWebSocketCreated:
		p.allow(e.URL)
	}
}

// thrown is what an exception says.
func thrown(d *runtime.ExceptionDetails) string {
	if d.Exception != nil {
		return d.Exception.Description
	}
	return d.Text
}

// allow notes an address that is not the server's.
func (p *page) allow(address string) {
	if u, err := url.Parse(address); err == nil {
		u.User = nil // it is the same host for somebody
		if u.Scheme == "data" || strings.HasPrefix(u.String(), p.base+"/") {
			return
		}
	}
	p.problem("the page asks another host: %.200s", address)
}

// do runs actions, each of which must succeed in time.
func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// command sends a command of the protocol, which must succeed in time.
func command[P, R any](p *page, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	result, err := try(p, c, params)
	if err != nil {
		p.t.Fatalf("%s: %v", c.Method, err)
	}
	return result
}

// try is command for one that may fail.
func try[P, R any](p *page, c cdp.Command[P, R], params P) (R, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Call(ctx, c, params)
}

// eval returns the value of an expression in the page.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// eventually waits until an expression is true in the page.
func (p *page) eventually(what, condition string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(40 * time.Millisecond) {
		if eval[bool](p, `!!(`+condition+`)`) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("not after %s: %s (%s)", patience, what, condition)
		}
	}
}

// text is what a person reads of the elements that a selector names.
func (p *page) text(selector string) string {
	p.t.Helper()
	return eval[string](p, `[...document.querySelectorAll(`+quote(selector)+`)].map((e) => e.innerText).join('\n')`)
}

// reads waits until the elements that a selector names say a text.
func (p *page) reads(selector, text string) {
	p.t.Helper()
	p.eventually(selector+" reads "+text, `[...document.querySelectorAll(`+quote(selector)+`)]
		.some((e) => e.innerText.includes(`+quote(text)+`))`)
}

// silent waits until no element that a selector names says a text.
func (p *page) silent(selector, text string) {
	p.t.Helper()
	p.eventually(selector+" does not read "+text, `![...document.querySelectorAll(`+quote(selector)+`)]
		.some((e) => e.innerText.includes(`+quote(text)+`))`)
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// size makes the window so wide and high.
func (p *page) size(width, height int64) {
	p.t.Helper()
	command(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width,
		Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
}

// theme has the system want dark or light pages.
func (p *page) theme(name string) {
	p.t.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// shot leaves a picture of what is to be seen, where one is wanted.
func (p *page) shot(name string) {
	p.t.Helper()
	folder := os.Getenv("TGI_UI_SHOTS")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("no picture of %s: %v", name, err)
		return
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// shots leaves pictures of a page on wide and narrow screens, light and dark. Nothing may be wider than the screen.
func (p *page) shots(name string) {
	p.t.Helper()
	for _, s := range []struct {
		name          string
		width, height int64
	}{{"wide", 1280, 860}, {"phone", 390, 844}} {
		p.size(s.width, s.height)
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			p.shot(name + "-" + s.name + "-" + theme)
		}
		if wide := eval[int64](p, `document.documentElement.scrollWidth`); wide > s.width {
			p.t.Errorf("%s is %d pixels wide on a screen of %d", name, wide, s.width)
		}
	}
	p.size(1280, 860)
	p.theme("light")
	p.eventually("the window is wide again", "innerWidth === 1280") // what is loaded next is drawn for its width
}
