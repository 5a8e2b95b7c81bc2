package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/plugins/project"
	"tgi/plugins/tryout"
	"tgi/server/client/call"
	"tgi/server/client/develop"
	"tgi/server/client/operate"
	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// newPluginDev builds and tries a project after each change.
func newPluginDev() *cobra.Command {
	var url, key, askKey, model, prompt, name string
	var params, settings, configs objects
	cmd := &cobra.Command{
		Use:   "dev [flags] [DIR]",
		Short: "Build a project after each change, check and load it, show what a prompt becomes",
		Long: `Watch a project: after each change of a source, build it, check it as tgi plugin check does, have a
server load the module, and show what a prompt becomes without the plugin and with it, and what it printed. Without
--url the server is one of this process, with the demo model or that of --model-id. What was uploaded to the server of
--url under a new name is removed at the end.
Modules that requests cannot name are fed as by tgi plugin run.`,
		Example: `  tgi plugin dev no-digits --prompt "What is three plus four?"
  tgi plugin dev --params '{"n": 3}' --settings '{"temperature": 1, "seed": 7}'
  tgi plugin dev --url http://127.0.0.1:3000 --key ADMIN --ask-key KEY`,
		Args: atMost(1), ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, words []string) error {
			p, err := project.Open(folderOr(words))
			if err != nil {
				return err
			}
			if len(params) > 1 || len(settings) > 1 || len(configs) > 1 {
				return misused("--params, --settings and --config may be given once each")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if name == "" {
				abs, err := filepath.Abs(p.Dir)
				if err != nil {
					return err
				}
				name = strings.ToLower(filepath.Base(abs))
			}
			if err := config.CheckName(name); err != nil {
				return misused("--name: %q %v", name, err)
			}
			o := develop.Options{Dir: p.Dir, Name: name, Prompt: prompt, Out: cmd.OutOrStdout(), Build: p.Build,
				Params: one(params), Settings: one(settings), Config: one(configs)}
			o.Check = func(ctx context.Context, file string, out io.Writer) error {
				return catalog.CheckModule(ctx, file, p.Language, check.Case{Config: cmp.Or(string(o.Config), "{}"),
					Params: cmp.Or(string(o.Params), "{}")}, out)
			}
			o.Try = func(ctx context.Context, file string, out io.Writer) error {
				return tryFile(ctx, file, model, tryout.Options{Config: o.Config, Params: o.Params}, out)
			}
			key = operate.AdminKey(key, os.LookupEnv)
			if url != "" && model != "" {
				return misused("--url asks a server that runs, --model-id starts one: give one")
			}
			if url != "" {
				return developOn(ctx, o, url, key, cmp.Or(askKey, key))
			}
			return developHere(ctx, o, model, cmd.ErrOrStderr())
		},
	}
	set := cmd.Flags()
	set.StringVar(&prompt, "prompt", "What is three plus four?", "`text` that the model is asked")
	set.Var(&params, "params", "parameters of the plugin, a JSON `object`")
	set.Var(&settings, "settings", "members of the request, a JSON `object`; by default temperature 0 and 64 tokens")
	set.Var(&configs, "config", "the module's configuration, a JSON `object`; by default {}, and what the server "+
		"of --url has stays")
	set.StringVar(&name, "name", "", "`name` of the plugin on the server; by default the folder's")
	set.StringVar(&model, "model-id", "", "`folder` of the model that the own server runs; by default the demo model's")
	set.StringVar(&url, "url", "", "a running server's `URL`")
	set.StringVar(&key, "key", "", "with --url: an admin `key` of the server; by default the variable ADMIN_KEY has it")
	set.StringVar(&askKey, "ask-key", "", "with --url: a `key` of the server that may generate; by default that of --key")
	must(cmd.MarkFlagDirname("model-id"))
	return cmd
}

// one is the object that a flag was given, nil for none.
func one(o objects) json.RawMessage {
	if len(o) == 0 {
		return nil
	}
	return json.RawMessage(o[0])
}

// tryFile feeds a module one step or one text.
func tryFile(ctx context.Context, file, model string, o tryout.Options, out io.Writer) (err error) {
	o.Name, o.Prompt = catalog.NameOf(file), "Once upon a time"
	if o.Wasm, err = check.ReadModule(file); err != nil {
		return err
	}
	if o.Vocabulary, o.Model, err = host.Tokenizer(model); err != nil {
		return err
	}
	r, err := tryout.Run(ctx, o)
	if r == nil || r.Name == "" {
		return err
	}
	return errors.Join(r.Write(out, terminal.Line), err)
}

// developOn develops on a server that runs.
func developOn(ctx context.Context, o develop.Options, url, key, askKey string) (err error) {
	if o.Server, err = operate.New(url, key); err == nil {
		o.Caller, err = call.New(url, askKey, nil)
	}
	if err != nil {
		return misused("--url: %v", err)
	}
	return develop.Run(ctx, o)
}

// developHere develops on a server of this process, which keeps nothing.
func developHere(ctx context.Context, o develop.Options, model string, stderr io.Writer) error {
	admin, key, cfg := rand.Text(), rand.Text(), config.Default()
	cfg.Model.Path, cfg.Server.Hostname, cfg.Server.Port = model, "127.0.0.1", 0
	cfg.Server.APIKeys, cfg.Server.AdminKeys, cfg.Plugins.Uploads = []string{key}, []string{admin}, ""
	if err := cfg.Validate(); err != nil {
		return config.Wrong(err)
	}
	h, err := host.Open(ctx, host.Options{Config: catalog.Only(cfg, cfg.DefaultModel()), Version: version, Brief: true,
		Log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := net.Listen("tcp", net.JoinHostPort(cfg.Server.Hostname, "0"))
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // it ends after the last question
	done := make(chan error, 1)
	go func() { done <- h.Serve(serving, l) }()
	o.Ends = true
	err = developOn(ctx, o, urlOf(l.Addr(), false), admin, key)
	stop()
	return errors.Join(err, <-done)
}
