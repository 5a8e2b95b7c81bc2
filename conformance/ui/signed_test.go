package ui

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"tgi/server/share"
)

// signs makes keys in a folder, and returns what signs a module with them: it writes the file of the signatures.
func signs(t *testing.T, dir, name string) func(module, file string) {
	t.Helper()
	if err := share.Generate(filepath.Join(dir, name), share.ECDSA, nil); err != nil {
		t.Fatal(err)
	}
	key := sure(share.ReadSigner(filepath.Join(dir, name+".key"), func() ([]byte, error) { return nil, nil }))
	return func(module, file string) {
		t.Helper()
		a := sure(share.Pack(sure(os.ReadFile(module)), share.Description{Name: "marker", Kinds: []string{"logits"},
			ABI: 1}))
		a.Signatures = []share.Signature{sure(a.Sign(key, "marker"))}
		if err := os.WriteFile(file, sure(a.EncodeRest()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSignedPlugins: a server that wants signatures is given them by the form: chosen, with the keyboard alone, or
// dropped together with the module.
func TestSignedPlugins(t *testing.T) {
	demand(t)
	dir := t.TempDir()
	one, two := sure(filepath.Abs(modules+"marker-1.wasm")), sure(filepath.Abs(modules+"marker-2.wasm"))
	team, other := signs(t, dir, "team"), signs(t, dir, "other")
	first, second, wrong := filepath.Join(dir, "marker-1.wasm.artifact.json"),
		filepath.Join(dir, "marker-2.wasm.artifact.json"), filepath.Join(dir, "other.artifact.json")
	team(one, first)
	team(two, second)
	other(one, wrong)
	s := serve(t, keyed+"[plugins]\nrequire_signed = true\nuploads = "+quote(filepath.Join(dir, "uploads"))+
		"\n[[plugin_signer]]\nname = \"team\"\npublic_key = "+quote(filepath.Join(dir, "team.pub"))+"\n")

	// Without: the server says what is missing, the field is shown and has the keyboard.
	p := openAs(t, s.URL, "/#/plugins", "boss")
	p.rowOf("grammar", "ready")
	p.upload("Module", one)
	p.fill("textbox", "Name", "marker")
	p.press(kb.Enter)
	p.says("marker was refused: the module is not signed as the settings demand")
	p.silent("[role=status]", "Your key may not")
	p.reads("form.drop", "This server wants signatures: choose their file.")
	const file = "File of the signatures"
	p.eventually("the file can be chosen with the keyboard", `((e) => e.type === 'file' && e.checkVisibility() &&
		e.getAttribute('aria-invalid') === 'true' && e.labels[0].textContent === `+quote(file)+`)(document.activeElement)`)
	p.checkNames()
	p.shots("plugins-unsigned")

	// Those of somebody else, then those of the team.
	p.upload(file, wrong)
	p.reads("form.drop", "other.artifact.json")
	p.eventually("what was wrong is not said of another file", `!document.querySelector('[aria-invalid]')`)
	p.click("button", "Check only")
	p.reads("form.drop", "None of these signatures is of a signer whom this server knows.")
	p.upload("Module", two)
	p.click("button", "Check only")
	p.says("does not belong to the module")
	p.eventually("what was wrong is not said of another module", `!document.querySelector('[aria-invalid]')`)
	p.silent("form.drop", "None of these signatures")
	p.upload("Module", one)
	p.upload(file, one)
	p.reads("form.drop", "marker-1.wasm is no .json file.")
	p.upload(file, first)
	p.click("button", "Check only")
	p.reads("form.drop", "The module is good: logits, version 1.0.0.")
	p.click("button", "Upload")
	p.says("marker version 1.0.0 is ready")
	p.rowOf("marker", "ready")
	p.silent("form.drop", "marker-1.wasm")

	// Both files dropped together are another version; what is neither is criticised.
	p.click("button", "Replace marker")
	p.dropOn("form.drop", one, first, wrong)
	p.reads("form.drop", "Drop one file, or a module with the file of its signatures.")
	p.dropOn("form.drop", second, two)
	p.reads("form.drop", "marker-2.wasm, ")
	p.reads("form.drop", "marker-2.wasm.artifact.json, ")
	p.shots("plugins-signed")
	p.click("button", "Upload")
	p.says("marker version 2.0.0 is ready")
	p.rowOf("marker", "2.0.0 ")

	// Signatures of another module are refused as that.
	p.click("button", "Replace marker")
	p.upload("Module", one)
	p.dropOn("form.drop", second)
	p.click("button", "Upload")
	p.says("marker was refused: ")
	p.rowOf("marker", "2.0.0 ")
}
