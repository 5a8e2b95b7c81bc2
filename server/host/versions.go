package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/admin"
)

// Bounds of the versions that are kept of an uploaded plugin beside the one that serves.
const (
	maxVersions     = 8
	maxVersionBytes = 64 << 20
)

// pastVersion is a version of an upload that was replaced and can come back.
type pastVersion struct {
	kept keptUpload
	wasm []byte // where no folder keeps it
}

// kept is what the folder says of an upload, without those before it.
func (u upload) kept(name string) keptUpload {
	sum, s, use := moduleSum(u.wasm), u.settings, useOf(u.settings)
	k := keptUpload{
		Module: name + "-" + sum[:16] + moduleExt, SHA256: sum, OnError: use.OnError, Apply: use.Apply,
		Limits: keptLimits(s.Limits), Config: s.Config, Keys: use.Keys,
		Signed:  u.signed,
		Version: u.version, Uploaded: u.uploaded, Bytes: int64(len(u.wasm)),
	}
	if s.OnFull != plugins.GuardStop {
		k.OnFull = string(s.OnFull)
	}
	if s.OnExhausted != plugins.GuardStop {
		k.OnExhausted = string(s.OnExhausted)
	}
	return k
}

// same reports whether two uploads behave alike.
func (k keptUpload) same(other keptUpload) bool {
	return k.SHA256 == other.SHA256 && k.OnError == other.OnError && k.Apply == other.Apply &&
		k.Limits == other.Limits && compact(k.Config) == compact(other.Config) &&
		k.OnFull == other.OnFull && k.OnExhausted == other.OnExhausted && slices.Equal(k.Keys, other.Keys)
}

// compact is a JSON text without white space, which a file adds.
func compact(text []byte) string {
	var b bytes.Buffer
	if len(text) == 0 || json.Compact(&b, text) != nil {
		return string(text)
	}
	return b.String()
}

// settings are how the upload is used.
func (k keptUpload) settings() plugins.Upload {
	return plugins.Upload{OnError: plugins.OnError(k.OnError), Apply: plugins.Apply(k.Apply),
		Limits: plugins.Limits(k.Limits), Config: k.Config, OnFull: plugins.GuardEnd(k.OnFull),
		OnExhausted: plugins.GuardEnd(k.OnExhausted), Clients: clientsOf(k.Keys)}
}

// replace returns what is kept once an upload takes the place of u: u and those before it, the latest first.
func (u upload) replace(name string, next upload, onDisk bool) []pastVersion {
	past := u.past
	if len(u.wasm) > 0 {
		before := pastVersion{kept: u.kept(name)}
		if !onDisk {
			before.wasm = u.wasm
		}
		past = append([]pastVersion{before}, past...)
	}
	return latestVersions(past, next.kept(name))
}

// latestVersions returns what is kept of versions, the latest first, beside the one that serves.
func latestVersions(past []pastVersion, serving keptUpload) (out []pastVersion) {
	size := int64(0)
	for _, p := range past {
		twice := slices.ContainsFunc(out, func(o pastVersion) bool { return o.kept.same(p.kept) })
		if p.kept.same(serving) || twice {
			continue
		}
		if size += p.kept.Bytes; len(out) == maxVersions || size > maxVersionBytes {
			break
		}
		out = append(out, p)
	}
	return out
}

// before are the versions that an upload replaced, as the folder has them.
func (k keptUpload) before() (list []pastVersion) {
	files := k.modules()
	for _, p := range k.Past {
		if slices.Contains(files, p.Module) {
			list = append(list, pastVersion{kept: p})
		}
	}
	return list
}

// history returns all versions of an upload that the folder keeps, the latest first: the one that a start would load
// too, if its module is whole.
func (dir uploadFolder) history(name string) (list []pastVersion) {
	k, err := dir.readSettings(name)
	if err == nil {
		if wasm, err := dir.readModule(k); err == nil {
			latest := k
			latest.Past, latest.Bytes = nil, int64(len(wasm))
			list = append(list, pastVersion{kept: latest})
		}
	}
	return append(list, k.before()...)
}

// versionsBeside returns the versions that can come back in the place of an upload: those that the folder keeps,
// whichever server put them there, or the memory where there is none. Those that served here come first, the latest
// before the others.
func (f *manager) versionsBeside(name string, u upload) []pastVersion {
	if f.folder == "" {
		return u.past
	}
	list := f.folder.history(name)
	if len(u.wasm) > 0 {
		now := u.kept(name)
		list = slices.DeleteFunc(list, func(p pastVersion) bool { return p.kept.same(now) })
	}
	place := func(p pastVersion) int {
		i := slices.IndexFunc(u.past, func(o pastVersion) bool { return o.kept.same(p.kept) })
		if i < 0 {
			return len(u.past)
		}
		return i
	}
	slices.SortStableFunc(list, func(a, b pastVersion) int { return cmp.Compare(place(a), place(b)) })
	return list
}

// named reports whether a version is one of to.
func (k keptUpload) named(to admin.VersionName) bool {
	return to.Names(k.SHA256, useOf(k.settings()).ID())
}

// shownVersion is a version as the admin routes show it.
func (k keptUpload) shownVersion(serving bool) admin.Version {
	use := useOf(k.settings())
	return admin.Version{SHA256: k.SHA256, Version: k.Version, Uploaded: k.Uploaded, Bytes: k.Bytes, Serving: serving,
		Apply: k.Apply, OnError: k.OnError, Settings: use.Set(), SettingsID: use.ID()}
}

// uploaded returns what was uploaded under a name.
func (f *manager) uploaded(name string) (upload, error) {
	f.mu.Lock()
	u, ok := f.uploads[name]
	f.mu.Unlock()
	if ok {
		return u, nil
	}
	if _, ok := f.Get(name); ok {
		return u, fmt.Errorf("%w: %s, and uploads alone have versions here", server.ErrNotUploaded,
			f.notUploaded(name))
	}
	return u, fmt.Errorf("%w: %.64q", server.ErrNoPlugin, name)
}

// notUploaded says where a plugin that was not uploaded comes from, and how its earlier version comes back.
func (f *manager) notUploaded(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := settingsBlock(f.cfg, name); p != nil && p.Reference != "" {
		return fmt.Sprintf("%s was installed from %s: tgi plugin rollback %[1]s, where the settings are, locks what "+
			"that replaced", name, p.Reference)
	}
	return name + " comes from the settings or the folder: its module is replaced there"
}

// keeps returns nil if a version of an upload is still kept.
func (f *manager) keeps(name string, k keptUpload) error {
	u, err := f.uploaded(name)
	if err == nil && !u.kept(name).same(k) && !slices.ContainsFunc(f.versionsBeside(name, u),
		func(p pastVersion) bool { return p.kept.same(k) }) {
		err = fmt.Errorf("%w: the version of %s with sha256 %s is not kept any more", server.ErrRefused, name, k.SHA256)
	}
	return err
}

// Versions implements admin.Plugins.
func (f *manager) Versions(name string) ([]admin.Version, error) {
	u, err := f.uploaded(name)
	if err != nil {
		return nil, err
	}
	list := []admin.Version{}
	if len(u.wasm) > 0 {
		latest := u.kept(name).shownVersion(true)
		latest.Error = f.uploadFault(name, latest.SHA256)
		latest.Serving = latest.Error == ""
		list = append(list, latest)
	}
	for _, p := range f.versionsBeside(name, u) {
		list = append(list, p.kept.shownVersion(false))
	}
	return list, nil
}

// uploadFault returns why the latest upload under a name serves with no model that runs, "" where it does with one, or
// none may have it. It was loaded when it came, and since then its signer may be gone, or the model be another.
func (f *manager) uploadFault(name, sum string) (why string) {
	for _, m := range f.running() {
		for _, p := range m.control.List() {
			switch {
			case p.Name != name:
			case p.SHA256 == sum && p.State != server.PluginFailed:
				return ""
			case p.State == server.PluginLoading:
				why = cmp.Or(why, "it is still being loaded")
			default:
				why = cmp.Or(why, p.Error, "the plugin of this name comes from "+p.Source)
			}
		}
	}
	return why
}

// Rollback implements admin.Plugins.
func (f *manager) Rollback(ctx context.Context, name, to string) (server.Plugin, error) {
	u, err := f.uploaded(name)
	if err != nil {
		return server.Plugin{}, err
	}
	wanted := admin.ParseVersionName(to)
	past := f.versionsBeside(name, u)
	i := slices.IndexFunc(past, func(p pastVersion) bool { return p.kept.named(wanted) })
	switch {
	case len(past) == 0:
		return server.Plugin{}, fmt.Errorf("%w: no earlier version of %s is kept", server.ErrRefused, name)
	case i < 0 && len(u.wasm) > 0 && u.kept(name).named(wanted):
		if why := f.uploadFault(name, moduleSum(u.wasm)); why != "" {
			return server.Plugin{}, fmt.Errorf("%w: the latest version of %s does not serve: %s", server.ErrRefused,
				name, why)
		}
		return server.Plugin{}, fmt.Errorf("%w: the version of %s that serves is the one whose sha256 begins with %.81q",
			server.ErrRefused, name, wanted)
	case i < 0:
		return server.Plugin{}, fmt.Errorf("%w: no earlier version of %s has a sha256 that begins with %.81q",
			server.ErrRefused, name, wanted)
	}
	for _, p := range past[i:] {
		other := p.kept.SHA256 != past[i].kept.SHA256 ||
			wanted.Settings && useOf(p.kept.settings()).ID() != useOf(past[i].kept.settings()).ID()
		if p.kept.named(wanted) && other && to != "" {
			return server.Plugin{}, fmt.Errorf("%w: several versions of %s have a sha256 that begins with %.81q",
				server.ErrRefused, name, wanted)
		}
	}
	back := past[i]
	wasm := back.wasm
	if f.folder != "" {
		if wasm, err = f.folder.readModule(back.kept); err != nil {
			return server.Plugin{}, cmp.Or(f.keeps(name, back.kept), fmt.Errorf("%w: the version of %s can't be read: %w",
				server.ErrRefused, name, err))
		}
	}
	p, err := f.put(ctx, name, upload{wasm: wasm, settings: back.kept.settings(), version: back.kept.Version,
		uploaded: back.kept.Uploaded, signed: back.kept.Signed},
		func([]string) error { return f.keeps(name, back.kept) })
	if err == nil {
		f.log.Info("plugin rolled back", "plugin", name, "from", moduleSum(u.wasm), "to", back.kept.SHA256)
	}
	return p, err
}

// Try implements admin.Plugins.
func (f *manager) Try(ctx context.Context, name string, wasm []byte, s admin.Settings) (admin.Trial, error) {
	ready := map[*loadedModel]*plugins.Prepared{}
	defer func() {
		for _, p := range ready {
			p.Discard()
		}
	}()
	use, kept, err := f.useOver(name, s)
	if err != nil {
		return admin.Trial{}, err
	}
	if err := f.prepare(ctx, name, newUpload(wasm, s.Signed, use), ready); err != nil {
		return admin.Trial{}, kept.explain(adminError(err))
	}
	if err := f.checkKinds(name, kindsOf(ready), s); err != nil {
		return admin.Trial{}, err
	}
	t := admin.Trial{DryRun: true, Models: []string{}}
	for _, m := range f.running() {
		p := ready[m]
		if p == nil {
			continue
		}
		t.Refuses = p.Refuses()
		status, err := p.Status(ctx)
		if errors.Is(err, plugins.ErrClosed) {
			continue
		}
		if err != nil {
			return admin.Trial{}, adminError(err)
		}
		t.Plugin = shownPlugin(status)
		t.Models = append(t.Models, string(m.id))
	}
	if len(t.Models) == 0 {
		return admin.Trial{}, fmt.Errorf("%w: no model that runs may have plugin %s: nothing can check it",
			server.ErrRefused, name)
	}
	if before, ok := f.Get(name); ok {
		t.Replaces = &admin.Version{SHA256: before.SHA256, Version: before.Version, Serving: before.State ==
			server.PluginReady, Apply: before.Apply, OnError: before.OnError}
	}
	t.Settings = admin.Compare(kept.before, useOf(use))
	return t, nil
}

// Log implements admin.Plugins.
func (f *manager) Log(name string, after uint64) ([]admin.LogLine, error) {
	lines := f.pluginLogs.Lines(name, after)
	if _, ok := f.Get(name); !ok && len(lines) == 0 {
		return nil, fmt.Errorf("%w: %.64q", server.ErrNoPlugin, name)
	}
	out := make([]admin.LogLine, len(lines))
	for i, l := range lines {
		out[i] = admin.LogLine(l)
	}
	return out, nil
}
