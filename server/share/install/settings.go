package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/index"
)

// TargetOf is where settings have plugins installed.
func TargetOf(cfg config.Config) Target {
	return Target{File: cmp.Or(cfg.File, config.DefaultFile), Folder: cfg.Plugins.Installed}
}

// IndexOf is the local index, with the bound of settings for modules.
func IndexOf(cfg config.Config) (*index.Index, error) {
	dir, err := cfg.Plugins.IndexDir()
	return index.Open(dir, int64(cfg.Plugins.UploadLimit)), err
}

// Summary is what commands say of an artefact.
type Summary struct {
	Reference  string   `json:"reference,omitempty"`
	Digest     string   `json:"digest"`
	Name       string   `json:"name"`
	SHA256     string   `json:"sha256"`
	Signatures int      `json:"signatures"`
	Signers    []string `json:"signers,omitempty"`
	File       string   `json:"file,omitempty"`
	Replaced   string   `json:"replaced,omitempty"` // where the block had its module from
}

// Signed says who signed, as a line.
func (s Summary) Signed() string {
	if len(s.Signers) > 0 {
		return "signed by " + strings.Join(s.Signers, ", ") + "\n"
	}
	return terminal.Count(s.Signatures, "signature") + ", not verified: no [[plugin_signer]] is set\n"
}

// Locked returns the [[plugin]] of a name if its module came from a registry, else nil.
func Locked(cfg config.Config, name string) *config.Plugin {
	i := slices.IndexFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == name && p.Reference != "" })
	if i < 0 {
		return nil
	}
	return &cfg.Plugin[i]
}

// RollbackIn is Rollback of what settings lock, with their index and the policy of their signers. It says what it
// did, as a text too.
func RollbackIn(ctx context.Context, cfg config.Config, policy share.Policy, now config.Plugin, to string,
	check func(ctx context.Context, cfg config.Config, block config.Plugin, module []byte) error) (Summary, string,
	error) {
	x, err := IndexOf(cfg)
	if err != nil {
		return Summary{}, "", err
	}
	t := TargetOf(cfg)
	back, err := Rollback(ctx, t, x, policy, now, to, func(ctx context.Context, p config.Plugin, module []byte) error {
		return check(ctx, cfg, p, module)
	})
	if err != nil {
		return Summary{}, "", err
	}
	a := back.Artifact
	s := Summary{Reference: back.Reference, Digest: a.Digest(), Name: now.Name, SHA256: back.SHA256,
		Signatures: len(a.Signatures), Signers: policy.Signed(a), File: back.File}
	if back.Result.Replaced != nil {
		s.Replaced = Origin(*back.Result.Replaced)
	}
	return s, fmt.Sprintf("%s is %s again\n%sreplaced %s\nwrote its [[plugin]] in %s, which a running server "+
		"reads again\n", s.Name, terminal.Line(s.Reference), s.Signed(), s.Replaced, t.File), nil
}
