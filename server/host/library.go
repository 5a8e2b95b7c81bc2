package host

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/models/library/fetch"
	"tgi/server/config"
)

// OpenLibrary opens the models folder of cfg, with the models that cfg declares
// elsewhere.
func OpenLibrary(cfg config.Config) (*library.Library, error) {
	dir, err := cfg.Models.Dir()
	if err != nil {
		return nil, err
	}
	limits := library.DefaultLimits()
	if cfg.Models.MaxSize > 0 {
		limits.MaxBytes = int64(cfg.Models.MaxSize)
	}
	var list []library.Declared
	for _, m := range cfg.All() {
		id, err := library.ParseID(m.Name)
		if err != nil {
			return nil, err
		}
		switch {
		case m.Demo():
			list = append(list, library.Declared{ID: id, FS: demo.Checkpoint()})
		case m.Path != "":
			path, err := filepath.Abs(m.Path)
			if err != nil {
				return nil, err
			}
			list = append(list, library.Declared{ID: id, Dir: path})
		}
	}
	return library.Open(library.Options{Dir: dir, Limits: limits, Declared: list})
}

// NewFetcher returns what fetches models, from the hosts that m allows. version is the
// program's.
func NewFetcher(m config.Models, version string) (*fetch.Client, error) {
	hub, err := url.Parse(m.Hub)
	if err != nil {
		return nil, fmt.Errorf("models.hub: %w", err)
	}
	opt := fetch.Options{UserAgent: "tgi/" + version}
	if !slices.Contains(m.AllowHosts, config.EveryHost) {
		opt.Allow = func(u *url.URL) error { return allowed(u, hub, m.AllowHosts) }
	}
	return fetch.New(opt), nil
}

// allowed returns why nothing is fetched from u, or nil. Hubs redirect to hosts of
// their own domain: files of huggingface.co lie on hosts below hf.co, too.
func allowed(u, hub *url.URL, hosts []string) error {
	host := u.Hostname()
	ofHub := hub.Hostname() == "huggingface.co" && (host == "hf.co" || under(host, "hf.co"))
	if u.Host == hub.Host || under(host, hub.Hostname()) || ofHub || slices.Contains(hosts, u.Host) ||
		slices.Contains(hosts, host) {
		return nil
	}
	return fmt.Errorf("%w: host %s is neither that of models.hub nor among models.allow_hosts", fetch.ErrSource, u.Host)
}

// under says whether host is below domain.
func under(host, domain string) bool {
	return len(host) > len(domain)+1 && strings.EqualFold(host[len(host)-len(domain)-1:], "."+domain)
}

// lookTime bounds how long a source is asked, with its tries.
const lookTime = 5 * time.Second

// LookFor asks the source of a model of the settings whether it has it, and fetches nothing. wrong is why it will not
// be fetched as things are; unsure why nobody can say so now.
func LookFor(ctx context.Context, cfg config.Config, m config.Model, version string) (wrong, unsure error) {
	from, err := SourceOf(cfg.Models, sourceOf(m))
	if err != nil {
		return err, nil
	}
	client, err := NewFetcher(cfg.Models, version)
	if err != nil {
		return err, nil
	}
	ctx, stop := context.WithTimeout(ctx, lookTime)
	defer stop()
	err = client.Check(from)
	if err == nil {
		if err = client.Look(ctx, from); ctx.Err() != nil {
			return nil, err
		}
	}
	for _, certain := range []error{fetch.ErrNotFound, fetch.ErrUnauthorized, fetch.ErrForbidden, fetch.ErrSource,
		library.ErrUnusable, library.ErrPath, library.ErrLimit} {
		if errors.Is(err, certain) {
			return err, nil
		}
	}
	return nil, err
}

// SourceOf returns where a source of the settings, of a client or of the command
// line is fetched from.
func SourceOf(m config.Models, source string) (fetch.Source, error) {
	s, err := config.ParseSource(source)
	if err != nil {
		return fetch.Source{}, fmt.Errorf("%w: %w", fetch.ErrSource, err)
	}
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err == nil && hf.IsGGUF(path.Base(u.Path)) {
			return fetch.Source{Files: []fetch.File{{Path: path.Base(u.Path), URL: s.URL}}}, nil
		}
		return fetch.Source{URL: s.URL}, nil
	}
	return fetch.Source{URL: m.Hub, Repo: s.Repo, Revision: s.Revision, File: s.File, Token: m.HubToken}, nil
}
