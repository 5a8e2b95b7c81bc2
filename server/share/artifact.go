package share

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"tgi/sdk/abi"
	"tgi/server/config"
	"tgi/server/wire"
)

// Media types of an artefact and its parts.
const (
	ArtifactType = "application/vnd.tgi.plugin.v1"
	ConfigType   = "application/vnd.tgi.plugin.config.v1+json"
	ModuleType   = "application/wasm"
)

// Annotations of a manifest beside those of the OCI specification, so that a registry's own pages show them.
const (
	AnnotationName   = "tgi.plugin.name"
	AnnotationKinds  = "tgi.plugin.kinds"
	AnnotationABI    = "tgi.plugin.abi"
	AnnotationSHA256 = "tgi.plugin.sha256"
)

// Bounds of what is read. A description has the schema of the parameters, which is the longest part of it.
const (
	MaxManifest = 64 << 10
	MaxConfig   = 256 << 10
	maxText     = 4 << 10
	maxKinds    = 16
)

// Description says what a module is. It is the config of an artefact.
type Description struct {
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"`
	Doc     string   `json:"doc,omitempty"`
	Kinds   []string `json:"kinds"`
	// ABI is the version of the contract that the module was made for.
	ABI    int             `json:"abi"`
	Params json.RawMessage `json:"params,omitempty"` // JSON Schema of the parameters
	// License is an SPDX expression, Source the URL of the source code.
	License string `json:"license,omitempty"`
	Source  string `json:"source,omitempty"`
}

// Artifact is a module with its description, as a registry keeps it. Manifest and Config are the bytes that their
// digests are of.
type Artifact struct {
	Manifest   []byte
	Config     []byte
	Module     []byte
	Signatures []Signature
}

// Pack makes an artefact without signatures. The same module and description make the same bytes.
func Pack(module []byte, d Description) (Artifact, error) {
	if err := d.check(); err != nil {
		return Artifact{}, err
	}
	described, err := json.Marshal(d)
	if err != nil {
		return Artifact{}, fmt.Errorf("description: params: %w", err)
	}
	layer := describe(ModuleType, module)
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: d.Name + ".wasm"}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: ArtifactType, Config: describe(ConfigType, described), Layers: []ocispec.Descriptor{layer},
		Annotations: d.annotations(layer.Digest),
	}
	text, err := json.Marshal(m)
	if err != nil {
		return Artifact{}, err
	}
	a := Artifact{Manifest: text, Config: described, Module: module}
	_, err = a.Open()
	return a, err
}

// describe is the descriptor of content.
func describe(mediaType string, content []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
}

// annotations are those of the manifest of a module.
func (d Description) annotations(module digest.Digest) map[string]string {
	all := map[string]string{
		AnnotationName: d.Name, AnnotationKinds: strings.Join(d.Kinds, ","), AnnotationABI: strconv.Itoa(d.ABI),
		AnnotationSHA256: module.Encoded(), ocispec.AnnotationTitle: d.Name,
	}
	for key, value := range map[string]string{
		ocispec.AnnotationVersion: d.Version, ocispec.AnnotationDescription: d.Doc,
		ocispec.AnnotationLicenses: d.License, ocispec.AnnotationSource: d.Source,
	} {
		if value != "" {
			all[key] = value
		}
	}
	return all
}

// check refuses descriptions that no server could use.
func (d Description) check() error {
	if err := config.CheckName(d.Name); err != nil {
		return fmt.Errorf("description: name %w", err)
	}
	if len(d.Kinds) == 0 || len(d.Kinds) > maxKinds {
		return fmt.Errorf("description: kinds must be 1 to %d, given %d", maxKinds, len(d.Kinds))
	}
	for _, k := range d.Kinds {
		if k == "" || len(k) > 32 || strings.ContainsFunc(k, func(r rune) bool { return r < 'a' || r > 'z' }) {
			return fmt.Errorf("description: kind must be 1 to 32 lower-case letters, given %q", cut(k))
		}
	}
	if d.ABI < 1 {
		return fmt.Errorf("description: abi must be >= 1, given %d", d.ABI)
	}
	for field, text := range map[string]string{"version": d.Version, "doc": d.Doc, "license": d.License,
		"source": d.Source} {
		if len(text) > maxText {
			return fmt.Errorf("description: %s must have at most %d bytes, given %d", field, maxText, len(text))
		}
	}
	return nil
}

// Runs reports, as an error, that this program lacks the version of the contract that the module was made for.
func (d Description) Runs() error {
	if d.ABI != abi.Version {
		return fmt.Errorf("plugin %s is made for version %d of the contract, this program has version %d", d.Name, d.ABI,
			abi.Version)
	}
	return nil
}

// Manifest is what a manifest names: the config and the module.
type Manifest struct{ Config, Module ocispec.Descriptor }

// ReadManifest reads the manifest of a plugin; limit bounds the module, in bytes.
func ReadManifest(text []byte, limit int64) (Manifest, error) {
	if len(text) > MaxManifest {
		return Manifest{}, fmt.Errorf("manifest must have at most %d bytes, given %d", MaxManifest, len(text))
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", wire.Told(err))
	}
	if m.ArtifactType != ArtifactType {
		return Manifest{}, fmt.Errorf("artifactType is %q, a plugin has %s: this is something else", cut(m.ArtifactType),
			ArtifactType)
	}
	if len(m.Layers) != 1 {
		return Manifest{}, fmt.Errorf("manifest must have one layer, given %d", len(m.Layers))
	}
	out := Manifest{Config: m.Config, Module: m.Layers[0]}
	if err := checkDescriptor("config", out.Config, ConfigType, MaxConfig); err != nil {
		return Manifest{}, err
	}
	if err := checkDescriptor("module", out.Module, ModuleType, limit); err != nil {
		return Manifest{}, err
	}
	if named := m.Annotations[AnnotationSHA256]; named != out.Module.Digest.Encoded() {
		return Manifest{}, fmt.Errorf("annotation %s is %q, the module has %s", AnnotationSHA256, cut(named),
			out.Module.Digest.Encoded())
	}
	return out, nil
}

// checkDescriptor holds a descriptor to its media type, to SHA-256 and to a size.
func checkDescriptor(part string, d ocispec.Descriptor, mediaType string, limit int64) error {
	if d.MediaType != mediaType {
		return fmt.Errorf("%s: mediaType must be %s, given %q", part, mediaType, cut(d.MediaType))
	}
	if err := CheckDigest(string(d.Digest)); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	if d.Size < 0 || d.Size > limit {
		return fmt.Errorf("%s: size must be 0 to %d bytes, given %d", part, limit, d.Size)
	}
	return nil
}

// CheckDigest refuses all digests but sha256.
func CheckDigest(text string) error {
	sum, ok := strings.CutPrefix(text, "sha256:")
	b, err := hex.DecodeString(sum)
	if !ok || err != nil || len(b) != 32 || strings.ToLower(sum) != sum {
		return fmt.Errorf("digest must be sha256: and 64 lower-case hexadecimal digits, given %q", cut(text))
	}
	return nil
}

// Open checks that the parts of an artefact belong together, and returns its description. It does not look at
// signatures.
func (a Artifact) Open() (Description, error) {
	var d Description
	m, err := ReadManifest(a.Manifest, int64(len(a.Module)))
	if err != nil {
		return d, err
	}
	for part, want := range map[*[]byte]ocispec.Descriptor{&a.Config: m.Config, &a.Module: m.Module} {
		if got := digest.FromBytes(*part); got != want.Digest || int64(len(*part)) != want.Size {
			return d, fmt.Errorf("%s: %d bytes with digest %s wanted, found %d with %s", want.MediaType, want.Size,
				want.Digest, len(*part), got)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(a.Config))
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("description: %w", wire.Told(err))
	}
	if err := d.check(); err != nil {
		return d, err
	}
	if !bytes.HasPrefix(a.Module, []byte("\x00asm")) {
		return d, errors.New("module: not a WebAssembly module")
	}
	return d, nil
}

// Digest is that of the manifest: what a reference @sha256: names, and what is signed.
func (a Artifact) Digest() string { return digest.FromBytes(a.Manifest).String() }

// SHA256 is that of the module, in hexadecimal digits, as settings lock it.
func (a Artifact) SHA256() string { return digest.FromBytes(a.Module).Encoded() }

// cut shortens a stranger's text for an error.
func cut(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
