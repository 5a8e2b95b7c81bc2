// Package registry moves artefacts of plugins between this machine and OCI registries. It bounds all that a registry
// sends, in bytes and in time, checks every digest, and shows credentials to nobody but the registry that they are for
// and, over https, the token server that it names.
package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	ref "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"tgi/server/config"
	"tgi/server/share"
)

// Variables of the environment that have the credentials for the registry of a command. They go before docker's file.
const (
	EnvUsername = "TGI_REGISTRY_USERNAME"
	EnvPassword = "TGI_REGISTRY_PASSWORD"
)

// Options say how a registry is spoken to.
type Options struct {
	PlainHTTP bool          // for registries of this machine
	Limit     int64         // bytes of a module
	Stall     time.Duration // how long a registry may send nothing
	Agent     string        // of requests
}

// Repository is one of a registry.
type Repository struct {
	name   string
	limit  int64
	remote *remote.Repository
}

// Parse reads a reference: registry/name:tag, registry/name@sha256:DIGEST, or both.
func Parse(text string) (Reference, error) {
	if shown := config.Shown(text); shown != text { // of which the error below would repeat a part
		return Reference{}, fmt.Errorf("reference %.200q: want REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, "+
			"without a user, a password or a query", shown)
	}
	r, err := ref.ParseReference(text)
	if err != nil {
		return Reference{}, fmt.Errorf("reference %.200q: want REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST: %w", text,
			err)
	}
	out := Reference{Repository: r.Registry + "/" + r.Repository}
	if r.Reference == "" {
		return out, nil
	}
	if r.ValidateReferenceAsTag() == nil {
		out.Tag = r.Reference
		return out, nil
	}
	if err := share.CheckDigest(r.Reference); err != nil {
		return Reference{}, fmt.Errorf("reference %.200q: %w", text, err)
	}
	out.Digest = r.Reference
	return out, nil
}

// Reference is a parsed one. Neither tag nor digest means that the reference names a repository alone.
type Reference struct{ Repository, Tag, Digest string }

// String is the reference as one writes it.
func (r Reference) String() string {
	switch {
	case r.Digest != "":
		return r.Repository + "@" + r.Digest
	case r.Tag != "":
		return r.Repository + ":" + r.Tag
	}
	return r.Repository
}

// Tagged is the reference with a tag: its own, or else the version of a module.
func (r Reference) Tagged(version string) (Reference, error) {
	switch {
	case r.Digest != "":
		return r, fmt.Errorf("reference %s: want a tag instead of a digest, which follows from what is pushed", r)
	case r.Tag != "":
		return r, nil
	case version == "":
		return r, fmt.Errorf("reference %s: want a tag: the module says no version", r)
	}
	if err := (ref.Reference{Reference: version}).ValidateReferenceAsTag(); err != nil {
		return r, fmt.Errorf("reference %s: want a tag: the module's version, %.64q, can't be one", r, version)
	}
	r.Tag = version
	return r, nil
}

// Open returns the repository of a reference. It connects to nothing.
func Open(r Reference, o Options) (*Repository, error) {
	repo, err := remote.NewRepository(r.Repository)
	if err != nil {
		return nil, err
	}
	repo.PlainHTTP = o.PlainHTTP
	repo.MaxMetadataBytes = share.MaxManifest
	repo.TagListMaxPages = 1
	credential, err := credentialsFor(repo.Reference.Host())
	if err != nil {
		return nil, err
	}
	client := &auth.Client{Client: newClient(repo.Reference.Host(), o), Cache: auth.NewCache(), Credential: credential}
	client.SetUserAgent(o.Agent)
	repo.Client = client
	return &Repository{name: r.Repository, limit: o.Limit, remote: repo}, nil
}

// credentialsFor are those of the environment for host, or else those of docker's file, for any registry.
func credentialsFor(host string) (auth.CredentialFunc, error) {
	if user, password := os.Getenv(EnvUsername), os.Getenv(EnvPassword); user != "" || password != "" {
		if user == "" || password == "" {
			return nil, fmt.Errorf("%s and %s go together: one of them is not set", EnvUsername, EnvPassword)
		}
		return auth.StaticCredential(host, auth.Credential{Username: user, Password: password}), nil
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("docker's file of credentials: %w", err)
	}
	return credentials.Credential(store), nil
}

// Resolve returns the digest that a tag or digest stands for now.
func (r *Repository) Resolve(ctx context.Context, at Reference) (string, error) {
	d, err := r.resolve(ctx, at)
	return string(d.Digest), err
}

func (r *Repository) resolve(ctx context.Context, at Reference) (ocispec.Descriptor, error) {
	name := at.Tag
	if at.Digest != "" {
		name = at.Digest
	}
	if name == "" {
		return ocispec.Descriptor{}, fmt.Errorf("reference %s names no tag and no digest", at)
	}
	d, err := r.remote.Resolve(ctx, name)
	if err != nil {
		return d, fmt.Errorf("%s: %w", at, explain(err))
	}
	if err := share.CheckDigest(string(d.Digest)); err != nil {
		return d, fmt.Errorf("%s: %w", at, err)
	}
	if at.Digest != "" && string(d.Digest) != at.Digest {
		return d, fmt.Errorf("%s: the registry answers with digest %s", at, d.Digest)
	}
	if d.Size < 0 || d.Size > share.MaxManifest {
		return d, fmt.Errorf("%s: manifest must have at most %d bytes, given %d", at, share.MaxManifest, d.Size)
	}
	return d, nil
}

// Pull fetches an artefact with its signatures. What it returns has been checked against its digests, not against a
// policy.
func (r *Repository) Pull(ctx context.Context, at Reference) (a share.Artifact, err error) {
	d, err := r.resolve(ctx, at)
	if err != nil {
		return a, err
	}
	if a.Manifest, err = r.fetch(ctx, d); err != nil {
		return a, fmt.Errorf("%s: manifest: %w", at, err)
	}
	m, err := share.ReadManifest(a.Manifest, r.limit)
	if err != nil {
		return a, fmt.Errorf("%s: %w", at, err)
	}
	if a.Config, err = r.fetch(ctx, m.Config); err != nil {
		return a, fmt.Errorf("%s: config: %w", at, err)
	}
	if a.Module, err = r.fetch(ctx, m.Module); err != nil {
		return a, fmt.Errorf("%s: module: %w", at, err)
	}
	if _, err = a.Open(); err != nil {
		return a, fmt.Errorf("%s: %w", at, err)
	}
	a.Signatures, err = r.Signatures(ctx, a.Digest())
	return a, err
}

// fetch reads what a descriptor names, no more than it says, and checks its digest.
func (r *Repository) fetch(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	body, err := r.remote.Fetch(ctx, d)
	if err != nil {
		return nil, explain(err)
	}
	defer body.Close()
	text, err := content.ReadAll(body, d)
	if err != nil {
		return nil, fmt.Errorf("%s (%d bytes): %w", d.Digest, d.Size, explain(err))
	}
	return text, nil
}

// Signatures fetches the signatures of a manifest; a repository that has none is no error.
func (r *Repository) Signatures(ctx context.Context, manifest string) ([]share.Signature, error) {
	at := Reference{Repository: r.name, Tag: share.SignatureTag(manifest)}
	d, err := r.resolve(ctx, at)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := r.fetch(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	list, err := share.ReadSignatures(text, func(d ocispec.Descriptor) ([]byte, error) { return r.fetch(ctx, d) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return list, nil
}

// ErrTaken means that a tag names another artefact.
var ErrTaken = errors.New("the tag names another artefact")

// Push sends an artefact with its signatures and tags it. A tag that names another artefact is moved only with move.
func (r *Repository) Push(ctx context.Context, a share.Artifact, tag string, move bool) error {
	at := Reference{Repository: r.name, Tag: tag}
	m, err := share.ReadManifest(a.Manifest, r.limit)
	if err != nil {
		return err
	}
	switch d, err := r.resolve(ctx, at); {
	case errors.Is(err, errdef.ErrNotFound):
	case err != nil:
		return err
	case string(d.Digest) != a.Digest() && !move:
		return fmt.Errorf("%s: %w, %s; this one is %s (--move-tag moves it)", at, ErrTaken, d.Digest, a.Digest())
	}
	for _, b := range []share.Blob{{Descriptor: m.Config, Content: a.Config},
		{Descriptor: m.Module, Content: a.Module}} {
		if err := r.send(ctx, b); err != nil {
			return fmt.Errorf("%s: %s: %w", at, b.MediaType, err)
		}
	}
	d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(a.Digest()),
		Size: int64(len(a.Manifest))}
	if err := r.remote.PushReference(ctx, d, bytes.NewReader(a.Manifest), tag); err != nil {
		return fmt.Errorf("%s: manifest: %w", at, explain(err))
	}
	if len(a.Signatures) == 0 {
		return nil
	}
	return r.Attach(ctx, a.Digest(), a.Signatures)
}

// Attach adds signatures to those that the repository has of a manifest.
func (r *Repository) Attach(ctx context.Context, manifest string, list []share.Signature) error {
	there, err := r.Signatures(ctx, manifest)
	if err != nil {
		return err
	}
	all := share.Join(there, list)
	if len(all) > share.MaxSignatures {
		return fmt.Errorf("%s@%s has %d signatures, at most %d are kept", r.name, manifest, len(there), share.MaxSignatures)
	}
	text, blobs, err := share.SignatureImage(all)
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if err := r.send(ctx, b); err != nil {
			return fmt.Errorf("signature: %w", err)
		}
	}
	tag := share.SignatureTag(manifest)
	d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(text),
		Size: int64(len(text))}
	if err := r.remote.PushReference(ctx, d, bytes.NewReader(text), tag); err != nil {
		return fmt.Errorf("%s:%s: %w", r.name, tag, explain(err))
	}
	return nil
}

// send pushes a blob unless it is there.
func (r *Repository) send(ctx context.Context, b share.Blob) error {
	there, err := r.remote.Blobs().Exists(ctx, b.Descriptor)
	if err != nil || there {
		return explain(err)
	}
	return explain(r.remote.Blobs().Push(ctx, b.Descriptor, bytes.NewReader(b.Content)))
}
