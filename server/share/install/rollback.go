package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tgi/runtime/regular"
	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/index"
	"tgi/server/wire"
)

// Past is a reference that an installation replaced.
type Past struct {
	Reference string    `json:"reference"`
	SHA256    string    `json:"sha256"` // of the module
	Replaced  time.Time `json:"replaced"`
}

// Bounds of what is kept of the references that installations under one name replaced.
const (
	maxPast     = 8
	maxPastFile = 64 << 10
)

// pastFile is the file of the folder with what installations under a name replaced.
func (t Target) pastFile(name string) string { return filepath.Join(t.Folder, name+".past.json") }

// past are the references that installations under a name replaced, the latest first.
func (t Target) past(name string) (list []Past, err error) {
	text, err := regular.Read(t.pastFile(name), regular.NoLink, maxPastFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = wire.Told(json.Unmarshal(text, &list))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.pastFile(name), err)
	}
	return list, nil
}

// keepPast notes what a lock is about to replace; nothing where that has no reference. What the lock names stays in the
// list, and one more than come back: should the settings not be written after all, nothing is lost. What can't be read
// is written anew: it keeps no plugin from being installed.
func (t Target) keepPast(old *config.Plugin, next config.Lock) error {
	if old == nil || old.Reference == "" || old.Reference == next.Reference && old.SHA256 == next.SHA256 {
		return nil
	}
	list, _ := t.past(next.Name)
	list = slices.DeleteFunc(list, func(p Past) bool { return p.Reference == old.Reference })
	list = append([]Past{{old.Reference, old.SHA256, time.Now().UTC()}}, list...)
	text, err := json.MarshalIndent(list[:min(len(list), maxPast+1)], "", "  ")
	if err != nil {
		return err
	}
	return share.Write(t.pastFile(next.Name), append(text, '\n'), 0o644)
}

// Back is what a rollback locked again.
type Back struct {
	Past
	Artifact share.Artifact
	Result
}

// Rollback locks again what an installation in the place of a block replaced: the latest, or the one whose module's
// SHA-256 begins with to. It comes from the index or, where that lost it, from the folder of modules; no registry is
// asked. It is held to the policy and to the contract of this program, as if it was fetched; check is Request.Check,
// which gets the module too. What is replaced can come back in the same way.
func Rollback(ctx context.Context, t Target, x *index.Index, policy share.Policy, now config.Plugin, to string,
	check func(ctx context.Context, was *config.Plugin, block config.Plugin, module []byte) error) (b Back, err error) {
	if b.Past, err = t.earlier(now, to); err != nil {
		return b, err
	}
	if b.Artifact, err = t.artifact(x, now.Name, b.Past); err != nil {
		return b, fmt.Errorf("%s is no longer on this machine, tgi plugin install fetches it: %w", b.Reference, err)
	}
	_, err = usable(b.Artifact, policy)
	if err == nil && b.Artifact.SHA256() != b.SHA256 {
		err = fmt.Errorf("its module has sha256 %s, %s was locked", b.Artifact.SHA256(), b.SHA256)
	}
	if err != nil {
		return b, fmt.Errorf("%s: %w", b.Reference, err)
	}
	b.Result, err = Install(ctx, t, Request{Name: now.Name, Reference: b.Reference, Artifact: b.Artifact, Replace: true,
		Check: func(ctx context.Context, was *config.Plugin, block config.Plugin) error {
			return check(ctx, was, block, b.Artifact.Module)
		}})
	return b, err
}

// earlier finds what an installation in the place of a block replaced.
func (t Target) earlier(now config.Plugin, to string) (Past, error) {
	list, err := t.past(now.Name)
	if err != nil {
		return Past{}, err
	}
	list = slices.DeleteFunc(list, func(p Past) bool { return p.Reference == now.Reference })
	list = list[:min(len(list), maxPast)]
	if len(list) == 0 {
		return Past{}, fmt.Errorf("%s is locked to %s, and no reference is kept that this replaced", now.Name,
			now.Reference)
	}
	i := slices.IndexFunc(list, func(p Past) bool { return strings.HasPrefix(p.SHA256, strings.ToLower(to)) })
	if i < 0 {
		var known []string
		for _, p := range list {
			known = append(known, fmt.Sprintf("%.16s (%.300s)", p.SHA256, p.Reference))
		}
		return Past{}, fmt.Errorf("no earlier version of %s has a sha256 that begins with %.64q: there are %s", now.Name, to,
			strings.Join(known, ", "))
	}
	return list[i], nil
}

// artifact reads what was installed under a name.
func (t Target) artifact(x *index.Index, name string, p Past) (share.Artifact, error) {
	_, a, err := x.Get(p.Reference)
	if err == nil || len(p.SHA256) < sumLength {
		return a, err
	}
	file := t.module(name, p.SHA256)
	module, other := regular.Read(file, regular.NoLink, maxModule)
	if other == nil {
		a, other = share.ReadBeside(file, module)
	}
	if other != nil {
		return a, errors.Join(err, other)
	}
	return a, nil
}
