package main

import (
	"strings"
	"testing"

	"tgi/server/config"
)

func TestPrintSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := config.Read(settingFlags(t, "--port", "81", "--api-key", "secret", "--quantize", "fp8"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printSettings(&out, l); err != nil {
		t.Fatal(err)
	}
	squeezed := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"[server] hostname = \"0.0.0.0\" # default port = 81 # flag --port",
		`api_keys = ["***"] # flag --api-key`, "# --quantize has no effect: "} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	var again config.Config
	if err := config.Decode("printed", []byte(out.String()), &again); err != nil {
		t.Error(err)
	}
}
