package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"tgi/server/share"
	"tgi/server/share/index"
	"tgi/server/share/registry"
)

// Fetch pulls what a reference names, holds it to a policy and to the contract of this program, and keeps it in an
// index. It returns its description, too, and the reference that it is kept under, which has the digest.
func Fetch(ctx context.Context, from *registry.Repository, at registry.Reference, policy share.Policy,
	into *index.Index) (a share.Artifact, d share.Description, kept string, err error) {
	if a, err = from.Pull(ctx, at); err != nil {
		return a, d, "", err
	}
	if d, err = usable(a, policy); err != nil {
		return a, d, "", fmt.Errorf("%s: %w", at, err)
	}
	kept = at.Repository
	if at.Tag != "" {
		kept += ":" + at.Tag
	}
	kept += "@" + a.Digest()
	return a, d, kept, into.Put(ctx, kept, a)
}

// usable holds an artefact to a policy and to the contract of this program.
func usable(a share.Artifact, policy share.Policy) (share.Description, error) {
	if err := policy.Check(a); err != nil {
		return share.Description{}, err
	}
	d, err := a.Open()
	if err == nil {
		err = d.Runs()
	}
	return d, err
}

// FetchOnce is Fetch, and takes what a digest names from the index where that has it: then no registry is asked. What
// the index has and the policy refuses is fetched all the same, because it may have been signed since. Where the
// registry can't be reached, the error says what of the reference is in the index.
func FetchOnce(ctx context.Context, from *registry.Repository, at registry.Reference, policy share.Policy,
	x *index.Index) (a share.Artifact, d share.Description, kept string, err error) {
	e, a, local := x.Get(at.String())
	if local == nil {
		d, local = usable(a, policy)
	}
	if local == nil && at.Digest == a.Digest() {
		return a, d, at.String(), nil
	}
	a, d, kept, err = Fetch(ctx, from, at, policy, x)
	switch {
	case err == nil || !registry.Unreachable(err) || errors.Is(local, fs.ErrNotExist):
		return a, d, kept, err
	case local != nil:
		return a, d, "", fmt.Errorf("%w; what was pulled before: %w", err, local)
	}
	return a, d, "", fmt.Errorf("%w; it was pulled before, and no registry is needed for: tgi plugin install %s@%s",
		err, at.Repository, e.Digest)
}
