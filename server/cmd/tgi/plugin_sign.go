package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host/catalog"
	"tgi/server/share"
	"tgi/server/share/install"
)

// envKeyPassword is the variable with the password of private keys.
const envKeyPassword = "TGI_KEY_PASSWORD"

// newPluginSign signs a file or an artefact of a registry, or makes a pair of keys.
func newPluginSign(c console) *cobra.Command {
	s, p := &sharing{}, &packing{anew: true}
	var key, generate, algorithm string
	cmd := &cobra.Command{Use: "sign FILE.wasm|REFERENCE --key KEY", ValidArgsFunction: modules,
		Short: "Sign a module or an artefact of a registry, as cosign does; or make a pair of keys"}
	cmd.Long = "Sign a module, whose signature push takes along, or an artefact that is in a registry already.\n" +
		"The password of a key is asked for, or is in " + envKeyPassword + "."
	cmd.RunE = s.runs("sign", 0, 1, "a .wasm file or a reference", func(ctx context.Context, words []string,
		stdout io.Writer) error {
		if generate != "" {
			if len(words) > 0 || key != "" {
				return misused("plugin sign --generate takes no file and no --key")
			}
			return c.generate(generate, algorithm, stdout)
		}
		if len(words) == 0 || key == "" {
			return misused("plugin sign needs a .wasm file or a reference, and --key")
		}
		signer, err := share.ReadSigner(key, func() ([]byte, error) { return c.password("password of " + key + ": ") })
		if err != nil {
			return err
		}
		if !isReference(words[0]) {
			a, err := p.pack(ctx, words[0], stdout)
			if err != nil {
				return err
			}
			d, err := a.Open()
			if err != nil {
				return err
			}
			made, err := a.Sign(signer, d.Name)
			if err != nil {
				return err
			}
			a.Signatures = share.Join(a.Signatures, []share.Signature{made})
			if err := a.WriteBeside(words[0]); err != nil {
				return err
			}
			return p.output.say(stdout, install.Summary{Digest: a.Digest(), Name: d.Name, SHA256: a.SHA256(),
				Signatures: len(a.Signatures), File: share.Beside(words[0])}, "signed %s %s, digest %s\nwrote %s\n",
				d.Name, d.Version, a.Digest(), share.Beside(words[0]))
		}
		r, at, err := s.open(words[0], int64(config.Default().Plugins.UploadLimit))
		if err != nil {
			return err
		}
		a, err := r.Pull(ctx, at)
		if err != nil {
			return err
		}
		made, err := a.Sign(signer, at.Repository)
		if err != nil {
			return err
		}
		if err := r.Attach(ctx, a.Digest(), []share.Signature{made}); err != nil {
			return err
		}
		all := share.Join(a.Signatures, []share.Signature{made})
		return p.output.say(stdout, install.Summary{Reference: at.String(), Digest: a.Digest(), SHA256: a.SHA256(),
			Signatures: len(all)}, "signed %s, digest %s\n", at, a.Digest())
	})
	set := cmd.Flags()
	set.StringVar(&key, "key", "", "`file` of the private key, as --generate or cosign makes it")
	set.StringVar(&generate, "generate", "", "make NAME.key and NAME.pub and sign nothing; give the `name`")
	set.StringVar(&algorithm, "algorithm", share.ECDSA, "`algorithm` of --generate: ecdsa (on P-256) or ed25519")
	complete(cmd, "algorithm", share.ECDSA, share.Ed25519)
	p.packFlags(cmd)
	s.remoteFlags(cmd)
	return cmd
}

// generate makes a pair of keys.
func (c console) generate(name, algorithm string, stdout io.Writer) error {
	password, err := c.password("password for "+name+".key: ", "once more: ")
	if err != nil {
		return err
	}
	if err := share.Generate(name, algorithm, password); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s.key, which is secret, and %s.pub\n", name, name)
	return err
}

// password is that of the environment, or what is typed at each of the prompts. Without a terminal a key needs the
// variable, which may be empty.
func (c console) password(prompts ...string) ([]byte, error) {
	if text, ok := os.LookupEnv(envKeyPassword); ok {
		return []byte(text), nil
	}
	in, ok := c.in.(*os.File)
	if !ok || !c.typed {
		return nil, fmt.Errorf("%sno terminal to ask at: set %s, which may be empty", prompts[0], envKeyPassword)
	}
	typed, err := terminal.Passwords(in, c.errors, prompts...)
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return nil, errInterrupted
	case err != nil:
		return nil, err
	case typed[0] != typed[len(typed)-1]:
		return nil, errors.New("the two passwords differ: nothing was written")
	}
	return []byte(typed[0]), nil
}

// newPluginVerify holds signatures to keys.
func newPluginVerify() *cobra.Command {
	s := &sharing{}
	var keys []string
	cmd := &cobra.Command{Use: "verify FILE.wasm|NAME|REFERENCE [--key KEY.pub]", ValidArgsFunction: modules,
		Short: "Check that a signer of the settings, or one of the keys, has signed a plugin"}
	cmd.RunE = s.runs("verify", 1, 1, "a .wasm file, a plugin's name or a reference", func(ctx context.Context,
		words []string, stdout io.Writer) error {
		cfg, err := readSettings(&s.flags)
		if err != nil {
			return err
		}
		signers := cfg.PluginSigner
		if len(keys) > 0 {
			signers = nil
			for _, k := range keys {
				signers = append(signers, config.PluginSigner{Name: k, PublicKey: k})
			}
		}
		policy, err := policyOf(signers)
		if err != nil {
			return err
		}
		if len(policy) == 0 {
			return misused("plugin verify needs --key, or [[plugin_signer]] in the settings")
		}
		var a share.Artifact
		if isReference(words[0]) {
			r, at, err := s.open(words[0], int64(cfg.Plugins.UploadLimit))
			if err != nil {
				return err
			}
			if a, err = r.Pull(ctx, at); err != nil {
				return err
			}
		} else if a, err = catalog.Artifact(cfg, words[0]); err != nil {
			return err
		}
		if err := policy.Check(a); err != nil {
			return fmt.Errorf("%s: %w", words[0], err)
		}
		d, err := a.Open()
		if err != nil {
			return err
		}
		by := policy.Signed(a)
		return s.output.say(stdout, install.Summary{Digest: a.Digest(), Name: d.Name, SHA256: a.SHA256(),
			Signatures: len(a.Signatures), Signers: by}, "%s %s, digest %s, is signed by %s\n", d.Name, d.Version,
			a.Digest(), strings.Join(by, ", "))
	})
	cmd.Flags().StringArrayVar(&keys, "key", nil, "`file` of a public key instead of the settings' signers; may be "+
		"given several times")
	s.settingsFlags(cmd)
	s.remoteFlags(cmd)
	s.output.flag(cmd)
	return cmd
}
