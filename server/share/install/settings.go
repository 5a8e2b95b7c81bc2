package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/index"
	"tgi/server/share/registry"
)

// TargetOf is where settings have plugins installed.
func TargetOf(cfg config.Config) Target {
	return Target{File: cmp.Or(cfg.File, config.DefaultFile), Folder: cfg.Plugins.Installed}
}

// IndexOf is the local index, with the bound of settings for modules.
func IndexOf(cfg config.Config) (*index.Index, error) {
	dir, err := cfg.Plugins.IndexDir()
	return index.Open(dir, int64(cfg.Plugins.UploadLimit)), err
}

// Summary is what commands say of an artefact.
type Summary struct {
	Reference  string   `json:"reference,omitempty"`
	Digest     string   `json:"digest"`
	Name       string   `json:"name"`
	SHA256     string   `json:"sha256"`
	Signatures int      `json:"signatures"`
	Signers    []string `json:"signers,omitempty"`
	File       string   `json:"file,omitempty"`
	Replaced   string   `json:"replaced,omitempty"` // where the block had its module from
}

// Signed says who signed, as a line.
func (s Summary) Signed() string {
	if len(s.Signers) > 0 {
		return "signed by " + strings.Join(s.Signers, ", ") + "\n"
	}
	return terminal.Count(s.Signatures, "signature") + ", not verified: no [[plugin_signer]] is set\n"
}

// Locked returns the [[plugin]] of a name if its module came from a registry, else nil.
func Locked(cfg config.Config, name string) *config.Plugin {
	i := slices.IndexFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == name && p.Reference != "" })
	if i < 0 {
		return nil
	}
	return &cfg.Plugin[i]
}

// Check is Request.Check of a module, with the settings that have the block.
type Check func(ctx context.Context, cfg config.Config, was *config.Plugin, block config.Plugin, module []byte) error

// RollbackIn is Rollback of what settings lock, with their index and the policy of their signers. It says what it
// did, as a text too.
func RollbackIn(ctx context.Context, cfg config.Config, policy share.Policy, now config.Plugin, to string,
	check Check) (Summary, string, error) {
	x, err := IndexOf(cfg)
	if err != nil {
		return Summary{}, "", err
	}
	t := TargetOf(cfg)
	back, err := Rollback(ctx, t, x, policy, now, to, func(ctx context.Context, was *config.Plugin, p config.Plugin,
		module []byte) error {
		return check(ctx, cfg, was, p, module)
	})
	if err != nil {
		return Summary{}, "", err
	}
	s := summary(back.Artifact, back.Reference, now.Name, policy)
	s.File = back.File
	if back.Result.Replaced != nil {
		s.Replaced = Origin(*back.Result.Replaced)
	}
	return s, fmt.Sprintf("%s is %s again\n%sreplaced %s\nwrote its [[plugin]] in %s, "+
		"which a server with this file reads again (plugins.watch, or SIGHUP)\n", s.Name,
		terminal.Line(s.Reference), s.Signed(), s.Replaced, t.File), nil
}

// summary says what an artefact is, by a reference and under a name.
func summary(a share.Artifact, reference, name string, policy share.Policy) Summary {
	return Summary{Reference: reference, Digest: a.Digest(), Name: name, SHA256: a.SHA256(),
		Signatures: len(a.Signatures), Signers: policy.Signed(a)}
}

// Fetcher is Fetch or FetchOnce.
type Fetcher func(context.Context, *registry.Repository, registry.Reference, share.Policy,
	*index.Index) (share.Artifact, share.Description, string, error)

// FetchIn fetches into the index of settings, and says what it is.
func FetchIn(ctx context.Context, cfg config.Config, from *registry.Repository, at registry.Reference,
	policy share.Policy, get Fetcher) (share.Artifact, Summary, error) {
	x, err := IndexOf(cfg)
	if err != nil {
		return share.Artifact{}, Summary{}, err
	}
	a, d, kept, err := get(ctx, from, at, policy, x)
	if err != nil {
		return a, Summary{}, err
	}
	return a, summary(a, kept, d.Name, policy), nil
}

// InstallIn installs what was fetched where settings have plugins installed, under the name of got. It says what it
// did, as a text too.
func InstallIn(ctx context.Context, cfg config.Config, a share.Artifact, got Summary, replace bool,
	check Check) (Summary, string, error) {
	t := TargetOf(cfg)
	done, err := Install(ctx, t, Request{Name: got.Name, Reference: got.Reference, Artifact: a, Replace: replace,
		Check: func(ctx context.Context, was *config.Plugin, block config.Plugin) error {
			return check(ctx, cfg, was, block, a.Module)
		}})
	if err != nil {
		return got, "", err
	}
	got.File = done.File
	replaced := ""
	if done.Replaced != nil {
		got.Replaced = Origin(*done.Replaced)
		replaced = "replaced " + got.Replaced + "; the other keys of the block stay\n"
	}
	return got, fmt.Sprintf("installed %s as %q\n%s%swrote %s and its [[plugin]] in %s\n", terminal.Line(got.Reference),
		got.Name, got.Signed(), replaced, got.File, t.File), nil
}

// RemoveIn is Remove of a plugin of settings, with its artefact in the index; or it removes an artefact from the index
// alone. It names all that it removed. What it can't remove, or say, keeps nothing else; another try removes the rest.
func RemoveIn(ctx context.Context, cfg config.Config, name string, out io.Writer) error {
	x, err := IndexOf(cfg)
	if err != nil {
		return err
	}
	var unsaid error
	say := func(what, from string) {
		_, err := fmt.Fprintf(out, "removed %s%s\n", terminal.Line(what), from)
		unsaid = cmp.Or(unsaid, err)
	}
	i := slices.IndexFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == name })
	if i < 0 {
		files, err := TargetOf(cfg).removeLeft(ctx, name)
		for _, file := range files {
			say(file, "")
		}
		if err != nil || len(files) > 0 {
			return errors.Join(err, unsaid)
		}
		if err := x.Remove(ctx, name); err != nil {
			return fmt.Errorf("no [[plugin]] has this name, and %w; --url removes an upload from a server", err)
		}
		say(name, " from the local index")
		return unsaid
	}
	gone, files, err := Remove(ctx, TargetOf(cfg), name)
	if gone {
		say("[[plugin]] "+name, " from "+cfg.File)
		if cfg.Plugin[i].Apply == config.ApplyAlways { // its file alone never takes a guard from a server
			_, err := fmt.Fprintln(out, "it applied always: a server that runs keeps it until SIGHUP or POST /admin/reload")
			unsaid = cmp.Or(unsaid, err)
		}
	}
	for _, file := range files { // those that are gone also where one could not be removed
		say(file, "")
	}
	if reference := cfg.Plugin[i].Reference; gone && reference != "" {
		switch failed := x.Remove(ctx, reference); {
		case failed == nil:
			say(reference, " from the local index")
		case !errors.Is(failed, fs.ErrNotExist):
			err = errors.Join(err, failed)
		}
		left, failed := others(x, reference)
		err = errors.Join(err, failed)
		for _, other := range left {
			_, err := fmt.Fprintf(out, "kept %s in the local index; tgi plugin rm %[1]s removes it\n", terminal.Line(other))
			unsaid = cmp.Or(unsaid, err)
		}
	}
	return errors.Join(err, unsaid)
}

// others are the references of the index that are of the repository of another one.
func others(x *index.Index, reference string) (left []string, err error) {
	of, err := registry.Parse(reference)
	if err != nil {
		return nil, err
	}
	list, err := x.List()
	for _, e := range list {
		if at, err := registry.Parse(e.Reference); err == nil && at.Repository == of.Repository {
			left = append(left, e.Reference)
		}
	}
	return left, err
}

// CheckPush refuses folders in the place of a module and of the reference that it is pushed to, and what is no
// reference, before anything is checked or sent.
func CheckPush(file, to string) error {
	folder := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}
	switch {
	case folder(file):
		return fmt.Errorf("plugin push takes a .wasm file, %s is a folder: tgi plugin build makes the file of a project",
			file)
	case folder(to) || strings.HasPrefix(to, ".") || strings.HasPrefix(to, "/"):
		return fmt.Errorf("plugin push sends to an OCI registry, as to registry.example/plugins/NAME, and %s is a path of "+
			"this machine: to share the file itself copy it, with %s", to, share.Beside(filepath.Base(file)))
	}
	_, err := registry.Parse(to)
	return err
}
