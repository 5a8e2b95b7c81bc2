package install

import (
	"context"
	"fmt"

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
	if err := policy.Check(a); err != nil {
		return a, d, "", fmt.Errorf("%s: %w", at, err)
	}
	if d, err = a.Open(); err == nil {
		err = d.Runs()
	}
	if err != nil {
		return a, d, "", fmt.Errorf("%s: %w", at, err)
	}
	kept = at.Repository
	if at.Tag != "" {
		kept += ":" + at.Tag
	}
	kept += "@" + a.Digest()
	return a, d, kept, into.Put(ctx, kept, a)
}
