package host

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// clientOfKey is what ClientOfKey puts before a name.
var clientOfKey = server.ClientOfKey("")

// clientsOf are the clients of keys, as plugins know them, keysOf the keys of such clients.
func clientsOf(keys []string) (clients []string) {
	for _, name := range keys {
		clients = append(clients, server.ClientOfKey(name))
	}
	return clients
}

func keysOf(clients []string) (keys []string) {
	for _, c := range clients {
		keys = append(keys, strings.TrimPrefix(c, clientOfKey))
	}
	return keys
}

// useOf is how an upload is used, as the admin routes have it, uploadOf the other way round.
func useOf(u plugins.Upload) admin.Use {
	d, l := admin.DefaultUse(), u.Limits
	return admin.Use{
		OnError: cmp.Or(string(u.OnError), d.OnError), Apply: cmp.Or(string(u.Apply), d.Apply),
		OnFull: cmp.Or(string(u.OnFull), d.OnFull), OnExhausted: cmp.Or(string(u.OnExhausted), d.OnExhausted),
		Keys: keysOf(u.Clients), Config: u.Config, Limits: config.PluginLimits{
			Memory: config.Size(l.Memory), FuelPerStep: l.FuelPerStep, FuelPerRequest: l.FuelPerRequest,
			FuelLoad: l.FuelLoad, TimePerStep: config.Duration(l.TimePerStep),
			TimePerRequest: config.Duration(l.TimePerRequest), TimeLoad: config.Duration(l.TimeLoad), Share: l.Share,
		},
	}
}

func uploadOf(u admin.Use) plugins.Upload {
	return plugins.Upload{
		OnError: plugins.OnError(u.OnError), Apply: plugins.Apply(u.Apply), OnFull: plugins.GuardEnd(u.OnFull),
		OnExhausted: plugins.GuardEnd(u.OnExhausted), Clients: clientsOf(u.Keys), Limits: limitsOf(u.Limits),
		Config: u.Config,
	}
}

// newUpload is a module that comes now, with what came with it.
func newUpload(wasm, signed []byte, use plugins.Upload) upload {
	return upload{wasm: wasm, signed: signed, uploaded: time.Now().UTC(), settings: use}
}

// keptUse says which settings an upload takes from what it replaces.
type keptUse struct {
	before *admin.Use // how that is used; nil where it replaces nothing
	names  []string   // of settings
}

// explain adds to the error of an upload what it did not say itself.
func (k keptUse) explain(err error) error {
	if !errors.Is(err, server.ErrRefused) || errors.Is(err, errOtherKinds) || len(k.names) == 0 {
		return err
	}
	return fmt.Errorf("%w (taken from what serves, as the query does not say it: %s)", err, strings.Join(k.names, ", "))
}

// useOver is how an upload is used: as its query says and, in what that leaves out, as what has the name.
func (f *manager) useOver(name string, s admin.Settings) (plugins.Upload, keptUse, error) {
	f.mu.Lock()
	u, ok := f.uploads[name]
	cfg := f.cfg
	f.mu.Unlock()
	before, names, kept := admin.DefaultUse(), keyNames(cfg), keptUse{}
	p := settingsBlock(cfg, name)
	switch {
	case p == nil && ok:
		before = useOf(u.settings)
	case p != nil: // beside which it may be a canary
		text, err := p.ConfigText()
		if err != nil {
			return plugins.Upload{}, kept, err
		}
		before = admin.Use{OnError: cmp.Or(p.OnError, before.OnError), Apply: cmp.Or(p.Apply, before.Apply),
			OnFull: cmp.Or(p.OnFull, before.OnFull), OnExhausted: cmp.Or(p.OnExhausted, before.OnExhausted),
			Keys: p.Keys, Limits: p.Limits, Config: text}
	}
	if ok || p != nil {
		kept = keptUse{&before, s.Kept(before)}
	}
	use, err := s.Over(before, names)
	return uploadOf(use), kept, err
}

// errOtherKinds: the name means something else to requests than what is uploaded under it.
var errOtherKinds = errors.New("the module is of another kind than what serves")

// checkKinds refuses an upload of kinds in the place of a plugin of others, unless its settings want that.
func (f *manager) checkKinds(name string, kinds []string, s admin.Settings) error {
	now, _ := f.Get(name)
	slices.Sort(now.Kinds)
	slices.Sort(kinds)
	if s.ChangeKinds || len(now.Kinds) == 0 || len(kinds) == 0 || slices.Equal(now.Kinds, kinds) {
		return nil
	}
	return fmt.Errorf("%w: %w: %s is a plugin of kind %s, the module is of kind %s, and requests that name it would get "+
		"something else. change_kinds=true (tgi plugin upload --change-kinds) has it serve all the same; or remove %[3]s "+
		"first, or take another name", server.ErrRefused, errOtherKinds, name, strings.Join(now.Kinds, ", "),
		strings.Join(kinds, ", "))
}

// kindsOf are the kinds of a module that was loaded for models, which are the same for all of them.
func kindsOf(ready map[*loadedModel]*plugins.Prepared) []string {
	for _, p := range ready {
		return p.Kinds()
	}
	return nil
}

// settingsBlock is the [[plugin]] of a name, nil for none.
func settingsBlock(cfg config.Config, name string) *config.Plugin {
	i := slices.IndexFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &cfg.Plugin[i]
}

// keyNames are the names of the keys of settings.
func keyNames(cfg config.Config) (names []string) {
	for _, k := range cfg.AllKeys() {
		names = append(names, k.Name)
	}
	return names
}

// warnOfKeys logs which uploads apply to the requests of keys that are no more: a guard of a key that has another name
// now guards nothing.
func (f *manager) warnOfKeys() {
	names := keyNames(f.cfg)
	for name, u := range f.uploads {
		for _, key := range keysOf(u.settings.Clients) {
			if !slices.Contains(names, key) {
				f.log.Warn("an uploaded plugin applies to the requests of a key that the settings do not have", "plugin",
					name, "key", key)
			}
		}
	}
}
