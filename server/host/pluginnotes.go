package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/admin"
)

// notedPlugins are the plugins as the admin routes act on them: what is done to one, or refused, stands in its log with
// the key of who asked. The log of a plugin that is removed goes with it.
type notedPlugins struct {
	*manager
	refusals refusals
}

// refusals bounds what refusals write to the logs of plugins: a client that repeats one must not push out what else is
// there. It keeps maxRefusals names at most, each of a plugin that was there, so of 64 bytes at most.
type refusals struct {
	mu   sync.Mutex
	last map[string]refusal // by the name of the plugin, of those refused lately
}

// refusal is when one was noted last, and how many were not since.
type refusal struct {
	at    time.Time
	since int
}

// A refusal is noted once in refusalEvery for a plugin, with maxRefusal bytes of its error, and of maxRefusals plugins
// in that time: so many have logs.
const (
	refusalEvery = 10 * time.Second
	maxRefusal   = 512
	maxRefusals  = plugins.LogNames
)

// allow reports whether a refusal is noted, and how many before it were not.
func (r *refusals) allow(name string, now time.Time) (since int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, there := r.last[name]; there && now.Sub(last.at) < refusalEvery {
		last.since++
		r.last[name] = last
		return 0, false
	}
	since = r.last[name].since
	delete(r.last, name)
	for other, last := range r.last {
		if now.Sub(last.at) >= refusalEvery && last.since == 0 {
			delete(r.last, other)
		}
	}
	if len(r.last) >= maxRefusals { // what was not noted of the one that was noted first is not counted any more
		oldest := slices.MinFunc(slices.Collect(maps.Keys(r.last)), func(a, b string) int {
			return r.last[a].at.Compare(r.last[b].at)
		})
		if now.Sub(r.last[oldest].at) < refusalEvery {
			return 0, false
		}
		delete(r.last, oldest)
	}
	if r.last == nil {
		r.last = map[string]refusal{}
	}
	r.last[name] = refusal{at: now}
	return since, true
}

// forget forgets what was refused to a plugin that is removed.
func (r *refusals) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, name)
}

// note writes what came of an action to the log of a plugin, whatever the reason of a refusal: who looks for what was
// tried with a plugin looks there. A name that no plugin has gets no log by refusals, else clients could push out those
// of plugins: they are in the log of the server, as all requests.
func (f *notedPlugins) note(ctx context.Context, name, what string, err error) {
	if err != nil && (ctx.Err() != nil || !f.there(name)) {
		return
	}
	if key := server.KeyName(ctx); key != "" {
		what += " by key " + key
	}
	if err == nil {
		f.pluginLogs.Note(name, false, what)
		return
	}
	since, ok := f.refusals.allow(name, time.Now())
	if !ok {
		return
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "…"
	}
	text = fmt.Sprintf("not done: %s: %s", what, text)
	if since > 0 {
		text += fmt.Sprintf(" (and %d more since the last such line)", since)
	}
	f.pluginLogs.Note(name, true, text)
}

// there reports whether there is a plugin of that name, wherever it comes from and whether or not a model has it now.
func (f *notedPlugins) there(name string) bool {
	if _, ok := f.Get(name); ok {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.uploads[name]
	return ok || settingsBlock(f.cfg, name) != nil
}

// Refused implements admin.Plugins.
func (f *notedPlugins) Refused(ctx context.Context, name string, err error) {
	f.note(ctx, name, "upload", err)
}

// Put implements admin.Plugins.
func (f *notedPlugins) Put(ctx context.Context, name string, wasm []byte, s admin.Settings) (server.Plugin, error) {
	p, err := f.manager.Put(ctx, name, wasm, s)
	f.note(ctx, name, "upload of sha256 "+moduleSum(wasm), err)
	return p, err
}

// Rollback implements admin.Plugins.
func (f *notedPlugins) Rollback(ctx context.Context, name, to string) (server.Plugin, error) {
	p, err := f.manager.Rollback(ctx, name, to)
	what := "rollback"
	if err == nil {
		what += " to sha256 " + p.SHA256
	}
	f.note(ctx, name, what, err)
	return p, err
}

// StartCanary implements admin.Plugins.
func (f *notedPlugins) StartCanary(ctx context.Context, name string, wasm []byte, s admin.Settings) (admin.Canary,
	error) {
	c, err := f.manager.StartCanary(ctx, name, wasm, s)
	what := "canary"
	if s.Shadow {
		what = "shadow"
	}
	f.note(ctx, name, what+" of sha256 "+moduleSum(wasm), err)
	return c, err
}

// PromoteCanary implements admin.Plugins.
func (f *notedPlugins) PromoteCanary(ctx context.Context, name string) (server.Plugin, error) {
	p, err := f.manager.PromoteCanary(ctx, name)
	what := "promotion of the canary"
	if err == nil {
		what += ", sha256 " + p.SHA256 + ","
	}
	f.note(ctx, name, what, err)
	return p, err
}

// EndCanary implements admin.Plugins.
func (f *notedPlugins) EndCanary(ctx context.Context, name string) error {
	err := f.manager.EndCanary(ctx, name)
	f.note(ctx, name, "end of the canary", err)
	return err
}

// Delete implements admin.Plugins.
func (f *notedPlugins) Delete(ctx context.Context, name string) error {
	err := f.manager.Delete(ctx, name)
	if err == nil { // its log went with it
		f.refusals.forget(name)
		return nil
	}
	f.note(ctx, name, "removal", err)
	return err
}
