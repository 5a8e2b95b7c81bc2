package share

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"tgi/server/config"
)

// module is the shortest one.
var module = []byte("\x00asm\x01\x00\x00\x00")

func packed(t testing.TB) Artifact {
	t.Helper()
	a, err := Pack(module, Description{Name: "ban", Version: "1.0.0", Doc: "Bans.", Kinds: []string{"logits", "guard"},
		ABI: 1, Params: json.RawMessage(`{"type": "object"}`), License: "MIT", Source: "https://example.com"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// keys makes a pair and reads it.
func keys(t *testing.T, algorithm string) (signature.Signer, Signer) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "k")
	if err := Generate(name, algorithm, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	private, err := ReadSigner(name+".key", func() ([]byte, error) { return []byte("secret"), nil })
	if err != nil {
		t.Fatal(err)
	}
	public, err := NewSigner(algorithm, name+".pub")
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func TestPack(t *testing.T) {
	a := packed(t)
	d, err := a.Open()
	if err != nil || d.Name != "ban" || d.License != "MIT" || string(d.Params) != `{"type":"object"}` {
		t.Errorf("%+v, %v", d, err)
	}
	if b := packed(t); b.Digest() != a.Digest() {
		t.Error("the same module has two digests")
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(a.Manifest, &m); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{AnnotationName: "ban", AnnotationKinds: "logits,guard", AnnotationABI: "1",
		AnnotationSHA256: a.SHA256(), ocispec.AnnotationLicenses: "MIT", ocispec.AnnotationVersion: "1.0.0",
		ocispec.AnnotationSource: "https://example.com", ocispec.AnnotationDescription: "Bans."} {
		if m.Annotations[key] != want {
			t.Errorf("%s is %q, not %q", key, m.Annotations[key], want)
		}
	}
	for want, d := range map[string]Description{
		"name must": {Name: "Ban", Kinds: []string{"logits"}, ABI: 1}, "kinds must": {Name: "ban", ABI: 1},
		"abi must":  {Name: "ban", Kinds: []string{"logits"}},
		"kind must": {Name: "ban", Kinds: []string{"a,b"}, ABI: 1},
		"doc must":  {Name: "ban", Kinds: []string{"logits"}, ABI: 1, Doc: strings.Repeat("x", maxText+1)},
		"params":    {Name: "ban", Kinds: []string{"logits"}, ABI: 1, Params: json.RawMessage(`{`)},
	} {
		if _, err := Pack(module, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := Pack([]byte("#!/bin/sh"), Description{Name: "ban", Kinds: []string{"logits"}, ABI: 1}); err == nil {
		t.Error("a script is a module")
	}
}

// TestOpenRefuses: parts that do not belong together, and manifests of other things.
func TestOpenRefuses(t *testing.T) {
	a := packed(t)
	for want, change := range map[string]func(a *Artifact){
		"found 8":                   func(a *Artifact) { a.Module = append(bytes.Clone(a.Module[:7]), 1) },
		"size must":                 func(a *Artifact) { a.Module = a.Module[:4] },
		ConfigType:                  func(a *Artifact) { a.Config = append(a.Config, ' ') },
		"artifactType":              func(a *Artifact) { a.Manifest = []byte(`{"layers":[]}`) },
		"one layer":                 func(a *Artifact) { a.Manifest = []byte(`{"artifactType":"` + ArtifactType + `"}`) },
		"manifest: ":                func(a *Artifact) { a.Manifest = []byte(`{`) },
		"at most 65536":             func(a *Artifact) { a.Manifest = make([]byte, MaxManifest+1) },
		"annotation tgi.plugin.sha": func(a *Artifact) { a.Manifest = swap(a.Manifest, AnnotationSHA256, "x") },
		"mediaType must":            func(a *Artifact) { a.Manifest = swap(a.Manifest, ModuleType, "text/plain") },
		"digest must":               func(a *Artifact) { a.Manifest = swap(a.Manifest, "sha256:", "sha512:") },
	} {
		b := a
		change(&b)
		if _, err := b.Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (Description{Name: "ban", ABI: 9}).Runs(); err == nil || !strings.Contains(err.Error(), "version 9") {
		t.Error(err)
	}
}

func swap(text []byte, old, with string) []byte {
	return bytes.ReplaceAll(text, []byte(old), []byte(with))
}

// TestSign: both algorithms; a signature is of one manifest and by one key.
func TestSign(t *testing.T) {
	for _, algorithm := range []string{ECDSA, Ed25519} {
		t.Run(algorithm, func(t *testing.T) {
			private, public := keys(t, algorithm)
			_, other := keys(t, algorithm)
			a := packed(t)
			if err := (Policy{public}).Check(a); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(),
				"has no signature") {
				t.Error(err)
			}
			made, err := a.Sign(private, "registry.example/ban")
			if err != nil {
				t.Fatal(err)
			}
			a.Signatures = []Signature{{Payload: []byte("{}"), Signature: []byte("x")}, made}
			if got := (Policy{other, public}).Signed(a); len(got) != 1 || got[0] != algorithm {
				t.Errorf("signed by %q", got)
			}
			if err := (Policy{other}).Check(a); !errors.Is(err, ErrUnsigned) {
				t.Error(err)
			}
			if err := (Policy{}).Check(a); err != nil {
				t.Error(err)
			}
			b, err := Pack(append(bytes.Clone(module), 0), Description{Name: "ban", Kinds: []string{"logits"}, ABI: 1})
			if err != nil {
				t.Fatal(err)
			}
			b.Signatures = a.Signatures
			if err := (Policy{public}).Check(b); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(),
				"none is of this digest") {
				t.Errorf("the signature of another manifest: %v", err)
			}
			a.Signatures[1].Payload = swap(made.Payload, "registry.example", "registry.exampl3")
			if err := (Policy{public}).Check(a); !errors.Is(err, ErrUnsigned) {
				t.Errorf("another payload: %v", err)
			}
		})
	}
}

// TestSignatureOfOtherType: the key's signature of a payload of another type counts for nothing.
func TestSignatureOfOtherType(t *testing.T) {
	private, public := keys(t, ECDSA)
	a := packed(t)
	made, err := a.Sign(private, "ban")
	if err != nil {
		t.Fatal(err)
	}
	made.Payload = swap(made.Payload, "cosign container image signature", "a receipt")
	if made.Signature, err = private.SignMessage(bytes.NewReader(made.Payload)); err != nil {
		t.Fatal(err)
	}
	a.Signatures = []Signature{made}
	if got := (Policy{public}).Signed(a); len(got) > 0 {
		t.Errorf("signed by %q", got)
	}
}

// TestKeys: files that are there stay, others may not read a plain key, and other kinds of keys are refused.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "k")
	password := func() ([]byte, error) { return []byte("secret"), nil }
	if err := Generate(name, ECDSA, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name + ".key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := Generate(name, ECDSA, nil); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Error(err)
	}
	if err := os.Remove(name + ".key"); err != nil {
		t.Fatal(err)
	}
	if err := Generate(name, ECDSA, nil); err == nil { // because of k.pub
		t.Error("a public key was overwritten")
	}
	if _, err := os.Stat(name + ".key"); !errors.Is(err, os.ErrNotExist) {
		t.Error("half a pair is left")
	}
	if err := Generate(name+"2", "rsa", nil); err == nil || !strings.Contains(err.Error(), `"rsa"`) {
		t.Error(err)
	}
	if err := Generate(name+"3", ECDSA, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSigner(name+"3.key", func() ([]byte, error) { return []byte("wrong"), nil }); err == nil {
		t.Error("a wrong password opened the key")
	}
	if _, err := ReadSigner(name+"3.pub", password); err == nil ||
		!strings.HasPrefix(err.Error(), "key "+name+"3.pub: this is a public key") {
		t.Errorf("a public key: %v", err)
	}
	rsaPrivate, rsaPublic, err := cryptoutils.GeneratePEMEncodedRSAKeyPair(2048, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSigner("a", string(rsaPublic)); err == nil ||
		!strings.Contains(err.Error(), "signer a: key: must be") {
		t.Error(err)
	}
	plain := filepath.Join(dir, "plain.key")
	if err := os.WriteFile(plain, rsaPrivate, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSigner(plain, password); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
	if err := os.Chmod(plain, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSigner(plain, password); err == nil || !strings.Contains(err.Error(), "ECDSA on P-256") {
		t.Error(err)
	}
	if _, err := NewPolicy([]config.PluginSigner{{Name: "a", PublicKey: filepath.Join(dir, "none")}}); err == nil ||
		!strings.Contains(err.Error(), "plugin_signer: signer a") {
		t.Error(err)
	}
}

// TestSignatureImage: what is written as cosign does is read again; layers of others are passed over.
func TestSignatureImage(t *testing.T) {
	private, public := keys(t, Ed25519)
	a := packed(t)
	made, err := a.Sign(private, "ban")
	if err != nil {
		t.Fatal(err)
	}
	text, blobs, err := SignatureImage([]Signature{made})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(d ocispec.Descriptor) ([]byte, error) {
		for _, b := range blobs {
			if b.Digest == d.Digest {
				return b.Content, nil
			}
		}
		return nil, os.ErrNotExist
	}
	if a.Signatures, err = ReadSignatures(text, fetch); err != nil || len((Policy{public}).Signed(a)) != 1 {
		t.Errorf("%d signatures, %v", len(a.Signatures), err)
	}
	if list, err := ReadSignatures(swap(text, payloadType, "text/plain"), fetch); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	many, _, err := SignatureImage(make([]Signature, MaxSignatures+1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSignatures(many, fetch); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Error(err)
	}
	if got := SignatureTag(a.Digest()); got != "sha256-"+digest.FromBytes(a.Manifest).Encoded()+".sig" {
		t.Error(got)
	}
}

// TestBeside: the policy of a file, by what stands beside it.
func TestBeside(t *testing.T) {
	private, public := keys(t, ECDSA)
	a := packed(t)
	file := filepath.Join(t.TempDir(), "ban.wasm")
	policy := Policy{public}
	if err := policy.CheckFile(file, module); !errors.Is(err, ErrUnsigned) ||
		!strings.Contains(err.Error(), Beside(file)) {
		t.Error(err)
	}
	if err := (Policy{}).CheckFile(file, module); err != nil {
		t.Error(err)
	}
	if err := a.WriteBeside(file); err != nil {
		t.Fatal(err)
	}
	if err := policy.CheckFile(file, module); !errors.Is(err, ErrUnsigned) {
		t.Error(err)
	}
	made, err := a.Sign(private, "ban")
	if err != nil {
		t.Fatal(err)
	}
	a.Signatures = []Signature{made}
	if err := a.WriteBeside(file); err != nil {
		t.Fatal(err)
	}
	if err := policy.CheckFile(file, module); err != nil {
		t.Error(err)
	}
	if err := policy.CheckFile(file, append(bytes.Clone(module[:7]), 1)); err == nil ||
		!strings.Contains(err.Error(), "does not belong to the module") {
		t.Errorf("another module: %v", err)
	}
}

// TestRestMissing: what is not there, null or empty is named as missing.
func TestRestMissing(t *testing.T) {
	text, err := packed(t).EncodeRest()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest", "config"} {
		for _, value := range []string{"", "null", `""`} {
			var all map[string]json.RawMessage
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			if delete(all, name); value != "" {
				all[name] = json.RawMessage(value)
			}
			without, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeRest(without, module); err == nil || err.Error() != name+" is missing" {
				t.Errorf("%s = %q: %v", name, value, err)
			}
		}
	}
}

// FuzzManifest: what is accepted keeps to the bounds.
func FuzzManifest(f *testing.F) {
	a := packed(f)
	f.Add(a.Manifest, a.Config, a.Module)
	f.Add([]byte(`{"layers":[{}],"artifactType":"`+ArtifactType+`"}`), []byte(`{}`), module)
	f.Fuzz(func(t *testing.T, manifest, described, module []byte) {
		if m, err := ReadManifest(manifest, 1<<20); err == nil && (m.Module.Size > 1<<20 || m.Config.Size > MaxConfig ||
			m.Module.Size < 0) {
			t.Errorf("%+v", m)
		}
		a := Artifact{Manifest: manifest, Config: described, Module: module}
		if d, err := a.Open(); err == nil && (d.check() != nil || !bytes.HasPrefix(module, []byte("\x00asm"))) {
			t.Errorf("%+v", d)
		}
	})
}

// FuzzSignatures: no image and no file gives a signature that counts without the key.
func FuzzSignatures(f *testing.F) {
	_, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), nil)
	if err != nil {
		f.Fatal(err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		f.Fatal(err)
	}
	v, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		f.Fatal(err)
	}
	a := packed(f)
	text, blobs, err := SignatureImage([]Signature{{Payload: []byte(`{"critical":{}}`), Signature: []byte("x")}})
	if err != nil {
		f.Fatal(err)
	}
	rest, err := a.EncodeRest()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, blobs[0].Content, rest)
	f.Fuzz(func(t *testing.T, image, payload, rest []byte) {
		b := a
		b.Signatures, _ = ReadSignatures(image, func(ocispec.Descriptor) ([]byte, error) { return payload, nil })
		if c, err := DecodeRest(rest, a.Module); err == nil {
			b.Signatures = append(b.Signatures, c.Signatures...)
		}
		if len(b.Signatures) > 2*MaxSignatures || len((Policy{{"a", v}}).Signed(b)) > 0 {
			t.Errorf("%d signatures", len(b.Signatures))
		}
	})
}
