package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/opencontainers/go-digest"

	"tgi/runtime/regular"
	"tgi/server/wire"
)

// Beside is the file beside a module that has the rest of its artefact: manifest, description and signatures. `tgi
// plugin sign` writes it, push sends what it has, install puts it beside the module that it installs.
func Beside(module string) string { return module + ".artifact.json" }

// maxBeside bounds that file.
const maxBeside = 2 << 20

// ErrOther: the file beside a module is of another build of it.
var ErrOther = errors.New("does not belong to the module")

// rest is the content of the file.
type rest struct {
	Manifest   []byte      `json:"manifest"`
	Config     []byte      `json:"config"`
	Signatures []Signature `json:"signatures"`
}

// EncodeRest returns an artefact without its module, as the file beside the module has it.
func (a Artifact) EncodeRest() ([]byte, error) {
	text, err := json.MarshalIndent(rest{a.Manifest, a.Config, a.Signatures}, "", " ")
	return append(text, '\n'), err
}

// DecodeRest reads what EncodeRest wrote, and checks that it belongs to the module.
func DecodeRest(text, module []byte) (Artifact, error) {
	var r rest
	if len(text) > maxBeside {
		return Artifact{}, fmt.Errorf("must have at most %d bytes, given %d", maxBeside, len(text))
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return Artifact{}, wire.Told(err)
	}
	switch {
	case len(r.Manifest) == 0:
		return Artifact{}, errors.New("manifest is missing")
	case len(r.Config) == 0:
		return Artifact{}, errors.New("config is missing")
	}
	if len(r.Signatures) > MaxSignatures {
		return Artifact{}, fmt.Errorf("at most %d signatures are read, given %d", MaxSignatures, len(r.Signatures))
	}
	a := Artifact{Manifest: r.Manifest, Config: r.Config, Module: module, Signatures: r.Signatures}
	if m, err := ReadManifest(r.Manifest, math.MaxInt64); err == nil && m.Module.Digest != digest.FromBytes(module) {
		return a, fmt.Errorf("%w: it is of %s, the module is %s", ErrOther, m.Module.Digest, digest.FromBytes(module))
	}
	_, err := a.Open()
	return a, err
}

// ReadBeside returns the artefact of a module by the file beside it. The error matches os.ErrNotExist where there is
// none.
func ReadBeside(file string, module []byte) (Artifact, error) {
	text, err := regular.Read(Beside(file), 0, maxBeside)
	if err != nil {
		return Artifact{}, err
	}
	a, err := DecodeRest(text, module)
	if err != nil {
		return a, fmt.Errorf("%s: %w", Beside(file), err)
	}
	return a, nil
}

// WriteBeside writes the file beside a module.
func (a Artifact) WriteBeside(file string) error {
	text, err := a.EncodeRest()
	if err != nil {
		return err
	}
	return Write(Beside(file), text, 0o644)
}

// Replace writes a file of an operator at once: a reader sees the old content or the new one. An existing file keeps
// its mode, owner and group, and where a link leads to it, the link stays. Where that is not possible nothing changes.
func Replace(path string, text []byte, mode os.FileMode) error {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil: // the file that a link leads to is replaced
	case !errors.Is(err, os.ErrNotExist):
		return err
	case isLink(path):
		return fmt.Errorf("%s is a link to a file that is not there: make the file, or remove the link", path)
	default:
		real = path
	}
	if err := write(real, text, mode, keepOwner); err != nil {
		hint := ""
		if errors.Is(err, syscall.EBUSY) { // as where a container has the file alone mounted
			hint = ": mount its folder, a file that is mounted by itself can't be replaced"
		}
		return fmt.Errorf("%s can't be replaced: %w%s", path, err, hint)
	}
	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// Write is Replace for files that this program names: it replaces a link, and leaves the file alone that it leads to.
// The file is of whoever runs the program.
func Write(path string, text []byte, mode os.FileMode) error {
	return write(path, text, mode, func(*os.File, os.FileInfo) error { return nil })
}

// keepOwner gives a file the owner and group of the one that it replaces.
func keepOwner(f *os.File, old os.FileInfo) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	info, err := f.Stat()
	if err != nil || !ok {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("it would lose its owner %d and group %d, run the command as that user or as root: %w", was.Uid,
			was.Gid, err)
	}
	return nil
}

// write writes a file beside path and gives it that name; adopt sees the regular file that it replaces.
func write(path string, text []byte, mode os.FileMode, adopt func(*os.File, os.FileInfo) error) (err error) {
	old, oldErr := os.Lstat(path)
	f, err := os.CreateTemp(filepath.Dir(path), ".tgi-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if oldErr == nil && old.Mode().IsRegular() {
		mode = old.Mode().Perm()
		err = adopt(f, old)
	}
	if err == nil {
		_, err = f.Write(text)
	}
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// CheckFile holds a module that was installed from a registry to a policy, by the file beside it.
func (p Policy) CheckFile(file string, module []byte) error {
	if len(p) == 0 {
		return nil
	}
	a, err := ReadBeside(file, module)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s, which has them, is not there; wanted is one of %s", ErrUnsigned, Beside(file), p.names())
	}
	if err != nil {
		return err
	}
	return p.Check(a)
}
