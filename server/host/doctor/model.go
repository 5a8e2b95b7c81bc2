package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tgi/models"
	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/plugins"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
	"tgi/server/share"
)

// model looks at a model's files and at the memory that it needs.
func (d *diagnosis) model(m config.Model) func(context.Context, *report) {
	return func(ctx context.Context, r *report) {
		id, check := library.ID(m.Name), "model "+m.Name
		lib, err := host.OpenLibrary(d.cfg)
		if err != nil {
			r.fail(check, err, "correct models.folder and the models that the settings declare")
			return
		}
		if m.Source != "" && !lib.Has(id) {
			r.warn(check, "not fetched yet", "fetch it before the start: `tgi model pull`")
			return
		}
		info, err := lib.Describe(id)
		cure := "fetch the model again (`tgi model pull`), or correct model.path"
		if errors.Is(err, fs.ErrNotExist) {
			err = host.ModelError(d.cfg, id, err)
			if m.Path != "" {
				cure = "put the model there, correct model.path, or set model.source in its place (`tgi model pull` " +
					"fetches it)"
			}
		}
		if err != nil {
			r.fail(check, err, cure)
			return
		}
		r.ok(check, "%s, %d files, %d MiB", info.Architecture, info.Files, info.Bytes>>20)
		tokens, err := host.TryTokenizer(d.cfg, id)
		if err != nil {
			r.fail("tokenizer of "+m.Name, err, "put the model's tokenizer.json into its folder")
		} else {
			r.ok("tokenizer of "+m.Name, "%s", tokens)
			if m.Name != d.cfg.DefaultModel() && info.Task == library.Generate { // of the default model plugins tells
				d.chat(ctx, r, "chat of "+m.Name, id)
			}
		}
		checksums(ctx, r, m.Name, info)
		if d.usable {
			d.memory(r, m.Name)
		}
	}
}

// chat loads a model's template and its parser of tool calls, with nothing but the built-in plugins.
func (d *diagnosis) chat(ctx context.Context, r *report, check string, id library.ID) bool {
	if _, err := host.TryPlugins(ctx, d.bare(), id); err != nil {
		r.fail(check, err, "correct the model's template and tools in the settings, or its chat template")
		return false
	}
	r.ok(check, "its template and its tools load")
	return true
}

// bare are the settings without plugins.
func (d *diagnosis) bare() config.Config {
	c := d.cfg
	c.Plugin, c.Plugins.Folder = nil, ""
	return c
}

// memory compares what a model needs with what there is.
func (d *diagnosis) memory(r *report, name string) {
	check := "memory of " + name
	const cure = "free memory, raise the process's limit, choose smaller weights (model.weights), or lower " +
		"runtime.kv_memory"
	n, err := host.NeedOf(d.cfg, library.ID(name), d.choice)
	if err != nil {
		if !errors.Is(err, lifecycle.ErrMemory) {
			err = fmt.Errorf("not enough: %w", err)
		}
		r.fail(check, err, cure)
		return
	}
	text := fmt.Sprintf("needs %d MiB (weights %d, cache %d)", n.Total>>20, n.Weights>>20, n.Cache>>20)
	if d.choice.Device == models.CUDA {
		r.ok(check, "%s of the GPU, which has %d MiB", text, d.choice.CUDA.Memory>>20)
		return
	}
	text += fmt.Sprintf(", %d MiB are available", n.Available>>20)
	switch {
	case n.Total > n.Machine:
		r.fail(check, errors.New(text), cure)
	case n.Total > n.Available:
		r.warn(check, text, cure)
	default:
		r.ok(check, "%s", text)
	}
}

// checksums reads the files of a model whose checksums are known, as far as there is time.
func checksums(ctx context.Context, r *report, name string, info library.Info) {
	if info.Origin == nil || len(info.Origin.SHA256) == 0 || info.Dir == "" {
		return
	}
	check, read := "checksums of "+name, 0
	for _, path := range slices.Sorted(maps.Keys(info.Origin.SHA256)) {
		sum, err := sumOf(ctx, filepath.Join(info.Dir, filepath.FromSlash(path)))
		if ctx.Err() != nil {
			break
		}
		if err == nil && sum != info.Origin.SHA256[path] {
			err = fmt.Errorf("%s is not the file that was fetched", path)
		}
		if err != nil {
			r.fail(check, err, "remove the model and fetch it again: `tgi model rm`, `tgi model pull`")
			return
		}
		read++
	}
	r.ok(check, "%d of %d files read, all as they were fetched", read, len(info.Origin.SHA256))
}

// sumOf is the checksum of a file.
func sumOf(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h, part := sha256.New(), make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := f.Read(part)
		h.Write(part[:n])
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", context.Cause(ctx)
}

// signers reads the keys of those who may sign plugins.
func (d *diagnosis) signers(_ context.Context, r *report) {
	signed := true
	for _, s := range d.cfg.PluginSigner {
		check := "signer " + s.Name
		if _, err := share.NewSigner(s.Name, s.PublicKey); err != nil {
			r.fail(check, err, "set public_key of this [[plugin_signer]] to a PEM file that the server may read, or to its text")
			signed = false
			continue
		}
		r.ok(check, "its key is read")
	}
	d.signed = signed
	switch {
	case len(d.cfg.PluginSigner) == 0:
	case d.cfg.Plugins.RequireSigned:
		r.ok("signatures", "every module that is not built in has to be signed")
	default:
		r.ok("signatures", "plugins with a reference have to be signed; plugins.require_signed demands it of all")
	}
}

// plugins loads the plugins as the start of the default model would: all at once, and where that fails one by one.
func (d *diagnosis) plugins(ctx context.Context, r *report) {
	if err := plugins.Interpreted(); err != nil {
		r.warn("plugins", "they are interpreted, which takes many times as long: "+err.Error(),
			"let the server make memory executable: no MemoryDenyWriteExecute in its unit, execmem under SELinux")
	}
	if !d.signed {
		r.warn("plugins", "not tried: not all keys of signers could be read", "mend what the lines about signers say")
		return
	}
	id := library.ID(d.cfg.DefaultModel())
	lib, err := host.OpenLibrary(d.cfg)
	if err == nil && lib.Has(id) {
		_, err = host.TryTokenizer(d.cfg, id)
	} else if err == nil {
		err = library.ErrNotFound
	}
	if err != nil {
		r.warn("plugins", "looked for and not tried: the default model cannot be read",
			"mend what the lines about the model say")
		d.modules(r)
		return
	}
	if !d.chat(ctx, r, "chat", id) {
		return
	}
	bare := d.bare()
	r.ok("plugins", "those that are built in load; %d are declared", len(d.cfg.Plugin))
	for _, p := range d.cfg.Plugin {
		one := bare
		one.Plugin = []config.Plugin{p}
		list, err := host.TryPlugins(ctx, one, id)
		pluginLine(r, p, list, d.missing(p, err))
	}
	d.uploads(ctx, r, id)
	if d.cfg.Plugins.Folder == "" {
		return
	}
	bare.Plugins.Folder = d.cfg.Plugins.Folder
	list, err := host.TryPlugins(ctx, bare, id)
	if err != nil {
		r.fail("plugins.folder", err, "make the folder readable, or set plugins.folder to another")
		return
	}
	for _, p := range list {
		if filepath.Dir(p.Source) == filepath.Clean(d.cfg.Plugins.Folder) {
			pluginLine(r, config.Plugin{Name: p.Name, Source: p.Source}, list, nil)
		}
	}
}

// modules looks whether the modules of the declared plugins are there, for which no model is needed.
func (d *diagnosis) modules(r *report) {
	for _, p := range d.cfg.Plugin {
		if _, err := catalog.Module(p.Source); err != nil {
			err = d.missing(p, err)
			r.fail("plugin "+p.Name, err, pluginCure(p, err))
		}
	}
}

// missing says of an error about a declared module that is not there where it is declared; others stay.
func (d *diagnosis) missing(p config.Plugin, err error) error {
	if strings.HasPrefix(p.Source, config.Builtin) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := "plugin.source"
	if place := d.cfg.PluginPlace(p.Name, "source"); place != "" {
		text = place + ": " + text
	}
	return fmt.Errorf("%s: %w %s", text, errNoModule, p.Source)
}

var errNoModule = errors.New("there is no file")

// uploads tries the modules that came over the network and were kept.
func (d *diagnosis) uploads(ctx context.Context, r *report, id library.ID) {
	tried, err := host.TryUploads(ctx, d.bare(), id)
	if err != nil {
		r.fail("uploads", err, "make the folder readable, or set plugins.uploads to another")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		check, err := "upload "+name, tried[name]
		if slices.ContainsFunc(d.cfg.Plugin, func(p config.Plugin) bool { return p.Name == name }) {
			found := "does not serve: a [[plugin]] has its name"
			if err != nil {
				found += ", and it could not: " + err.Error()
			}
			r.warn(check, found, "rename the [[plugin]], or remove the upload (DELETE /admin/plugins/"+name+")")
			continue
		}
		if errors.Is(err, server.ErrUnsigned) {
			r.fail(check, err, "sign the module and upload it again (`tgi plugin sign`, `tgi plugin upload`), name its signer "+
				"by [[plugin_signer]], or remove it (DELETE /admin/plugins/"+name+")")
			continue
		} else if err != nil {
			r.fail(check, err, "upload the module again (PUT /admin/plugins/"+name+"), or remove it (DELETE) or its files "+
				"in plugins.uploads")
			continue
		}
		r.ok(check, "loaded and tried")
	}
}

// pluginLine says whether one plugin loaded.
func pluginLine(r *report, p config.Plugin, list []server.Plugin, err error) {
	check := "plugin " + p.Name
	i := slices.IndexFunc(list, func(loaded server.Plugin) bool { return loaded.Name == p.Name })
	if err == nil && i >= 0 && list[i].Error != "" {
		err = errors.New(list[i].Error)
	}
	switch {
	case err != nil:
		r.fail(check, err, pluginCure(p, err))
	case i < 0:
		r.ok(check, "loaded")
	default:
		r.ok(check, "loaded and tried, %s", list[i].Source)
	}
}

// pluginCure is what helps where a plugin does not load.
func pluginCure(p config.Plugin, err error) string {
	builtin, own := strings.CutPrefix(p.Source, config.Builtin)
	wrong, misnamed := errors.AsType[*plugins.Misnamed](err)
	switch {
	case own && misnamed && wrong.Name == builtin:
		return "correct source of this [[plugin]]: `tgi plugin list` shows what is built in" +
			config.Suggest(builtin, wrong.Known)
	case own:
		return "correct config and limits of this [[plugin]]: `tgi plugin show " + p.Source + "` says what it is"
	case strings.Contains(err.Error(), share.ErrUnsigned.Error()): // of a file of the folder there is the text alone
		return "sign it (`tgi plugin sign " + p.Source + " --key KEY`), install a version that one of them signed, or name " +
			"its signer by [[plugin_signer]]"
	case errors.Is(err, errNoModule) && p.Reference != "":
		return "install the plugin again (`tgi plugin install " + p.Reference + "`), or remove this [[plugin]]"
	case errors.Is(err, errNoModule):
		return "put the module there, correct source of this [[plugin]], or remove the block"
	case p.SHA256 != "":
		return "install the plugin again (`tgi plugin install`), or correct its sha256 in the settings"
	}
	return "run `tgi plugin check` on its file, and build it with the SDK of this version"
}
