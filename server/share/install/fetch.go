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
// the index has and the policy refuses is fetched all the same, because it may have been signed since. For a tag the
// index is read only where the registry can't be reached: the error says what of the reference it has.
func FetchOnce(ctx context.Context, from *registry.Repository, at registry.Reference, policy share.Policy,
	x *index.Index) (a share.Artifact, d share.Description, kept string, err error) {
	if at.Digest != "" {
		if a, d, err = inIndex(x, at, policy); err == nil && a.Digest() == at.Digest {
			return a, d, at.String(), nil
		}
	}
	a, d, kept, err = Fetch(ctx, from, at, policy, x)
	if err == nil || !registry.Unreachable(err) {
		return a, d, kept, err
	}
	there, _, local := inIndex(x, at, policy)
	switch {
	case errors.Is(local, fs.ErrNotExist):
		return a, d, "", err
	case local != nil:
		return a, d, "", fmt.Errorf("%w; what was pulled before: %w", err, local)
	}
	return a, d, "", fmt.Errorf("%w; it was pulled before, and no registry is needed for: tgi plugin install %s@%s",
		err, at.Repository, there.Digest())
}

// inIndex reads what a reference names from an index, and holds it to a policy and to the contract.
func inIndex(x *index.Index, at registry.Reference, policy share.Policy) (share.Artifact, share.Description, error) {
	_, a, err := x.Get(at.String())
	if err != nil {
		return a, share.Description{}, err
	}
	d, err := usable(a, policy)
	return a, d, err
}
