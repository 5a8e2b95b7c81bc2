package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/sdk/abi"
	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host/catalog"
	"tgi/server/share"
	"tgi/server/share/install"
	"tgi/server/share/registry"
)

// sharing is what the commands that speak to a registry have in common.
type sharing struct {
	flags     config.Flags
	plainHTTP bool
	timeout   time.Duration
	output    output
}

// remoteFlags adds those of a registry.
func (s *sharing) remoteFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.plainHTTP, "plain-http", false, "speak HTTP without TLS, to a registry of your own network")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 5*time.Minute, "`time` for everything")
}

// settingsFlags adds those of the settings' file.
func (s *sharing) settingsFlags(cmd *cobra.Command) {
	addSettings(cmd, &s.flags)
	cmd.Annotations = map[string]string{settingsShown: "config"}
}

// runs wraps a command: a context that ends with an interrupt or the timeout, and its arguments, at least least.
func (s *sharing) runs(name string, least, most int, want string,
	run func(ctx context.Context, words []string, stdout io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, words []string) error {
		if len(words) < least || len(words) > most {
			return misused("plugin %s takes %s", name, want)
		}
		if s.timeout < 0 {
			return misused("--timeout must be >= 0s, given %s", s.timeout)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		if s.timeout > 0 {
			var done context.CancelFunc
			ctx, done = context.WithTimeout(ctx, s.timeout)
			defer done()
		}
		err := run(ctx, words, cmd.OutOrStdout())
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("not done within --timeout %s: %w", s.timeout, err)
		}
		return err
	}
}

// open returns the repository of a reference.
func (s *sharing) open(text string, limit int64) (*registry.Repository, registry.Reference, error) {
	at, err := registry.Parse(text)
	if err != nil {
		return nil, at, usageError(err.Error())
	}
	r, err := registry.Open(at, registry.Options{PlainHTTP: s.plainHTTP, Limit: limit, Agent: "tgi/" + version})
	return r, at, err
}

// isReference tells a reference from a name and from a file: it has a slash, and no file is there.
func isReference(word string) bool {
	_, err := os.Stat(word)
	return strings.Contains(word, "/") && err != nil && !strings.HasSuffix(word, ".wasm")
}

// policyOf reads the keys of signers.
func policyOf(signers []config.PluginSigner) (share.Policy, error) {
	p, err := share.NewPolicy(signers)
	if err != nil {
		err = config.Wrong(err)
	}
	return p, err
}

// packing says what a module is packed with beside its own description.
type packing struct {
	checking
	license, source string
	// anew: what stands beside the module of an earlier build is replaced.
	anew bool
}

func (p *packing) packFlags(cmd *cobra.Command) {
	p.checkFlags(cmd)
	cmd.Flags().StringVar(&p.license, "license", "", "SPDX `expression` of the licence, for the description")
	cmd.Flags().StringVar(&p.source, "source-url", "", "`URL` of the source code, for the description")
}

// pack reads a module with the file beside it, or else checks and describes it.
func (p *packing) pack(ctx context.Context, file string, stdout io.Writer) (a share.Artifact, err error) {
	module, err := check.ReadModule(file)
	if err != nil {
		return a, err
	}
	a, err = share.ReadBeside(file, module)
	other := errors.Is(err, share.ErrOther)
	if other && !p.anew {
		return a, fmt.Errorf("%w; the module was built again after it was signed: sign it with tgi plugin sign, or remove "+
			"that file to push it unsigned", err)
	}
	if other {
		p.earlier(a)
	} else if !errors.Is(err, os.ErrNotExist) {
		if err == nil && (p.license != "" || p.source != "") {
			err = misused("--license and --source-url: %s has a description already, which is signed: remove it to make "+
				"another", share.Beside(file))
		}
		return a, err
	}
	cases, err := p.cases()
	if err != nil {
		return a, err
	}
	if err := p.settle(module); err != nil {
		return a, err
	}
	r, err := check.Run(ctx, catalog.NameOf(file), module,
		check.Options{Cases: cases, Limits: p.limits})
	if err != nil {
		return a, err
	}
	if !r.Sound() {
		r.WriteText(stdout, check.TextOptions{File: file, Limits: p.limits, ParamsGiven: len(p.params) > 0})
		return a, errReported
	}
	d := r.Summary
	return share.Pack(module, share.Description{Name: d.Name, Version: d.Version, Doc: d.Doc, Kinds: d.Kinds,
		ABI: abi.Version, Params: d.Params, License: p.license, Source: p.source})
}

// earlier takes licence and source from the description of an earlier build, where none are given.
func (p *packing) earlier(a share.Artifact) {
	var d share.Description
	if json.Unmarshal(a.Config, &d) == nil {
		p.license, p.source = cmp.Or(p.license, d.License), cmp.Or(p.source, d.Source)
	}
}

// newPluginPush sends a module to a registry.
func newPluginPush() *cobra.Command {
	s, p, move := &sharing{}, &packing{}, false
	cmd := &cobra.Command{Use: "push FILE.wasm REGISTRY/NAME[:TAG]", ValidArgsFunction: modules,
		Short: "Send a module and its signatures to an OCI registry; the tag is the module's version by default"}
	cmd.RunE = s.runs("push", 2, 2, "a .wasm file and a reference", func(ctx context.Context, words []string,
		stdout io.Writer) error {
		if err := install.CheckPush(words[0], words[1]); err != nil {
			return usageError(err.Error())
		}
		a, err := p.pack(ctx, words[0], stdout)
		if err != nil {
			return err
		}
		r, at, err := s.open(words[1], int64(len(a.Module)))
		if err != nil {
			return err
		}
		d, err := a.Open()
		if err != nil {
			return err
		}
		if at, err = at.Tagged(d.Version); err != nil {
			return usageError(err.Error())
		}
		if err := r.Push(ctx, a, at.Tag, move); err != nil {
			return err
		}
		return p.output.say(stdout, install.Summary{Reference: at.String(), Digest: a.Digest(), Name: d.Name,
			SHA256: a.SHA256(), Signatures: len(a.Signatures)}, "pushed %s\ndigest %s, %s\n", at, a.Digest(),
			terminal.Count(len(a.Signatures), "signature"))
	})
	cmd.Flags().BoolVar(&move, "move-tag", false, "let the tag name this artefact where it names another one")
	p.packFlags(cmd)
	s.remoteFlags(cmd)
	return cmd
}

// say prints a result as JSON or as text.
func (o output) say(w io.Writer, v any, format string, args ...any) error {
	if o.json {
		return printIndented(w, v)
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// fetch gets what a reference names by get, holds it to the policy and keeps it in the index.
func (s *sharing) fetch(ctx context.Context, cfg config.Config, word string, get install.Fetcher) (share.Artifact,
	install.Summary, error) {
	r, at, err := s.open(word, int64(cfg.Plugins.UploadLimit))
	if err != nil {
		return share.Artifact{}, install.Summary{}, err
	}
	policy, err := policyOf(cfg.PluginSigner)
	if err != nil {
		return share.Artifact{}, install.Summary{}, err
	}
	return install.FetchIn(ctx, cfg, r, at, policy, get)
}

// newPluginPull fetches an artefact into the local index.
func newPluginPull() *cobra.Command {
	s := &sharing{}
	cmd := &cobra.Command{Use: "pull REFERENCE",
		Short: "Fetch a plugin from a registry into the local index, checked and verified"}
	cmd.RunE = s.runs("pull", 1, 1, "one reference", func(ctx context.Context, words []string, stdout io.Writer) error {
		cfg, err := readSettings(&s.flags)
		if err != nil {
			return err
		}
		_, got, err := s.fetch(ctx, cfg, words[0], install.Fetch)
		if err != nil {
			return err
		}
		return s.output.say(stdout, got, "pulled %s\n%s", got.Reference, got.Signed())
	})
	s.settingsFlags(cmd)
	s.remoteFlags(cmd)
	s.output.flag(cmd)
	return cmd
}
