package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseDevice: what is not a device is refused with the value.
func TestParseDevice(t *testing.T) {
	for setting, want := range map[string]string{"auto": "auto -1", "cpu": "cpu -1", "cuda": "cuda -1",
		"cuda:0":  "cuda 0",
		"cuda:12": "cuda 12"} {
		kind, index, err := ParseDevice(setting)
		if got := fmt.Sprint(kind, " ", index); err != nil || got != want {
			t.Errorf("%s is %s, %v", setting, got, err)
		}
	}
	for _, setting := range []string{"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:01", "cuda:+1",
		"cuda:1024", "cuda:x", "cpu:0"} {
		_, _, err := ParseDevice(setting)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("given %q", setting)) {
			t.Errorf("%q: %v", setting, err)
		}
	}
}

// TestParseGraphs: TGI's lists of batch sizes, in any order.
func TestParseGraphs(t *testing.T) {
	for setting, want := range map[string]string{"0": "[]", "1,2,4": "[1 2 4]", "8, 1,8": "[1 8]", "1024": "[1024]",
		"auto": "[1 2 4 8 16 24 32 48 64 96 128]"} {
		if got, err := ParseGraphs(setting); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s is %v, %v", setting, got, err)
		}
	}
	for _, setting := range []string{"", "on", "1,", "0,1", "-1", "1025", "1;2"} {
		_, err := ParseGraphs(setting)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("given %q", setting)) {
			t.Errorf("%q: %v", setting, err)
		}
	}
}
