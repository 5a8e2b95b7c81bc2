package share

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"tgi/server/config"
	"tgi/server/wire"
)

// Names of cosign's, so that `cosign verify --key` accepts what is signed here, and the other way round.
const (
	payloadType         = "application/vnd.dev.cosign.simplesigning.v1+json"
	annotationSignature = "dev.cosignproject.cosign/signature"
)

// Bounds of signatures: of their number, and of one.
const (
	MaxSignatures = 32
	MaxPayload    = 16 << 10
	maxSignature  = 1 << 10
)

// Signature is one of cosign's: of a payload that names the digest of a manifest.
type Signature struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// Sign signs the manifest; identity says what it is called: a repository, or the name of the plugin.
func (a Artifact) Sign(signer signature.Signer, identity string) (Signature, error) {
	text, err := json.Marshal(payload.SimpleContainerImage{Critical: payload.Critical{
		Identity: payload.Identity{DockerReference: identity},
		Image:    payload.Image{DockerManifestDigest: a.Digest()}, Type: payload.CosignSignatureType,
	}})
	if err != nil {
		return Signature{}, err
	}
	made, err := signer.SignMessage(bytes.NewReader(text))
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	return Signature{Payload: text, Signature: made}, nil
}

// Signer is somebody whose signature counts.
type Signer struct {
	Name     string
	verifier signature.Verifier
}

// Policy are the signers of whom one must have signed; without any, nobody has to.
type Policy []Signer

// NewPolicy reads the keys of the signers that settings name.
func NewPolicy(signers []config.PluginSigner) (p Policy, err error) {
	for _, s := range signers {
		signer, err := NewSigner(s.Name, s.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("plugin_signer: %w", err)
		}
		p = append(p, signer)
	}
	return p, nil
}

// names lists the signers for an error.
func (p Policy) names() string {
	var names []string
	for _, s := range p {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// ErrUnsigned means that no signer of the settings has signed.
var ErrUnsigned = errors.New("not signed by a [[plugin_signer]] of the settings")

// Check returns an error that matches ErrUnsigned if nobody of the policy has signed the artefact. An empty policy
// accepts everything.
func (p Policy) Check(a Artifact) error {
	if len(p) == 0 || len(p.Signed(a)) > 0 {
		return nil
	}
	if len(a.Signatures) == 0 {
		return fmt.Errorf("%w: %s has no signature, wanted is one of %s", ErrUnsigned, a.Digest(), p.names())
	}
	return fmt.Errorf("%w: %s has signatures (%d), none is of this digest by one of %s", ErrUnsigned, a.Digest(),
		len(a.Signatures), p.names())
}

// Signed returns the names of the signers that have signed the artefact, in the order of the policy.
func (p Policy) Signed(a Artifact) (names []string) {
	for _, signer := range p {
		for _, s := range a.Signatures {
			if s.of(a.Digest()) && signer.verifier.VerifySignature(bytes.NewReader(s.Signature),
				bytes.NewReader(s.Payload)) == nil {
				names = append(names, signer.Name)
				break
			}
		}
	}
	return names
}

// of reports whether the payload is about a manifest.
func (s Signature) of(manifest string) bool {
	var p payload.SimpleContainerImage
	return len(s.Payload) <= MaxPayload && json.Unmarshal(s.Payload, &p) == nil &&
		p.Critical.Type == payload.CosignSignatureType && p.Critical.Image.DockerManifestDigest == manifest
}

// SignatureTag is the tag under which a repository keeps the signatures of a manifest, as cosign's do.
func SignatureTag(manifest string) string { return strings.Replace(manifest, ":", "-", 1) + ".sig" }

// signatureConfig is the config of the image that signatures are kept in: cosign's is an image's, without content.
type signatureConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
	} `json:"config"`
	RootFS ocispec.RootFS `json:"rootfs"`
}

// SignatureImage is the image that a registry keeps signatures in: its manifest, and the blobs that it names.
func SignatureImage(list []Signature) (manifest []byte, blobs []Blob, err error) {
	c := signatureConfig{RootFS: ocispec.RootFS{Type: "layers"}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, s := range list {
		layer := describe(payloadType, s.Payload)
		layer.Annotations = map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(s.Signature)}
		m.Layers = append(m.Layers, layer)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, layer.Digest)
		blobs = append(blobs, Blob{layer, s.Payload})
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, nil, err
	}
	m.Config = describe(ocispec.MediaTypeImageConfig, text)
	manifest, err = json.Marshal(m)
	return manifest, append(blobs, Blob{m.Config, text}), err
}

// Blob is content with its descriptor.
type Blob struct {
	ocispec.Descriptor
	Content []byte
}

// ReadSignatures reads the image of signatures; fetch gets a payload, whose size is bounded by its descriptor. Layers
// of other types are passed over.
func ReadSignatures(manifest []byte, fetch func(ocispec.Descriptor) ([]byte, error)) (list []Signature, err error) {
	if len(manifest) > MaxManifest {
		return nil, fmt.Errorf("signatures: manifest must have at most %d bytes, given %d", MaxManifest, len(manifest))
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, fmt.Errorf("signatures: manifest: %w", wire.Told(err))
	}
	if len(m.Layers) > MaxSignatures {
		return nil, fmt.Errorf("signatures: at most %d are read, given %d", MaxSignatures, len(m.Layers))
	}
	for i, layer := range m.Layers {
		if layer.MediaType != payloadType {
			continue
		}
		part := fmt.Sprintf("signatures: layer %d", i)
		if err := checkDescriptor(part, layer, payloadType, MaxPayload); err != nil {
			return nil, err
		}
		text := layer.Annotations[annotationSignature]
		if len(text) > maxSignature {
			return nil, fmt.Errorf("%s: %s must have at most %d bytes, given %d", part, annotationSignature, maxSignature,
				len(text))
		}
		made, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", part, annotationSignature, err)
		}
		content, err := fetch(layer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
		list = append(list, Signature{Payload: content, Signature: made})
	}
	return list, nil
}

// Join returns the signatures of both lists, each once.
func Join(a, b []Signature) []Signature {
	var all []Signature
	for _, s := range append(append([]Signature(nil), a...), b...) {
		known := false
		for _, k := range all {
			known = known || bytes.Equal(k.Payload, s.Payload) && bytes.Equal(k.Signature, s.Signature)
		}
		if !known {
			all = append(all, s)
		}
	}
	return all
}
