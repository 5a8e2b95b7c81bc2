package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tgi/models/hf"
	"tgi/runtime/regular"
	"tgi/server/config"
)

// TestChatFilesOfOtherKinds: a pipe or a device as model.template or model.tools is refused by name; nobody waits.
func TestChatFilesOfOtherKinds(t *testing.T) {
	dir := t.TempDir()
	for _, end := range []string{".jinja", ".json"} {
		err := errors.Join(unix.Mkfifo(filepath.Join(dir, "pipe"+end), 0o600),
			os.Symlink("/dev/zero", filepath.Join(dir, "zero"+end)))
		if err != nil {
			t.Fatal(err)
		}
	}
	own := hf.TokenizerConfig{ChatTemplates: map[string]string{hf.DefaultTemplate: "{{ messages }}"}}
	for _, name := range []string{"pipe", "zero"} {
		cfg := config.Default()
		cfg.Model.Template = filepath.Join(dir, name+".jinja")
		if _, err := DescribeChat(cfg, "m", "", own); !errors.Is(err, regular.ErrOther) {
			t.Errorf("template of %s: %v", name, err)
		}
		cfg = config.Default()
		cfg.Model.Tools = filepath.Join(dir, name+".json")
		if _, err := DescribeChat(cfg, "m", "", own); !errors.Is(err, regular.ErrOther) {
			t.Errorf("tools of %s: %v", name, err)
		}
	}
}
