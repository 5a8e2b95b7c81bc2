package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tgi/models/library"
	"tgi/models/library/fetch"
	"tgi/models/library/progress"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// pullCall is what a pull was asked for.
type pullCall struct {
	cfg    config.Config
	id     library.ID
	source fetch.Source
}

// pullFlags are the flags of `tgi model pull`.
type pullFlags struct{ id, revision, sha256 string }

// newModelPull fetches a model into the folder.
func newModelPull() *cobra.Command {
	var given pullFlags
	var flags *config.Flags
	cmd := &cobra.Command{
		Use: "pull SOURCE", Short: "Fetch a model from the hub or from an archive",
		Long: `Fetch a model: namespace/name of the hub, with :FILE or :Q4_K_M to choose one of several GGUF files; the URL of a
GGUF file or of an archive (tar, tar.gz, zip); or the name of a [[model]] in tgi.toml that has a source. A pull that
was broken off, by Ctrl-C too, continues where it stopped when the same command is given again.`,
		Example: `  tgi model pull Qwen/Qwen2.5-0.5B-Instruct
  tgi model pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
  tgi model pull Qwen/Qwen2.5-0.5B-Instruct@main --id small`,
		Annotations: map[string]string{exitNote: ", 130 interrupted by Ctrl-C"},
		Args:        takesOne("model pull takes one source, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg, err := readSettings(flags)
			if err != nil {
				return err
			}
			call, err := readPull(cfg, words[0], given)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
			return call.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	set := cmd.Flags()
	set.StringVar(&given.id, "id", "", "`id` of the model in the folder; default: the source's name")
	set.StringVar(&given.revision, "revision", "",
		"`branch`, tag or commit of the hub's repository; also as namespace/name@REVISION")
	set.StringVar(&given.sha256, "sha256", "", "expected checksum of the archive, in `hex`")
	flags = withSettings(cmd)
	return cmd
}

// readPull checks what a pull is asked for.
func readPull(cfg config.Config, source string, given pullFlags) (c pullCall, err error) {
	id, revision, sum := given.id, given.revision, given.sha256
	for _, m := range cfg.All() { // the name of one that is declared means its source
		if m.Name == source && m.Source != "" && id == "" && revision == "" {
			id, source = m.Name, m.Source
		}
	}
	asked, err := config.ParseSource(source)
	switch {
	case err != nil:
		return c, misused("source %v", err)
	case revision != "" && asked.URL != "":
		return c, misused("--revision is for repositories of the hub, a URL has none")
	case revision != "" && asked.Revision != "":
		return c, misused("the revision is given twice, as %s and as %s", asked.Revision, revision)
	case sum != "" && asked.URL == "":
		return c, misused("--sha256 is for URLs: the hub knows the checksums of its files")
	case revision != "":
		asked.Revision = revision
		source = asked.String()
	}
	if id == "" {
		id = config.DefaultID(source)
	}
	c.cfg = cfg
	if c.id, err = library.ParseID(id); err != nil {
		return c, usageError(err.Error())
	}
	if c.source, err = host.SourceOf(cfg.Models, source); err != nil {
		err = usageError(err.Error())
	}
	if len(c.source.Files) == 1 { // a file in the GGUF format
		c.source.Files[0].SHA256 = sum
	} else {
		c.source.SHA256 = sum
	}
	return c, err
}

// run fetches the model. Progress goes to stderr.
func (call *pullCall) run(ctx context.Context, stdout, stderr io.Writer) error {
	lib, err := host.OpenLibrary(call.cfg)
	if err != nil {
		return err
	}
	client, err := host.NewFetcher(call.cfg.Models, version)
	if err != nil {
		return err
	}
	before := lib.Partial(call.id)
	if before > 0 {
		fmt.Fprintf(stderr, "%s of %s are here already, going on from there\n", progress.Bytes(before), call.id)
	}
	started := time.Now()
	p := &fetch.Progress{}
	stop := progress.Show(stderr, string(call.id), before, p)
	_, err = client.Fetch(ctx, lib, call.id, call.source, p)
	stop()
	if err != nil {
		return call.failed(ctx, stderr, lib, err)
	}
	info, err := lib.Describe(call.id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %s, %s parameters, context of %d tokens, %s in %d files, in %s\n%s\n",
		call.id, info.Architecture, catalog.ParameterCount(info.Parameters), info.Context,
		progress.Bytes(info.Bytes), info.Files, time.Since(started).Round(time.Second/10), info.Dir)
	return err
}

// failed completes the error of a pull by what can be done about it.
func (call *pullCall) failed(ctx context.Context, stderr io.Writer, lib *library.Library, err error) error {
	id, left := call.id, ""
	if n := lib.Partial(id); n > 0 {
		left = fmt.Sprintf("%s are here: the same command goes on from there, `tgi model rm %s` removes them",
			progress.Bytes(n), id)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, strings.TrimSuffix("interrupted; "+left, "; "))
		return errInterrupted
	}
	switch {
	case errors.Is(err, library.ErrExists):
		return fmt.Errorf("%w: `tgi model rm %s` removes it, --id gives the new one another id", err, id)
	case errors.Is(err, library.ErrDeclared):
		return fmt.Errorf("%w: --id gives the new one another id", err)
	case errors.Is(err, library.ErrInUse):
		return err
	case call.source.Repo != "" && (errors.Is(err, fetch.ErrUnauthorized) || errors.Is(err, fetch.ErrNotFound)):
		err = fmt.Errorf("%w; if it is private, its token is given by HF_TOKEN, --hub-token or models.hub_token", err)
	case errors.Is(err, fetch.ErrNotFound):
		err = fmt.Errorf("%w: %w", err, fetch.ErrNotFound)
	}
	if left != "" {
		return fmt.Errorf("%w; %s", err, left)
	}
	return err
}
