// Package index keeps artefacts of plugins in a folder of this machine: an OCI image layout, in which content is named
// after its digest, with an index by reference. Other tools for such layouts can read it.
package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"tgi/runtime/regular"
	"tgi/server/share"
	"tgi/server/wire"
)

// Bounds of the index: its file, and what is in it.
const (
	maxIndex   = 4 << 20
	maxEntries = 4096
)

// Index is a folder with artefacts.
type Index struct {
	dir   string
	limit int64 // bytes of a module
}

// Open returns the index of a folder, which need not exist yet. limit bounds modules, in bytes.
func Open(dir string, limit int64) *Index { return &Index{dir, limit} }

// Entry is one artefact with the reference that it was pulled by.
type Entry struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
}

// List returns the entries, by reference.
func (x *Index) List() ([]Entry, error) {
	all, err := x.read()
	var list []Entry
	for _, d := range all.Manifests {
		if d.ArtifactType == share.ArtifactType {
			list = append(list, Entry{d.Annotations[ocispec.AnnotationRefName], string(d.Digest)})
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Reference, b.Reference) })
	return list, err
}

// Get reads an artefact by what Remove knows it by, and checks it. The error matches os.ErrNotExist where it is not
// there. A reference that is written out comes before those that are it with a tag or a digest more; where these have
// several digests, a name that fits all of them is refused.
func (x *Index) Get(name string) (Entry, share.Artifact, error) {
	var a share.Artifact
	list, err := x.List()
	if err != nil {
		return Entry{}, a, err
	}
	e, err := x.find(list, name)
	if err != nil {
		return Entry{}, a, err
	}
	if a.Manifest, err = x.blob(digest.Digest(e.Digest), share.MaxManifest); err != nil {
		return e, a, err
	}
	m, err := share.ReadManifest(a.Manifest, x.limit)
	if err != nil {
		return e, a, fmt.Errorf("%s: %w", name, err)
	}
	if a.Config, err = x.blob(m.Config.Digest, share.MaxConfig); err != nil {
		return e, a, err
	}
	if a.Module, err = x.blob(m.Module.Digest, x.limit); err != nil {
		return e, a, err
	}
	if a.Signatures, err = x.signatures(e.Digest); err != nil {
		return e, a, err
	}
	_, err = a.Open()
	return e, a, err
}

// find returns the entry that a name means.
func (x *Index) find(list []Entry, name string) (Entry, error) {
	var found []Entry
	for _, e := range list {
		if e.Reference == name {
			return e, nil
		}
		if e.Is(name) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("%s is not in %s: %w", name, x.dir, fs.ErrNotExist)
	}
	for _, e := range found[1:] {
		if e.Digest != found[0].Digest {
			return Entry{}, fmt.Errorf("%s is both %s and %s in %s: name one of them", name, found[0].Reference,
				e.Reference, x.dir)
		}
	}
	return found[0], nil
}

// signatures reads those of a manifest.
func (x *Index) signatures(manifest string) ([]share.Signature, error) {
	all, err := x.read()
	if err != nil {
		return nil, err
	}
	for _, d := range all.Manifests {
		if d.Annotations[ocispec.AnnotationRefName] == share.SignatureTag(manifest) {
			text, err := x.blob(d.Digest, share.MaxManifest)
			if err != nil {
				return nil, err
			}
			return share.ReadSignatures(text, func(d ocispec.Descriptor) ([]byte, error) {
				return x.blob(d.Digest, share.MaxPayload)
			})
		}
	}
	return nil, nil
}

// Put keeps an artefact under a reference, in place of what exactly this reference named before. Entries whose
// references have the same name or tag and another digest stay, as does content that any entry needs. ctx bounds the
// waiting for other processes.
func (x *Index) Put(ctx context.Context, reference string, a share.Artifact) error {
	m, err := share.ReadManifest(a.Manifest, x.limit)
	if err != nil {
		return err
	}
	entries := []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: share.ArtifactType,
		Digest: digest.Digest(a.Digest()), Size: int64(len(a.Manifest)),
		Annotations: map[string]string{ocispec.AnnotationRefName: reference}}}
	blobs := map[digest.Digest][]byte{
		entries[0].Digest: a.Manifest, m.Config.Digest: a.Config, m.Module.Digest: a.Module,
	}
	if len(a.Signatures) > 0 {
		text, list, err := share.SignatureImage(a.Signatures)
		if err != nil {
			return err
		}
		for _, b := range list {
			blobs[b.Digest] = b.Content
		}
		sum := digest.FromBytes(text)
		blobs[sum] = text
		entries = append(entries, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: sum,
			Size:        int64(len(text)),
			Annotations: map[string]string{ocispec.AnnotationRefName: share.SignatureTag(a.Digest())}})
	}
	return x.change(ctx, func(all *ocispec.Index) error {
		for sum, text := range blobs {
			if err := x.keep(sum, text); err != nil {
				return err
			}
		}
		for _, e := range entries {
			drop(all, e.Annotations[ocispec.AnnotationRefName])
			all.Manifests = append(all.Manifests, e)
		}
		if len(all.Manifests) > maxEntries {
			return fmt.Errorf("%s has %d entries, at most %d are kept", x.dir, len(all.Manifests), maxEntries)
		}
		return nil
	})
}

// Remove removes what has a reference, whole or as NAME:TAG or NAME@DIGEST, or everything with a digest, and the
// content that nothing else needs.
func (x *Index) Remove(ctx context.Context, name string) error {
	return x.change(ctx, func(all *ocispec.Index) error {
		before := len(all.Manifests)
		all.Manifests = slices.DeleteFunc(all.Manifests, func(d ocispec.Descriptor) bool {
			return d.ArtifactType == share.ArtifactType &&
				Entry{d.Annotations[ocispec.AnnotationRefName], string(d.Digest)}.Is(name)
		})
		if len(all.Manifests) == before {
			return fmt.Errorf("%s is not in %s: %w", name, x.dir, fs.ErrNotExist)
		}
		return nil
	})
}

// Is says whether a name is the entry's digest, or its reference, which may have both a tag and a digest, whole or with
// only one of them.
func (e Entry) Is(name string) bool {
	tagged, _, _ := strings.Cut(e.Reference, "@")
	repository := tagged
	if colon := strings.LastIndexByte(tagged, ':'); colon > strings.LastIndexByte(tagged, '/') {
		repository = tagged[:colon]
	}
	return name == e.Digest || name == e.Reference || name == repository+"@"+e.Digest ||
		name == tagged && tagged != repository
}

// drop removes what has a reference.
func drop(all *ocispec.Index, name string) {
	all.Manifests = slices.DeleteFunc(all.Manifests, func(d ocispec.Descriptor) bool {
		return d.Annotations[ocispec.AnnotationRefName] == name
	})
}

// read reads the index; a folder that is not there has an empty one.
func (x *Index) read() (all ocispec.Index, err error) {
	path := filepath.Join(x.dir, ocispec.ImageIndexFile)
	text, err := regular.Read(path, 0, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	if all, err = decode(text); err != nil {
		return all, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// decode reads the text of an index.
func decode(text []byte) (all ocispec.Index, err error) {
	if err := json.Unmarshal(text, &all); err != nil {
		return ocispec.Index{}, wire.Told(err)
	}
	if len(all.Manifests) > maxEntries {
		return ocispec.Index{}, fmt.Errorf("at most %d entries are read, given %d", maxEntries, len(all.Manifests))
	}
	for i, d := range all.Manifests {
		if err := share.CheckDigest(string(d.Digest)); err != nil { // it becomes a path
			return ocispec.Index{}, fmt.Errorf("manifests[%d]: %w", i, err)
		}
	}
	return all, nil
}

// change changes the index, alone among all processes, and then removes content that nothing names.
func (x *Index) change(ctx context.Context, with func(all *ocispec.Index) error) error {
	if err := os.MkdirAll(filepath.Join(x.dir, "blobs", "sha256"), 0o755); err != nil {
		return err
	}
	lock, err := regular.Open(filepath.Join(x.dir, ".lock"), os.O_RDWR|os.O_CREATE|regular.NoLink)
	if err != nil {
		return err
	}
	defer lock.Close() // which ends the lock
	if err := share.Lock(ctx, lock); err != nil {
		return err
	}
	all, err := x.read()
	if err != nil {
		return err
	}
	if err := with(&all); err != nil {
		return err
	}
	all.Versioned, all.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageIndex
	dropSignatures(&all)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	layout, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	if err := share.Write(filepath.Join(x.dir, ocispec.ImageLayoutFile), layout, 0o644); err != nil {
		return err
	}
	if err := share.Write(filepath.Join(x.dir, ocispec.ImageIndexFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return x.sweep(all)
}

// dropSignatures removes signatures of what is no longer there.
func dropSignatures(all *ocispec.Index) {
	tags := map[string]bool{}
	for _, d := range all.Manifests {
		tags[share.SignatureTag(string(d.Digest))] = true
	}
	all.Manifests = slices.DeleteFunc(all.Manifests, func(d ocispec.Descriptor) bool {
		name := d.Annotations[ocispec.AnnotationRefName]
		return strings.HasPrefix(name, "sha256-") && strings.HasSuffix(name, ".sig") && !tags[name]
	})
}

// sweep removes content that no manifest of the index names.
func (x *Index) sweep(all ocispec.Index) error {
	used := map[string]bool{}
	for _, d := range all.Manifests {
		used[d.Digest.Encoded()] = true
		if d.MediaType != ocispec.MediaTypeImageManifest {
			return nil // another tool's: what it needs is not known, all stays
		}
		text, err := x.blob(d.Digest, share.MaxManifest)
		if err != nil {
			return nil // what a broken manifest needs is not known: all stays
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil
		}
		for _, part := range append(m.Layers, m.Config) {
			if share.CheckDigest(string(part.Digest)) == nil {
				used[part.Digest.Encoded()] = true
			}
		}
	}
	files, err := os.ReadDir(filepath.Join(x.dir, "blobs", "sha256"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if !used[f.Name()] {
			if err := os.Remove(filepath.Join(x.dir, "blobs", "sha256", f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep writes content unless it is there.
func (x *Index) keep(sum digest.Digest, text []byte) error {
	if _, err := x.blob(sum, int64(len(text))); err == nil {
		return nil
	}
	return share.Write(x.path(sum), text, 0o644)
}

// blob reads content and checks it.
func (x *Index) blob(sum digest.Digest, limit int64) ([]byte, error) {
	if err := share.CheckDigest(string(sum)); err != nil {
		return nil, err
	}
	text, err := regular.Read(x.path(sum), 0, limit)
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(text); got != sum {
		return nil, fmt.Errorf("%s has digest %s: it was damaged, remove it and pull again", x.path(sum), got)
	}
	return text, nil
}

func (x *Index) path(sum digest.Digest) string {
	return filepath.Join(x.dir, "blobs", "sha256", sum.Encoded())
}
