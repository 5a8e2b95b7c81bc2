package share

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"tgi/runtime/regular"
)

// Algorithms of keys.
const (
	ECDSA   = "ecdsa"
	Ed25519 = "ed25519"
)

// maxKey bounds the file of a key.
const maxKey = 64 << 10

// Generate makes a pair of keys and writes it to NAME.key and NAME.pub. The private key is encrypted with the password,
// as cosign's are, and readable by its owner alone. Files that are there stay.
func Generate(name, algorithm string, password []byte) error {
	var private crypto.PrivateKey
	var public crypto.PublicKey
	switch algorithm {
	case ECDSA:
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		private, public = key, key.Public()
	case Ed25519:
		pub, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		private, public = key, pub
	default:
		return fmt.Errorf("algorithm %q: want %s or %s", cut(algorithm), ECDSA, Ed25519)
	}
	der, err := cryptoutils.MarshalPrivateKeyToEncryptedDER(private, func(bool) ([]byte, error) {
		return append([]byte{}, password...), nil // none is an empty one, as it is for cosign
	})
	if err != nil {
		return err
	}
	pub, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return err
	}
	if err := writeNew(name+".key", 0o600, cryptoutils.PEMEncode(cryptoutils.EncryptedSigstorePrivateKeyPEMType,
		der)); err != nil {
		return err
	}
	if err := writeNew(name+".pub", 0o644, pub); err != nil {
		return errors.Join(err, os.Remove(name+".key"))
	}
	return nil
}

// writeNew writes a file that must not be there yet.
func writeNew(path string, mode os.FileMode, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: keys are not overwritten", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// ReadSigner reads a private key that signs. password is asked for where the key is encrypted.
func ReadSigner(path string, password func() ([]byte, error)) (signature.Signer, error) {
	text, err := readKey(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("key %s: no PEM text", path)
	}
	if strings.HasSuffix(block.Type, "PUBLIC KEY") {
		return nil, fmt.Errorf("key %s: this is a public key, and the private one signs, such as NAME.key beside NAME.pub",
			path)
	}
	if !strings.HasPrefix(block.Type, "ENCRYPTED ") {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("key %s: it is not encrypted and has mode %04o: others may read it (chmod 600 %s)", path,
				info.Mode().Perm(), path)
		}
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) {
		typed, err := password()
		return append([]byte{}, typed...), err
	})
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	holder, ok := key.(interface{ Public() crypto.PublicKey })
	if !ok {
		return nil, fmt.Errorf("key %s: a %T does not sign", path, key)
	}
	if err := checkKey(holder.Public()); err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	return signature.LoadSigner(key, crypto.SHA256)
}

// readKey reads the file of a key, which is small.
func readKey(path string) ([]byte, error) {
	text, err := regular.Read(path, 0, maxKey)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("key %w", err)
	}
	return text, err
}

// NewSigner returns a signer by a public key: the PEM text, or a file that has it.
func NewSigner(name, key string) (Signer, error) {
	text := []byte(key)
	if !strings.HasPrefix(strings.TrimSpace(key), "-----BEGIN") {
		var err error
		if text, err = readKey(key); err != nil {
			return Signer{}, fmt.Errorf("signer %s: %w", name, err)
		}
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return Signer{}, fmt.Errorf("signer %s: key: %w", name, err)
	}
	if err := checkKey(public); err != nil {
		return Signer{}, fmt.Errorf("signer %s: key: %w", name, err)
	}
	v, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return Signer{}, fmt.Errorf("signer %s: key: %w", name, err)
	}
	return Signer{name, v}, nil
}

// checkKey refuses keys that are neither ECDSA on P-256 nor Ed25519.
func checkKey(public crypto.PublicKey) error {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return fmt.Errorf("curve must be P-256, given %s", k.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("must be of ECDSA on P-256 or of Ed25519, given %T", public)
	}
	return nil
}
