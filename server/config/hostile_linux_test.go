package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tgi/runtime/regular"
)

// TestHostileFiles: pipes, devices and files without end in the place of the settings' file or of a certificate are
// refused by name; nobody waits and nothing is read of them.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(unix.Mkfifo(at("pipe"), 0o600), os.Symlink("/dev/zero", at("zero")),
		os.WriteFile(at("sparse"), nil, 0o600), os.Truncate(at("sparse"), 1<<40), os.WriteFile(at("fits"), nil, 0o600),
		os.Truncate(at("fits"), MaxFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"pipe": regular.ErrOther, "zero": regular.ErrOther,
		"sparse": regular.ErrTooLarge} {
		_, err := Read(&Flags{given: map[string]string{"config": at(name)}},
			func(string) (string, bool) { return "", false })
		if !errors.Is(err, want) {
			t.Errorf("settings in %s: %v", name, err)
		}
		if says := err != nil && strings.Contains(err.Error(), "; --config - reads"); says != (name == "pipe") {
			t.Errorf("settings in %s: %v", name, err)
		}
		c := Default()
		if c.File = at(name); c.Place("template") != "" {
			t.Errorf("%s has a place", name)
		}
		for _, pair := range [][2]string{{name, "fits"}, {"fits", name}} {
			if _, err := ReadPair(at(pair[0]), at(pair[1])); !errors.Is(err, want) {
				t.Errorf("certificate and key %v: %v", pair, err)
			}
		}
	}
	if _, err := ReadPair(at("fits"), at("fits")); err == nil || errors.Is(err, regular.ErrTooLarge) {
		t.Errorf("files of %d bytes that are no certificate: %v", MaxFile, err)
	}
}
