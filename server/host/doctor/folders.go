package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"tgi/models/store"
	"tgi/runtime/kvdisk"
	"tgi/server/config"
)

// Space of a disk below which a folder is of no use, or soon will be.
const (
	leastSpace = 64 << 20
	littleRoom = 1 << 30
)

// folder is a place that the server writes to.
type folder struct {
	check, path, cure string
	err               error // why there is no path
	locked            bool  // by the process that uses it
}

// folders are those of the settings.
func (d *diagnosis) folders() []folder {
	cache, err := store.Dir()
	list := []folder{{check: "cache folder", path: cache, err: err,
		cure: "make the folder writable, or set XDG_CACHE_HOME to another"}}
	models, err := d.cfg.Models.Dir()
	list = append(list, folder{check: "models folder", path: models, err: err,
		cure: "make the folder writable, or set models.folder to another"})
	for _, f := range []struct{ check, path string }{{"kv_disk", d.cfg.Runtime.KVDisk},
		{"batches.folder", d.cfg.Batches.Folder}, {"record.folder", d.cfg.Record.Folder},
		{"plugins.uploads", d.cfg.Plugins.Uploads}} {
		name := f.check
		if name == "kv_disk" {
			name = "runtime.kv_disk"
		}
		if f.path != "" {
			list = append(list, folder{check: f.check, path: f.path, locked: f.check == "kv_disk",
				cure: "make the folder writable, or set " + name + " to another"})
		}
	}
	return list
}

// look looks whether the folder can be written to, or could be made, and what its disk has left.
func (d *diagnosis) look(f folder, r *report) {
	if f.err != nil {
		r.fail(f.check, f.err, "set HOME, or the setting that names the folder")
		return
	}
	at, err := writable(f.path)
	if err != nil {
		r.fail(f.check, err, f.cure)
		return
	}
	if f.locked && at == f.path {
		k, err := kvdisk.Open(kvdisk.Options{Path: at, Limit: math.MaxInt64}) // which evicts nothing
		const cure = "end the other server, or give each a folder of its own by runtime.kv_disk"
		if errors.Is(err, kvdisk.ErrInUse) && d.beside { // it is that server's, or will be free when it ends
			r.warn(f.check, err.Error()+": a tgi server runs on the address that is set", cure)
			return
		}
		if errors.Is(err, kvdisk.ErrInUse) {
			r.fail(f.check, err, cure)
			return
		}
		if err != nil {
			r.fail(f.check, err, f.cure)
			return
		}
		if err := k.Close(); err != nil {
			r.fail(f.check, err, f.cure)
			return
		}
	}
	free, ok := freeSpace(at)
	const cure = "make room on the disk, or choose another folder"
	switch {
	case !ok:
		r.ok(f.check, "%s is writable", f.path)
	case free < leastSpace:
		r.fail(f.check, fmt.Errorf("%s has %s left", f.path, config.Size(free)), cure)
	case free < littleRoom:
		r.warn(f.check, fmt.Sprintf("%s has %d MiB left", f.path, free>>20), cure)
	default:
		r.ok(f.check, "%s is writable, %d GiB are free", f.path, free>>30)
	}
}

// writable writes a file to a folder and removes it. Of a folder that is not there yet it takes the nearest one above
// that is. It returns the one that it took.
func writable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		st, err := os.Stat(path)
		if err == nil && !st.IsDir() {
			return "", fmt.Errorf("%s is a file, not a folder", path)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
			return "", err
		}
		path = filepath.Dir(path)
	}
	f, err := os.CreateTemp(path, ".tgi-doctor-*")
	if err != nil {
		return "", err
	}
	return path, errors.Join(f.Close(), os.Remove(f.Name()))
}
