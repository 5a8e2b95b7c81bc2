package store

import (
	"path/filepath"
	"strings"
	"testing"

	"tgi/models"
)

// TestDevicesHaveEntriesOfTheirOwn: the same checkpoint in the same format is another model on another device, and the
// CPU's keeps the name that it has always had.
func TestDevicesHaveEntriesOfTheirOwn(t *testing.T) {
	dir := checkpoint(t, "llama2")
	opt, conversions := options(t, models.Int4)
	for range 2 {
		opt.Device = ""
		cpu := prepared(t, dir, opt)
		opt.Device = models.CUDA
		cuda := prepared(t, dir, opt)
		if *conversions != 2 {
			t.Errorf("%d conversions, want one for each device", *conversions)
		}
		// The checksum of "tgi model\nbuilder 12\nweights int4\n" and of the two files' checksums and names.
		if name := filepath.Base(cpu.Dir); name != "m-llama2-int4-84a5d55f32e3e396" {
			t.Errorf("entry %s", name)
		}
		if name := filepath.Base(cuda.Dir); !strings.HasPrefix(name, "m-llama2-cuda-int4-") {
			t.Errorf("entry %s", name)
		}
		if cpu.Layout != models.LayoutOf(models.CPU, models.Int4, 16) ||
			cuda.Layout != models.LayoutOf(models.CUDA, models.Int4, 16) {
			t.Errorf("layouts %+v and %+v", cpu.Layout, cuda.Layout)
		}
		if cuda.Arch != cpu.Arch {
			t.Errorf("shapes %+v and %+v", cpu.Arch, cuda.Arch)
		}
	}
}
