package admin

import "testing"

// TestVersionName: a name is what its parts are, however it is written, and means what begins with them.
func TestVersionName(t *testing.T) {
	for text, want := range map[string]struct {
		name        VersionName
		full, short string
		names       bool // ab12 with settings c1
	}{
		"":        {VersionName{}, "", "", true},
		"AB":      {VersionName{SHA256: "ab"}, "ab", "ab", true},
		"ab12":    {VersionName{SHA256: "ab12"}, "ab12", "ab12", true},
		"ab12.":   {VersionName{SHA256: "ab12", Settings: true}, "ab12.", "ab12.", true},
		"a.C1":    {VersionName{"a", "c1", true}, "a.c1", "a.c1", true},
		"a.c2":    {VersionName{"a", "c2", true}, "a.c2", "a.c2", false},
		"b":       {VersionName{SHA256: "b"}, "b", "b", false},
		"a.b.c":   {VersionName{"a", "b.c", true}, "a.b.c", "a.b.c", false},
		"ab12123": {VersionName{SHA256: "ab12123"}, "ab12123", "ab12123", false},
		"0123456789abcdef0.0123456789": {VersionName{"0123456789abcdef0", "0123456789", true},
			"0123456789abcdef0.0123456789", "0123456789abcdef.01234567", false},
	} {
		got := ParseVersionName(text)
		if got != want.name || got.String() != want.full || got.Short() != want.short ||
			got.Names("ab12", "c1") != want.names {
			t.Errorf("%q: %+v, %q, %q, %v", text, got, got, got.Short(), got.Names("ab12", "c1"))
		}
	}
}
