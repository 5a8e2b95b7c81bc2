// Package develop is the loop of `tgi plugin dev`: it builds a plugin's project after each change of a source, checks
// the module, has a server load it, and shows what a prompt becomes with the plugin and without it.
//
// It starts no goroutines. Whoever calls it says how a project is built, and has started the server.
package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"tgi/server/api/admin"
	"tgi/server/client/call"
	"tgi/server/client/operate"
	"tgi/server/client/terminal"
	"tgi/server/wire"
)

// Options of Run.
type Options struct {
	// Dir is the project, Name what the plugin is called on the server.
	Dir, Name string
	// Build builds the project and returns the module's file. What the build prints goes to log.
	Build func(ctx context.Context, log io.Writer) (string, error)
	// Check holds the module to the contract before it is loaded. What it finds goes to out.
	Check func(ctx context.Context, file string, out io.Writer) error
	// Try feeds a module that requests cannot name, such as a template, without the server.
	Try func(ctx context.Context, file string, out io.Writer) error
	// Server loads the module, Caller asks the same server.
	Server *operate.Server
	Caller *call.Caller
	// Ends says that the server ends with Run: nothing has to be removed from it.
	Ends bool
	// Prompt is what the model is asked, Settings are members of the request, Params those of the plugin, and Config is
	// what it is loaded with; each may be nil.
	Prompt                   string
	Settings, Params, Config json.RawMessage
	// Out gets everything that is shown.
	Out io.Writer
	// Every is how often the sources are looked at; 0 is a third of a second.
	Every time.Duration
}

// named are the kinds that a request names in its member plugins.
var named = []string{"logits", "sampler", "guard", "program", "draft"}

// loop is a running Run.
type loop struct {
	Options
	seen uint64 // the Seq of the last line of the plugin's log that was shown
	left upload
}

// upload is what Run left on the server.
type upload int

// Values of upload: none, one that may have arrived, one in the place of another, and one of a new name.
const (
	nothing upload = iota
	unknown
	replaced
	fresh
)

// removing bounds the removal of what was uploaded.
const removing = 10 * time.Second

// Run builds, checks, loads and asks at once, and again after each change, until ctx ends. What is wrong with the
// project is shown, and the next change tries again. An error is of the folder alone.
// What it uploaded under a new name is removed at the end.
func Run(ctx context.Context, o Options) error {
	if o.Every <= 0 {
		o.Every = time.Second / 3
	}
	l := &loop{Options: o}
	defer l.tidy(ctx)
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	built := "" // the sources that the last build had
	for last := ""; ; {
		now, err := stamp(os.DirFS(o.Dir))
		if err != nil {
			return fmt.Errorf("%s: %w", o.Dir, err)
		}
		if now != built && (now == last || built == "") { // an editor may still be writing
			built = now
			if err := l.turn(ctx); err != nil && ctx.Err() == nil {
				l.say("%s", terminal.Text(err.Error()))
			}
			if ctx.Err() == nil {
				l.say("waiting for a change in %s; Ctrl-C ends", terminal.Line(o.Dir))
			}
		}
		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// say shows a line with the time.
func (l *loop) say(format string, args ...any) {
	fmt.Fprintf(l.Out, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// turn builds the project, checks and loads the module and shows what it does.
func (l *loop) turn(ctx context.Context) error {
	began := time.Now()
	file, err := l.Build(ctx, l.Out)
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	l.say("built %s in %.1f s (%d KiB)", terminal.Line(file), time.Since(began).Seconds(), len(wasm)>>10)
	began = time.Now()
	if err := l.Check(ctx, file, l.Out); err != nil {
		return err
	}
	l.say("checked in %.1f s: sound", time.Since(began).Seconds())
	q := url.Values{}
	if l.Config != nil {
		q.Set("config", string(l.Config))
	}
	p, isNew, err := l.Server.Upload(ctx, l.Name, operate.Module{WASM: wasm}, q)
	if err != nil {
		if ctx.Err() != nil {
			l.left = max(l.left, unknown)
		}
		return err
	}
	if l.left = max(l.left, replaced); isNew {
		l.left = fresh
	}
	l.say("loaded %s", terminal.Line(p.Name+" "+p.Version+": "+strings.Join(p.Kinds, ", ")))
	if !slices.ContainsFunc(p.Kinds, func(kind string) bool { return slices.Contains(named, kind) }) {
		err = l.Try(ctx, file, l.Out)
	} else {
		err = l.compare(ctx)
	}
	return errors.Join(err, l.log(ctx))
}

// tidy removes what was uploaded under a new name, and says of anything else that it stays.
func (l *loop) tidy(ctx context.Context) {
	name := terminal.Line(l.Name)
	switch {
	case l.Ends || l.left == nothing:
	case l.left == unknown:
		l.say("an upload was interrupted: the server may have %s", name)
	case l.left == replaced:
		l.say("%s stays on the server: it was there before; tgi plugin rollback has its earlier version serve", name)
	default:
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), removing)
		defer stop()
		if err := l.Server.Delete(ctx, l.Name); err != nil {
			l.say("%s stays on the server: %s", name, terminal.Text(err.Error()))
			return
		}
		l.say("removed %s from the server", name)
	}
}

// compare asks without the plugin and with it.
func (l *loop) compare(ctx context.Context) error {
	without, err := l.ask(ctx, false)
	if err != nil {
		return fmt.Errorf("without the plugin: %w", err)
	}
	l.show("without", without)
	with, err := l.ask(ctx, true)
	if err != nil {
		return fmt.Errorf("with the plugin: %w", err)
	}
	l.show("with", with)
	if with.text == without.text {
		fmt.Fprintln(l.Out, "         (the same text)")
	}
	return nil
}

// answer is a reply.
type answer struct {
	text, finish string
	tokens       int
	took         time.Duration
	skipped      []string
}

func (l *loop) show(name string, a answer) {
	fmt.Fprintf(l.Out, "%8s %s\n         %s in %d ms, finish_reason %s\n", name, terminal.Line(a.text),
		terminal.Count(a.tokens, "token"), a.took.Milliseconds(), terminal.Line(a.finish))
	for _, s := range a.skipped {
		fmt.Fprintf(l.Out, "         skipped: %s\n", terminal.Line(s))
	}
}

// ask asks the model the prompt.
func (l *loop) ask(ctx context.Context, plugin bool) (a answer, err error) {
	body := map[string]any{"temperature": 0, "max_tokens": 64}
	if l.Settings != nil {
		if err := json.Unmarshal(l.Settings, &body); err != nil {
			return a, wire.Told(err)
		}
	}
	body["messages"] = []map[string]string{{"role": "user", "content": l.Prompt}}
	if plugin {
		one := map[string]any{"name": l.Name}
		if l.Params != nil {
			one["params"] = l.Params
		}
		body["plugins"] = []any{one}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	began := time.Now()
	reply, err := l.Caller.Do(ctx, http.MethodPost, "/v1/chat/completions", http.Header{}, text)
	if err != nil {
		return a, err
	}
	var got struct {
		Choices []struct {
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
		}
		Usage struct {
			Tokens int `json:"completion_tokens"`
		}
		Plugins []struct{ Name, Error string }
	}
	if reply.Status != http.StatusOK {
		hint := ""
		if reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden {
			hint = "; --ask-key wants a key that may generate"
		}
		return a, fmt.Errorf("%d %.2000s%s", reply.Status, reply.Body, hint)
	}
	if err := json.Unmarshal(reply.Body, &got); err != nil || len(got.Choices) == 0 {
		return a, fmt.Errorf("the reply is no completion: %.200s", reply.Body)
	}
	a = answer{text: got.Choices[0].Message.Content, finish: got.Choices[0].Finish, tokens: got.Usage.Tokens,
		took: time.Since(began)}
	for _, s := range got.Plugins {
		a.skipped = append(a.skipped, s.Name+": "+s.Error)
	}
	return a, nil
}

// log shows what the plugin printed since the last turn, and what the server says of it.
func (l *loop) log(ctx context.Context) error {
	return l.Server.Log(ctx, l.Name, l.seen, false, func(line admin.LogLine) error {
		l.seen = line.Seq
		return operate.WriteLine(l.Out, line)
	})
}
