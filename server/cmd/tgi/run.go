package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tgi/server"
	"tgi/server/api/openai"
	"tgi/server/client/chat"
	"tgi/server/config"
	"tgi/server/dialect"
)

const runUsage = `tgi run talks with a model in the terminal.

  tgi run                                     open the configured model here and talk; /help lists the commands
  tgi run "What is 3 plus 4?"                 print one answer
  git diff | tgi run "Say what changed:" -    - stands for what comes on the pipe, which is the message when there is none
  tgi run --url http://127.0.0.1:3000         talk with a server of OpenAI's API instead

  --url URL          the server; without it the model is opened in this process, without listening
  --key KEY          the server's key
  --model NAME       the server's model, if it has several
  --system TEXT      system prompt
  --set KEY=VALUE    member of requests, such as temperature=0.7 (or --set KEY VALUE); may be given several times

Colours are for terminals alone; NO_COLOR switches them off. Without --url it takes the flags of tgi serve:

`

// loadingSilence is how long opening a model may take before it is told.
const loadingSilence = 2 * time.Second

// stillOpening tells it.
const stillOpening = "opening the model ..."

// runFlags are the flags of `tgi run` itself.
type runFlags struct {
	url, key, model, system string
	settings                map[string]json.RawMessage
}

// console is what the command is attached to.
type console struct {
	in          io.Reader
	out, errors io.Writer
	// typed and shown say that in and out are terminals.
	typed, shown bool
	colour       bool
}

// runRun talks with a model.
func runRun(args []string, stdout, stderr io.Writer) int {
	c := console{in: os.Stdin, out: stdout, errors: stderr, typed: server.IsTerminal(os.Stdin)}
	if f, ok := stdout.(*os.File); ok {
		c.shown = server.IsTerminal(f)
	}
	c.colour = c.shown && coloured(os.LookupEnv)
	return c.run(args)
}

// coloured says whether the environment allows colours on a terminal
// (no-color.org: NO_COLOR that is set and not empty forbids them).
func coloured(lookup func(string) (string, bool)) bool {
	never, _ := lookup("NO_COLOR")
	term, _ := lookup("TERM")
	return never == "" && term != "dumb"
}

// run is runRun on a console.
func (c console) run(args []string) int {
	own, rest, err := splitRun(args)
	var cfg config.Config
	words := rest
	switch {
	case err != nil:
	case own.url != "":
		words, err = wordsOf(rest)
	default:
		var l config.Loaded
		l, err = config.Read(rest, os.LookupEnv)
		cfg, words = l.Config, l.Rest
		for _, n := range l.Notices {
			fmt.Fprintln(c.errors, "tgi:", n)
		}
		err = errors.Join(err, badRoute(cfg))
	}
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprint(c.out, runUsage)
		config.Usage(c.out)
		return 0
	case err != nil:
		fmt.Fprintln(c.errors, "tgi:", err)
		return 2
	}
	return exit(c.errors, c.talk(own, cfg, words))
}

// talk opens the model, or finds the server, and asks.
func (c console) talk(own runFlags, cfg config.Config, words []string) error {
	once := len(words) > 0 || !c.typed
	message := ""
	if once {
		var err error
		if message, err = c.message(words); err != nil {
			return err
		}
	}
	// Until there is a prompt, an interrupt ends it all.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer func() { stop() }()
	client, done, err := c.client(ctx, own, cfg)
	if err != nil {
		return because(ctx, err)
	}
	defer done()
	o := chat.Options{
		Members: openai.ChatMembers(),
		Client:  client, In: c.in, Out: c.out, Notes: c.out, Errors: c.errors,
		Terminal: c.shown, Colour: c.colour, System: own.system, Settings: own.settings,
	}
	if once || !c.shown {
		o.Notes = c.errors
	}
	if once {
		return chat.Once(ctx, o, message)
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	stop()
	ctx, stop = signal.NotifyContext(context.Background(), syscall.SIGTERM)
	o.Interrupts = interrupts
	return chat.Talk(ctx, o)
}

// because returns the signal that ended ctx, if one did, and else err.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// message joins the words of a message. A word - stands for what comes on the
// pipe, on lines of its own; so do no words.
func (c console) message(words []string) (string, error) {
	if len(words) == 0 {
		words = []string{"-"}
	}
	text, before := "", false // before: the last word came on the pipe
	for i, w := range words {
		piped := w == "-"
		if piped {
			data, err := io.ReadAll(c.in)
			if err != nil {
				return "", fmt.Errorf("read the message: %w", err)
			}
			w = strings.TrimRight(string(data), "\r\n")
		}
		switch {
		case i == 0:
		case piped, before:
			text += "\n"
		default:
			text += " "
		}
		text, before = text+w, piped
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("run: the message is empty")
	}
	return text, nil
}

// client returns what asks the model, and a function that ends it.
func (c console) client(ctx context.Context, own runFlags, cfg config.Config) (*chat.Client, func(), error) {
	if own.url != "" {
		client, err := chat.NewClient(own.url, own.key, own.model, nil)
		if err == nil && own.model == "" {
			err = findModel(ctx, client, own.url)
		}
		return client, func() {}, err
	}
	log := &quietLog{Handler: slog.NewTextHandler(c.errors, &slog.HandlerOptions{Level: slog.LevelWarn}), progress: c.errors}
	late := time.AfterFunc(loadingSilence, func() { log.say(stillOpening) })
	h, err := newHouse(ctx, only(unlocked(cfg), cfg.DefaultModel()), slog.New(log))
	late.Stop()
	log.open()
	if err != nil {
		return nil, nil, err
	}
	client, err := chat.NewClient("http://in.process", "", string(h.id), chat.Inside(h.server))
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return client, func() { _ = h.Close() }, nil // nothing is left to lose
}

// findModel has the server at address asked for the model that it has.
func findModel(ctx context.Context, client *chat.Client, address string) error {
	err := client.FindModel(ctx)
	var unreachable *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable):
		return err // which names the address; a name would not help
	}
	return fmt.Errorf("find the model of %s: %w; --model names one", address, err)
}

// unlocked is cfg for whoever started the process: no keys, and the dialect
// whose chat is OpenAI's.
func unlocked(cfg config.Config) config.Config {
	cfg.Server.APIKeys, cfg.Server.AdminKeys, cfg.Key = nil, nil, nil
	cfg.Server.Dialect = dialect.Default().Name()
	return cfg
}

// quietLog lets warnings through and, until the model is open, shows what opening
// it says of its progress: messages without attributes.
type quietLog struct {
	slog.Handler
	mu       sync.Mutex // held while progress is written
	progress io.Writer
	opened   bool
}

// open ends the progress; none is written when it returned.
func (l *quietLog) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = true
}

// say shows progress.
func (l *quietLog) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		fmt.Fprintln(l.progress, "tgi:", text)
	}
}

// Enabled implements slog.Handler.
func (l *quietLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (l *quietLog) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case l.Handler.Enabled(ctx, r.Level):
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.Handler.Handle(ctx, r)
	case r.NumAttrs() == 0:
		l.say(r.Message)
	}
	return nil
}

// splitRun takes the flags of `tgi run` itself out of args. After -- nothing is
// a flag.
func splitRun(args []string) (own runFlags, rest []string, err error) {
	var given []string
	own.settings = map[string]json.RawMessage{}
	texts := map[string]*string{"url": &own.url, "key": &own.key, "model": &own.model, "system": &own.system}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		name, value, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		to := texts[name]
		if a == "" || a[0] != '-' || to == nil && name != "set" {
			rest = append(rest, a)
			continue
		}
		if !inline {
			if i++; i == len(args) {
				return own, nil, fmt.Errorf("--%s wants a value", name)
			}
			value = args[i]
		}
		given = append(given, name)
		if to != nil {
			*to = value
			continue
		}
		key, text := chat.CutSetting(value)
		if key == value && i+1 < len(args) { // --set KEY VALUE
			i++
			text = args[i]
		}
		if own.settings[key], err = chat.Setting(key, text, openai.ChatMembers()); err != nil {
			return own, nil, fmt.Errorf("--set: %w", err)
		}
	}
	if own.url == "" {
		for _, name := range []string{"key", "model"} {
			if slices.Contains(given, name) {
				return own, nil, fmt.Errorf("--%s belongs to the server at --url; a folder with a model is --model-id", name)
			}
		}
	}
	return own, rest, nil
}

// wordsOf returns the arguments that are no flags; there must be no flags, since
// those that are left are of a model in this process.
func wordsOf(rest []string) ([]string, error) {
	for i, a := range rest {
		switch {
		case a == "--":
			return append(rest[:i:i], rest[i+1:]...), nil
		case a == "-h" || a == "--help":
			return nil, config.ErrHelp
		case len(a) > 1 && a[0] == '-':
			known := []string{"url", "key", "model", "system", "set"}
			near := strings.Replace(config.Suggest(strings.TrimLeft(a, "-"), known), "mean ", "mean --", 1)
			return nil, fmt.Errorf("%s is no flag of tgi run with --url%s", a, near)
		}
	}
	return rest, nil
}
