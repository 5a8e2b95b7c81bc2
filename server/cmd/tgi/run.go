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
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/server/api/openai"
	"tgi/server/client/chat"
	"tgi/server/client/chat/lineedit"
	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// loadingSilence is how long opening a model may take before a notice is printed.
const loadingSilence = 2 * time.Second

// openingNotice is what is printed then.
const openingNotice = "opening the model ..."

// runFlags are the flags of `tgi run` itself.
type runFlags struct {
	url, key, model, system string
	history                 string
	pairs                   []string // of --set
	settings                map[string]json.RawMessage
}

// newRun talks with a model.
func newRun(c console) *cobra.Command {
	own, flags := runFlags{settings: map[string]json.RawMessage{}}, &config.Flags{}
	cmd := &cobra.Command{
		Use: "run [flags] [MESSAGE]", Short: "Talk with a model in the terminal",
		Long: `Talk with a model in the terminal: one of a server by --url, or else the configured one, which is opened in
this process. With a message it prints one answer. A word - stands for what comes on the pipe, which is the
message when there is none. At the prompt the arrow keys recall earlier entries and Tab completes commands.
NO_COLOR switches colours off.`,
		Example: `  tgi run                                     # talk; /help lists the commands
  tgi run "What is 3 plus 4?"                 # one answer
  git diff | tgi run "Say what changed:" -    # a message from a pipe
  tgi run --url http://127.0.0.1:3000         # any server of OpenAI's API`,
		Annotations: map[string]string{settingsShown: "config,model-id,chat-template,tool-call-parser,weights," +
			"models-folder,hub-url,hub-token,max-total-tokens,plugins-folder"},
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := own.check(cmd); err != nil {
				return err
			}
			var loaded config.Loaded
			if own.url == "" {
				var err error
				if loaded, err = loadConfig(flags); err != nil {
					return err
				}
			}
			for _, n := range loaded.Notices {
				fmt.Fprintln(c.errors, "tgi:", n)
			}
			return c.talk(cmd.Context(), own, loaded.Config, words)
		},
	}
	set := cmd.Flags()
	set.StringVar(&own.url, "url", "", "the server's `URL`; without it the model is opened in this process")
	set.StringVar(&own.key, "key", "", "the server's API `key`")
	set.StringVar(&own.model, "model", "", "`name` of the server's model, if it has several")
	set.StringVar(&own.system, "system", "", "system prompt `text`")
	set.StringArrayVar(&own.pairs, "set", nil,
		"member of requests as `KEY=VALUE`, such as temperature=0.7, or as two words; may be given several times")
	set.Lookup("set").Annotations = map[string][]string{pairFlag: {}}
	set.StringVar(&own.history, "history", historyFile(),
		"`file` that keeps what was typed at the prompt; empty keeps nothing")
	complete(cmd, "set", pairsOf(openai.ChatMembers())...)
	addSettings(cmd, flags)
	return cmd
}

// members are what requests of a chat may have.
func (f *runFlags) members() (m chat.Members) {
	if m.Names = openai.ChatMembers(); f.url == "" { // another server may take values that this one does not
		m.Check = openai.CheckChatMember
	}
	return m
}

// pairsOf are the beginnings of pairs with the names.
func pairsOf(names []string) []string {
	pairs := make([]string, len(names))
	for i, name := range names {
		pairs[i] = name + "="
	}
	return pairs
}

// check reads the pairs of --set and refuses flags that do not go together.
func (f *runFlags) check(cmd *cobra.Command) error {
	for _, pair := range f.pairs {
		key, text := chat.CutSetting(pair)
		value, err := f.members().Setting(key, text)
		if err != nil {
			return misused("--set: %v", err)
		}
		f.settings[key] = value
	}
	for _, name := range []string{"key", "model"} {
		if f.url == "" && cmd.Flags().Changed(name) {
			return misused("--%s belongs to the server at --url; a folder with a model is --model-id", name)
		}
	}
	var err error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		setting := flag.Annotations[config.FlagVariables] != nil || flag.Annotations[config.FlagNoEffect] != nil
		if f.url != "" && setting {
			err = misused("--%s is for a model in this process, not for the server at --url", flag.Name)
		}
	})
	return err
}

// colours says whether the environment allows colours on a terminal
// (no-color.org: NO_COLOR that is set and not empty forbids them).
func colours(lookup func(string) (string, bool)) bool {
	never, _ := lookup("NO_COLOR")
	term, _ := lookup("TERM")
	return never == "" && term != "dumb"
}

// talk opens the model, or finds the server, and asks.
func (c console) talk(parent context.Context, own runFlags, cfg config.Config, words []string) error {
	once := len(words) > 0 || !c.typed
	message := ""
	if once {
		var err error
		if message, err = c.message(words); err != nil {
			return err
		}
	}
	// Until there is a prompt, an interrupt ends it all.
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	defer func() { stop() }()
	client, done, err := c.client(ctx, own, cfg)
	if err != nil {
		return signalOr(ctx, err)
	}
	defer done()
	o := chat.Options{
		Members: own.members(),
		Client:  client, In: c.in, Out: c.out, Notes: c.out, Errors: c.errors,
		Terminal: c.shown, Colour: c.colour, System: own.system, Settings: own.settings,
	}
	if once || !c.shown {
		o.Notes = c.errors
	}
	if once {
		return chat.Once(ctx, o, message)
	}
	if editor := c.editor(own.history); editor != nil {
		defer editor.Close()
		o.Editor = editor
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	stop()
	ctx, stop = signal.NotifyContext(parent, syscall.SIGTERM)
	o.Interrupts = interrupts
	return chat.Talk(ctx, o)
}

// editor returns a line editor where the console is a terminal that can have one, and else nil.
func (c console) editor(history string) *lineedit.Editor {
	if !terminal.Is(c.in) || !terminal.Is(c.out) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	e, err := lineedit.New(history)
	if err != nil { // a conversation without a history is one
		fmt.Fprintln(c.errors, "tgi:", err)
		if e, err = lineedit.New(""); err != nil {
			return nil
		}
	}
	return e
}

// historyFile is where the history of conversations is kept, as XDG has it; "" where there is no home.
func historyFile() string {
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "tgi", "history")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "tgi", "history")
}

// signalOr returns the signal that ended ctx, if one did, and else err.
func signalOr(ctx context.Context, err error) error {
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
		return "", misused("run: the message is empty")
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
	h, err := c.open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	client, err := chat.NewClient(inProcess, "", cfg.DefaultModel(), chat.Inside(h))
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return client, func() { _ = h.Close() }, nil // nothing is left to lose
}

// inProcess is the address of a server in this process.
const inProcess = "http://in.process"

// open opens the default model of cfg in this process.
func (c console) open(ctx context.Context, cfg config.Config) (*host.Server, error) {
	log := &progressLog{Handler: slog.NewTextHandler(c.errors, &slog.HandlerOptions{Level: slog.LevelWarn}),
		progress: c.errors}
	late := time.AfterFunc(loadingSilence, func() { log.showProgress(openingNotice) })
	h, err := host.Open(ctx, host.Options{Config: catalog.Only(unlocked(cfg), cfg.DefaultModel()), Version: version,
		Build: host.BuildID(), Log: slog.New(log), Brief: true})
	late.Stop()
	log.open()
	return h, err
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
	return fmt.Errorf("find the model of %s: %w; --model names one", config.Shown(address), err)
}

// unlocked is cfg for whoever started the process: no keys, and the dialect
// whose chat is OpenAI's.
func unlocked(cfg config.Config) config.Config {
	cfg.Server.APIKeys, cfg.Server.AdminKeys, cfg.Key = nil, nil, nil
	cfg.Server.Dialect = dialect.Default().Name()
	return cfg
}

// progressLog lets warnings through and, until the model is open, shows what opening
// it says of its progress: messages without attributes.
type progressLog struct {
	slog.Handler
	mu       sync.Mutex // held while progress is written
	progress io.Writer
	opened   bool
}

// open ends the progress; none is written when it returned.
func (l *progressLog) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = true
}

// showProgress writes a line of progress until the model is open.
func (l *progressLog) showProgress(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		fmt.Fprintln(l.progress, "tgi:", text)
	}
}

// Enabled implements slog.Handler.
func (l *progressLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle implements slog.Handler.
func (l *progressLog) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case l.Handler.Enabled(ctx, r.Level):
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.Handler.Handle(ctx, r)
	case r.NumAttrs() == 0:
		l.showProgress(r.Message)
	}
	return nil
}
