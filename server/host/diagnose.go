package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tgi/models/library"
	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/std"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/host/bridge"
	"tgi/server/host/hardware"
)

// Need is the memory that a model takes before it is loaded, in bytes, and what there is.
type Need struct{ Weights, Cache, Total, Available, Machine int64 }

// NeedOf says what a model of cfg will take on what was chosen, and why the process does not get it. It reads JSON
// files and the headers of weights.
func NeedOf(cfg config.Config, id library.ID, choice hardware.Choice) (Need, error) {
	n := Need{Available: system.available(), Machine: system.total()}
	f, err := asking(cfg, choice)
	if err != nil {
		return n, err
	}
	own, err := f.settingsFor(id)
	if err != nil {
		return n, err
	}
	p, err := f.planFor(own, id, n.Available)
	if err != nil {
		return n, err
	}
	n.Weights, n.Cache, n.Total = p.weights+p.draft, p.cache, p.total()+processOverhead
	if f.device.onGPU() {
		return n, nil
	}
	if err := checkCaches(&cfg, n.Machine); err != nil {
		return n, err
	}
	return n, p.within(system.bounds())
}

// asking returns a manager that answers questions about models and loads none.
func asking(cfg config.Config, choice hardware.Choice) (*manager, error) {
	lib, err := OpenLibrary(cfg)
	if err != nil {
		return nil, err
	}
	return &manager{library: lib, device: device{choice}, cfg: cfg, single: len(cfg.ModelList) == 0}, nil
}

// TryPlugins loads the plugins of cfg over the vocabulary of a model, as its start would, and gives them up again: each
// goes through its self-test. Plugins of the folder that do not load have their error in the list.
func TryPlugins(ctx context.Context, cfg config.Config, id library.ID) ([]server.Plugin, error) {
	f, err := asking(cfg, hardware.Choice{})
	if err != nil {
		return nil, err
	}
	c, err := f.tryPlugins(ctx, id)
	if err != nil {
		return nil, err
	}
	defer c.set.Close()
	return c.List(), nil
}

// TryUploads does so with the modules that were uploaded and kept, and returns for each why it cannot be used, nil for
// one that can. Signatures are demanded as the server does.
func TryUploads(ctx context.Context, cfg config.Config, id library.ID) (map[string]error, error) {
	there, err := uploadFolder(cfg.Plugins.Uploads).look()
	if err != nil || len(there.list)+len(there.wrong) == 0 {
		return nil, err
	}
	f, err := asking(cfg, hardware.Choice{})
	if err != nil {
		return nil, err
	}
	f.uploads = there.list // which go before files of their names
	c, err := f.tryPlugins(ctx, id)
	if err != nil {
		return nil, err
	}
	defer c.set.Close()
	result := there.wrong
	for name, u := range there.list {
		if u.damaged != nil {
			continue
		}
		if err := f.checkSigned(name, u); err != nil {
			result[name] = err
			continue
		}
		_, result[name] = c.set.Put(ctx, name, u.wasm, u.settings)
	}
	return result, nil
}

// tryPlugins opens the plugins of the settings over the vocabulary of a model.
func (f *manager) tryPlugins(ctx context.Context, id library.ID) (*pluginController, error) {
	own, err := f.settingsFor(id)
	if err != nil {
		return nil, err
	}
	in := &instance{}
	if in.source, err = describe(own.Model.Path); err != nil {
		return nil, err
	}
	if err := in.loadTokenizer(in.source.desc); err != nil {
		return nil, err
	}
	in.built.Vocab, in.eos = in.source.desc.Config.Vocab, eosOf(in.source.desc, in.tokenizer)
	f.pluginLogs, f.turns, f.programs = plugins.NewLogs(), plugins.NewTurns(), plugins.NewProgramTurns()
	f.governor = plugins.NewGovernor(func() bool { return false })
	f.memory = plugins.NewMemory(pluginMemory(f.cfg.Plugins, system.available(), system.bounds()))
	return f.openPlugins(ctx, own, in, slog.New(slog.DiscardHandler))
}

// TryModule loads a module with the settings of a plugin as the start of a server would, and gives it up again: its
// kind, limits and configuration must suit it, and it goes through its self-test. It needs no model: the vocabulary is
// made up. The plugin's source does not matter. It returns the kinds that the plugin would have.
func TryModule(ctx context.Context, cfg config.Config, p config.Plugin, module []byte) (kinds []string, err error) {
	i := slices.IndexFunc(cfg.Plugin, func(other config.Plugin) bool { return other.Name == p.Name })
	if cfg.Plugin = slices.Clone(cfg.Plugin); i >= 0 {
		cfg.Plugin[i] = p
	} else {
		cfg.Plugin = append(cfg.Plugin, p)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tgi-try-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p.Source = filepath.Join(dir, p.Name+".wasm")
	if err := os.WriteFile(p.Source, module, 0o600); err != nil {
		return nil, err
	}
	return tryPlugin(ctx, cfg, p)
}

// tryPlugin loads a plugin from its source, without a model, and returns its kinds.
func tryPlugin(ctx context.Context, cfg config.Config, p config.Plugin) (kinds []string, err error) {
	specs, err := specsOf([]config.Plugin{p}, demands{}) // no signers: whoever calls looked at the signatures
	if err != nil {
		return nil, err
	}
	set, err := plugins.Open(ctx, plugins.Options{
		Specs: specs, Builtin: std.FS(), Vocabulary: check.Vocabulary(), MaxInstances: 2,
		Compile: compileLimits(cfg.Plugins),
		Memory:  plugins.NewMemory(pluginMemory(cfg.Plugins, system.available(), system.bounds())),
		Client:  server.ClientID,
	})
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, bridge.Suggestion(err))
	}
	defer set.Close()
	for _, s := range set.List() {
		if s.State != plugins.StateActive {
			return nil, errors.New(s.Error)
		}
		kinds = append(kinds, s.Kinds...)
	}
	return kinds, nil
}

// TryReplacement returns a check of modules that are to be installed, which TryModule must take. Unless kinds may
// change, a module must have each kind of the one that it replaces, as in a server that runs: what the settings apply
// as a guard stays one. A block that names its kind says what it is to be.
func TryReplacement(changeKinds bool) func(ctx context.Context, cfg config.Config, was *config.Plugin,
	p config.Plugin, module []byte) error {
	return func(ctx context.Context, cfg config.Config, was *config.Plugin, p config.Plugin, module []byte) error {
		kinds, err := TryModule(ctx, cfg, p, module)
		if err != nil && was != nil && was.Kind != "" && was.Kind == p.Kind {
			return fmt.Errorf("%w; the block says kind = %q, and keeps its keys", err, p.Kind)
		}
		same := was != nil && was.SHA256 != "" && was.SHA256 == p.SHA256 // its file may be damaged
		if err != nil || changeKinds || was == nil || p.Kind != "" || same {
			return err
		}
		const how = "--change-kinds installs it all the same; a server that runs takes it with its kind in the block, " +
			"or when it is started again"
		before, err := tryPlugin(ctx, cfg, *was)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("what it replaces could not be loaded (%w), so nothing tells whether this does what that "+
				"did; %s", err, how)
		}
		if i := slices.IndexFunc(before, func(kind string) bool { return !slices.Contains(kinds, kind) }); i >= 0 {
			return fmt.Errorf("what it replaces is of kind %s, the module is of kind %s, and requests would go without "+
				"what that did; %s", strings.Join(before, ", "), strings.Join(kinds, ", "), how)
		}
		return nil
	}
}

// DescribeModule loads a module with the configuration and the limits of a plugin, and returns what it says about
// itself. The plugin's source does not matter.
func DescribeModule(ctx context.Context, p config.Plugin, module []byte) (*check.Summary, error) {
	text, err := p.ConfigText()
	if err != nil {
		return nil, err
	}
	return check.Describe(ctx, p.Name, module, string(text), limitsOf(p.Limits))
}

// ModelError says of an error of a model's files, as the start would, which setting names them and what is there.
func ModelError(cfg config.Config, id library.ID, err error) error {
	f, other := asking(cfg, hardware.Choice{})
	if other != nil {
		return err
	}
	own, other := f.settingsFor(id)
	if other != nil {
		return err
	}
	return pathError(own, err)
}

// TryTokenizer reads a model's tokenizer as its start would, and says how many tokens it has.
func TryTokenizer(cfg config.Config, id library.ID) (string, error) {
	f, err := asking(cfg, hardware.Choice{})
	if err != nil {
		return "", err
	}
	own, err := f.settingsFor(id)
	if err != nil {
		return "", err
	}
	in := &instance{}
	if in.source, err = describe(own.Model.Path); err != nil {
		return "", pathError(own, err)
	}
	if err := in.loadTokenizer(in.source.desc); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d tokens", in.source.desc.Config.Vocab), nil
}
