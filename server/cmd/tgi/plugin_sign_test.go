package main

import (
	"encoding/json"
	"os"
	"testing"

	"tgi/server/share"
)

// TestSignAnew: a module that was built again is signed anew, with the licence of before; pushing it with what belongs
// to the earlier build is refused with what to do.
func TestSignAnew(t *testing.T) {
	const first, second = "../../../examples/custom-sampler/rust/top-n-sigma.wasm",
		"../../../examples/custom-sampler/assemblyscript/top-n-sigma.wasm"
	one, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv(envKeyPassword, "secret")
	runTgi(t, 0, "plugin", "sign", "--generate", "team")
	write := func(module []byte) {
		t.Helper()
		if err := os.WriteFile("sigma.wasm", module, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one)
	runTgi(t, 0, "plugin", "sign", "sigma.wasm", "--key", "team.key", "--license", "MIT")
	write(two)
	_, said := runTgi(t, 1, "plugin", "push", "sigma.wasm", "127.0.0.1:1/plugins/sigma:2")
	contains(t, said, "sigma.wasm.artifact.json: does not belong to the module", "sign it with tgi plugin sign")
	runTgi(t, 0, "plugin", "sign", "sigma.wasm", "--key", "team.key")
	a, err := share.ReadBeside("sigma.wasm", two)
	if err != nil || len(a.Signatures) != 1 {
		t.Fatalf("%d signatures, %v", len(a.Signatures), err)
	}
	var d share.Description
	if err := json.Unmarshal(a.Config, &d); err != nil || d.License != "MIT" {
		t.Errorf("%+v, %v", d, err)
	}
	runTgi(t, 0, "plugin", "verify", "sigma.wasm", "--key", "team.pub")
	if err := os.Unsetenv(envKeyPassword); err != nil { // t.Setenv puts it back
		t.Fatal(err)
	}
	_, said = runTgi(t, 1, "plugin", "sign", "sigma.wasm", "--key", "team.key")
	contains(t, said, "key team.key: password of team.key: no terminal to ask at")
}
