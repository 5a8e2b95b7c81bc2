package host

import (
	"context"
	"errors"
	"path/filepath"

	"tgi/models/store"
	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/std"
	"tgi/server"
	"tgi/server/config"
)

// TryDeclared loads the plugins of the settings as the start of a server would, over a made-up vocabulary, and gives
// them up again: their mistakes are told beside those of other settings, for which no model can be opened.
func TryDeclared(ctx context.Context, cfg config.Config) error {
	d, err := demandsOf(cfg)
	if err != nil {
		return err
	}
	specs, err := specsOf(cfg.Plugin, d)
	if err != nil || len(specs) == 0 {
		return err
	}
	cache, err := store.Dir()
	if err != nil {
		return err
	}
	set, err := plugins.Open(ctx, plugins.Options{
		Specs: append(specs, grammarSpecs(cfg)...), Builtin: std.FS(), Vocabulary: check.Vocabulary(), MaxInstances: 2,
		CacheDir: filepath.Join(cache, "plugins"), CacheBytes: int64(cfg.Plugins.CacheSize),
		Compile: compileLimits(cfg.Plugins), Client: server.ClientID,
		Memory: plugins.NewMemory(pluginMemory(cfg.Plugins, system.available(), system.bounds())),
	})
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return placed(cfg, err)
	}
	set.Close()
	return nil
}
