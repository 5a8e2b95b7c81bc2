package doctor

import (
	"strings"
	"testing"

	"tgi/server/config"
)

// TestUnfinishedSigners: where the keys of signers were not all read, as on a disk that hangs, no plugin is tried.
func TestUnfinishedSigners(t *testing.T) {
	d, r := &diagnosis{cfg: config.Default()}, &report{}
	d.plugins(t.Context(), r)
	if len(r.lines) != 1 || r.lines[0].Status != Warn || !strings.Contains(r.lines[0].Found, "not tried") {
		t.Errorf("%+v", r.lines)
	}
}
