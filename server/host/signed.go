package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
	"tgi/server/share"
)

// demands say which modules must be signed, and by whom: those that came from a registry, where settings name signers,
// and with plugins.require_signed all but those that are built in.
type demands struct {
	policy share.Policy
	all    bool
}

// demandsOf reads the keys of the signers.
func demandsOf(cfg config.Config) (demands, error) {
	policy, err := share.NewPolicy(cfg.PluginSigner)
	for i := 0; err != nil && i < len(cfg.PluginSigner); i++ { // the first is the one that the error is about
		s := cfg.PluginSigner[i]
		if _, wrong := share.NewSigner(s.Name, s.PublicKey); wrong != nil {
			return demands{}, cfg.KeyError(fmt.Sprintf("plugin_signer[%d].public_key", i), wrong)
		}
	}
	return demands{policy, cfg.Plugins.RequireSigned}, err
}

// of reports whether the module of a [[plugin]] must be signed.
func (d demands) of(p config.Plugin) bool {
	return !strings.HasPrefix(p.Source, config.Builtin) && (d.all || p.Reference != "" && len(d.policy) > 0)
}

// file holds a module to the signatures beside its file.
func (d demands) file(file string, module []byte) error {
	if len(d.policy) == 0 { // settings that were read again lost them
		return errNoSigner
	}
	return d.policy.CheckFile(file, module)
}

// errNoSigner: nobody can have signed.
var errNoSigner = fmt.Errorf("%w: plugins.require_signed is set, and there is no [[plugin_signer]]", share.ErrUnsigned)

// checkSigned returns why a module that was uploaded under a name may not be loaded. Its error is a
// server.ErrUnsigned or, where what came with the module is none of it, a server.ErrRefused.
func (f *manager) checkSigned(name string, u upload) error {
	f.mu.Lock()
	cfg := f.cfg
	f.mu.Unlock()
	return checkSigned(cfg, settingsBlock(cfg, name), name, u)
}

// checkSigned is manager.checkSigned with settings. block is the [[plugin]] in whose place the module comes, nil for
// none.
func checkSigned(cfg config.Config, block *config.Plugin, name string, u upload) error {
	d, err := demandsOf(cfg)
	if err != nil {
		return fmt.Errorf("%w: %w", server.ErrRefused, err)
	}
	var a share.Artifact
	if len(u.signed) > 0 {
		if a, err = share.DecodeRest(u.signed, u.wasm); err != nil {
			return fmt.Errorf("%w: the signatures of %s: %w", server.ErrRefused, name, err)
		}
	}
	switch {
	case !d.all && (block == nil || !d.of(*block)):
		return nil
	case len(d.policy) == 0:
		err = errNoSigner
	case len(u.signed) == 0:
		err = errors.New("no signatures came with the module: tgi plugin upload sends those beside its file, which tgi " +
			"plugin sign writes")
	default:
		err = d.policy.Check(a)
	}
	if err != nil {
		return fmt.Errorf("%w: plugin %s: %w", server.ErrUnsigned, name, err)
	}
	return nil
}

// unsignedUploads returns which uploads serve and would not be loaded with the settings of now, whose signers are not
// those that they were let in by, and logs them: they go on until a restart, which needs to be known before it.
// f.uploading is held.
func (f *manager) unsignedUploads() (list []admin.Failure) {
	f.mu.Lock()
	cfg, all := f.cfg, maps.Clone(f.uploads)
	f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		u := all[name]
		if u.damaged != nil || settingsBlock(cfg, name) != nil { // it does not serve, or not it
			continue
		}
		err := checkSigned(cfg, nil, name, u)
		if err == nil || f.uploadFault(name, moduleSum(u.wasm)) != "" {
			continue
		}
		apply := useOf(u.settings).Apply
		f.log.Warn("an uploaded plugin serves until a restart, and requests that it applies to are refused then: the "+
			"settings do not take its signatures any more", "plugin", name, "apply", apply, "error", err)
		list = append(list, admin.Failure{Name: name, Error: fmt.Sprintf("it serves until a restart, and requests "+
			"that it applies to (apply = %q) are refused then, unless it is uploaded with another signature: %v",
			apply, err)})
	}
	return list
}
