// Package doctor looks at all that a server needs before it serves, says what it found, and for what is wrong the cure.
// It loads no model, changes no setting, and prints no secret.
//
// Its caller is the command tgi doctor. Each group of checks runs in a goroutine of its own that Run awaits for a
// bounded time: one that hangs, as on a dead network disk, is left behind when the program ends.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host/hardware"
)

// Status says how bad it is.
type Status string

// Values of Status: Warn is what may go wrong or is unwise, Fail keeps the server from doing what it was set to.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Line is one check: what was looked at, what was found, and for what is not well the cure.
type Line struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Cure   string `json:"cure,omitempty"`
}

// report collects the lines of one group of checks.
type report struct{ lines []Line }

func (r *report) ok(check, format string, args ...any) {
	r.lines = append(r.lines, Line{check, OK, fmt.Sprintf(format, args...), ""})
}

func (r *report) warn(check, found, cure string) {
	r.lines = append(r.lines, Line{check, Warn, found, cure})
}

func (r *report) fail(check string, err error, cure string) {
	r.lines = append(r.lines, Line{check, Fail, err.Error(), cure})
}

// group is a few checks with the time that they may take together.
type group struct {
	name  string
	limit time.Duration
	run   func(context.Context, *report)
}

// Options say what to look at and where to write it.
type Options struct {
	Config config.Config
	// Wrong is what is wrong with Config, which may be the zero one then.
	Wrong error
	// Fetch first puts the libraries for NVIDIA GPUs into the cache folder.
	Fetch bool
	// JSON writes a list at the end, not each line when it is known.
	JSON bool
	Out  io.Writer
	Log  io.Writer // is told how far fetching is
}

// Run does all checks for settings, or says what is wrong with them and does those that need none. sound says that none
// failed.
func Run(ctx context.Context, o Options) (sound bool, err error) {
	if o.Fetch {
		if err := hardware.Fetch(ctx, o.Log); err != nil {
			return false, err
		}
	}
	lines := []Line{}
	found := func(l Line) {
		lines = append(lines, l)
		if !o.JSON && err == nil {
			_, err = io.WriteString(o.Out, l.String())
		}
	}
	if o.Wrong != nil {
		lookWithout(ctx, o, found)
	} else {
		look(ctx, o.Config, found)
	}
	if o.JSON {
		err = writeJSON(o.Out, lines)
	}
	return !slices.ContainsFunc(lines, func(l Line) bool { return l.Status == Fail }), err
}

// writeJSON writes JSON that is also read by people, and that a terminal obeys nothing of.
func writeJSON(w io.Writer, lines []Line) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(lines); err != nil {
		return err
	}
	_, err := io.WriteString(w, terminal.JSON(b.String()))
	return err
}

// String is the line as people read it.
func (l Line) String() string {
	text := fmt.Sprintf("%-4s  %-16s %s\n", l.Status, l.Check, l.Found)
	if l.Cure != "" {
		text += fmt.Sprintf("      %-16s -> %s\n", "", l.Cure)
	}
	return text
}

// look does all checks, and hands over each line when it is known.
func look(ctx context.Context, cfg config.Config, found func(Line)) {
	show := shower{secrets(cfg), found}
	file := cfg.File
	switch {
	case cfg.Stdin:
		file = "from the standard input"
	case file == "":
		file = "no file: defaults, flags and environment"
	}
	show.line(Line{"settings", OK, file, ""})
	d := &diagnosis{cfg: cfg}
	groups := []group{
		{"machine", 5 * time.Second, d.machine},
		{"device", 20 * time.Second, d.device},
		{"address", 5 * time.Second, d.addresses},
		{"keys", 5 * time.Second, d.keys},
		{"certificate", 5 * time.Second, d.certificate},
		{"redis", 10 * time.Second, d.redis},
		{"traces", 5 * time.Second, d.collector},
	}
	for _, m := range cfg.MCP {
		groups = append(groups, group{"mcp " + m.Name, 5 * time.Second, toolServer(m)})
	}
	for _, f := range d.folders() {
		groups = append(groups, group{f.check, 5 * time.Second, func(_ context.Context, r *report) { d.look(f, r) }})
	}
	for _, m := range cfg.All() {
		groups = append(groups, group{"model " + m.Name, 30 * time.Second, d.model(m)})
	}
	groups = append(groups, group{"plugin_signer", 5 * time.Second, d.signers},
		group{"plugins", 60 * time.Second, d.plugins})
	show.all(ctx, groups)
}

// lookWithout says what is wrong with the settings, and does the checks that are of use all the same: of the machine,
// and of what models compute on.
func lookWithout(ctx context.Context, o Options, found func(Line)) {
	show := shower{secrets(o.Config), found}
	show.line(Line{"settings", Fail, strings.ReplaceAll(o.Wrong.Error(), "\n", "; "),
		"correct what the message names; docs/configuration.md has all settings"})
	cfg, defaults := o.Config, config.Default()
	if _, _, err := config.ParseDevice(cfg.Runtime.Device); err != nil { // also where nothing could be read
		cfg.Runtime.Device = defaults.Runtime.Device
	}
	if cfg.Server.MaxConnections < 1 {
		cfg.Server.MaxConnections = defaults.Server.MaxConnections
	}
	d := &diagnosis{cfg: cfg}
	show.all(ctx, []group{{"machine", 5 * time.Second, d.machine}, {"device", 20 * time.Second, d.device}})
	rest := "addresses, keys, folders, models and plugins are not looked at: that needs settings"
	if o.Config.Runtime.Device == "" {
		rest += ", and what stands above is of the defaults"
	}
	show.line(Line{"the rest", Warn, rest, "correct the settings, and run tgi doctor again"})
}

// bounded runs a group until its time is over.
func bounded(ctx context.Context, g group) []Line {
	limited, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	done := make(chan *report, 1)
	go func() {
		r := &report{}
		g.run(limited, r)
		done <- r
	}()
	grace := time.NewTimer(g.limit + time.Second)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.lines
	case <-ctx.Done():
		return []Line{{g.name, Fail, "not looked at: interrupted", "run tgi doctor again"}}
	case <-grace.C:
		return []Line{{g.name, Fail, fmt.Sprintf("no answer within %s", g.limit),
			"look for a disk or a network that hangs, such as a dead network file system"}}
	}
}

// diagnosis is what the checks share. Groups run one after the other; one that hangs leaves its zero values to those
// behind it.
type diagnosis struct {
	cfg    config.Config
	choice hardware.Choice
	usable bool // choice is
	beside bool // a server already listens where this one would
	// signed says that the keys of all signers were read, without which no plugin is tried.
	signed bool
}

// shower hands lines over without secrets and controls.
type shower struct {
	hidden []string
	found  func(Line)
}

// all does checks, and hands over each line when it is known.
func (s shower) all(ctx context.Context, groups []group) {
	for _, g := range groups {
		for _, l := range bounded(ctx, g) {
			s.line(l)
		}
	}
}

func (s shower) line(l Line) {
	clean := func(text string) string {
		for _, h := range s.hidden {
			text = hide(text, h)
		}
		return terminal.Line(text)
	}
	l.Check, l.Found, l.Cure = clean(l.Check), clean(l.Found), clean(l.Cure)
	s.found(l)
}

// A secret is looked for wherever it may stand from leastHidden bytes on. A shorter one may be a part of many words, or
// one of them, and is looked for as a word: in quotes or as the password of a URL, and from leastWord bytes on, unless
// it is made of letters alone, everywhere.
const leastHidden, leastWord = 8, 4

// hide returns text without a secret.
func hide(text, secret string) string {
	const gone = "…"
	if len(secret) >= leastHidden {
		return strings.ReplaceAll(text, secret, gone)
	}
	rare := len(secret) >= leastWord && strings.ContainsFunc(secret, func(r rune) bool { return !unicode.IsLetter(r) })
	var b strings.Builder
	from := 0
	for {
		i := strings.Index(text[from:], secret)
		if i < 0 {
			return b.String() + text[from:]
		}
		i += from
		end := i + len(secret)
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[from:i])
		switch from = end; {
		case before == after && strings.ContainsRune("\"'`", before), before == ':' && after == '@',
			rare && !ofWord(before) && !ofWord(after):
			b.WriteString(gone)
		default:
			b.WriteString(secret)
		}
	}
}

// ofWord reports whether a character may be one of a word or a number.
func ofWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' }

// secrets are the parts of the settings that no line may show.
func secrets(cfg config.Config) (list []string) {
	add := func(text string) {
		if text != "" {
			list = append(list, text)
		}
	}
	for _, k := range cfg.AllKeys() {
		add(k.Key)
	}
	for _, k := range cfg.Server.AdminKeys {
		add(k)
	}
	add(cfg.Models.HubToken)
	for _, r := range redisURLs(cfg) {
		add(r.url)
		if u, err := url.Parse(r.url); err == nil {
			if password, ok := u.User.Password(); ok {
				add(password)
			}
		}
	}
	return list
}
