package share

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"tgi/server/client/terminal"
)

// Shown is all that is known of an artefact.
type Shown struct {
	Description
	// From is the file or the reference that it was read from.
	From       string   `json:"from"`
	Digest     string   `json:"digest"`
	SHA256     string   `json:"sha256"`
	Bytes      int      `json:"bytes"`
	Signatures int      `json:"signatures"`
	Signers    []string `json:"signers"` // of the policy
}

// Describe says what an artefact is, and who of a policy has signed it.
func Describe(a Artifact, p Policy, from string) (Shown, error) {
	d, err := a.Open()
	return Shown{Description: d, From: from, Digest: a.Digest(), SHA256: a.SHA256(), Bytes: len(a.Module),
		Signatures: len(a.Signatures), Signers: append([]string{}, p.Signed(a)...)}, err
}

// WriteText writes it for people. Whoever made the artefact wrote the texts: none of them steers the terminal.
func (s Shown) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", key, terminal.Line(text))
		}
	}
	line("plugin", strings.TrimSpace(s.Name+" "+s.Version))
	line("about", s.Doc)
	line("kinds", strings.Join(s.Kinds, ", "))
	line("abi", fmt.Sprint(s.ABI))
	line("params", string(s.Params))
	line("licence", s.License)
	line("source", s.Source)
	line("from", s.From)
	line("digest", s.Digest)
	line("sha256", s.SHA256)
	line("module", fmt.Sprintf("%d bytes", s.Bytes))
	line("signatures", fmt.Sprintf("%d; signers of the settings: %s", s.Signatures,
		cmp.Or(strings.Join(s.Signers, ", "), "none")))
	_, err := io.WriteString(w, b.String())
	return err
}
