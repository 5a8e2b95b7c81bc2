package operate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/textproto"

	"tgi/server/api/admin"
	"tgi/server/share"
)

// Module is what is sent of a plugin: its module, and what stands beside its file, with signatures; nil for nothing.
type Module struct{ WASM, Artifact []byte }

// sum is the SHA-256 of the module.
func (m Module) sum() string {
	sum := sha256.Sum256(m.WASM)
	return hex.EncodeToString(sum[:])
}

// readModule reads the file of a module, and what stands beside it.
func readModule(read func(file string) ([]byte, error), file string) (m Module, err error) {
	if m.WASM, err = read(file); err != nil {
		return m, err
	}
	a, err := share.ReadBeside(file, m.WASM)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if errors.Is(err, share.ErrOther) {
		err = fmt.Errorf("%w; the module was built again after it was signed: sign it with tgi plugin sign, or remove that "+
			"file to send it unsigned", err)
	}
	if err == nil {
		m.Artifact, err = a.EncodeRest()
	}
	return m, err
}

// put sends a module to a path.
func (s *Server) put(ctx context.Context, path string, m Module, to any, members ...string) (status int, err error) {
	if m.Artifact == nil {
		return s.ask(ctx, http.MethodPut, path, "application/wasm", m.WASM, to, members...)
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, part := range []struct {
		name, kind string
		content    []byte
	}{{admin.PartModule, "application/wasm", m.WASM}, {admin.PartArtifact, "application/json", m.Artifact}} {
		w, partErr := form.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind},
			"Content-Disposition": {fmt.Sprintf("form-data; name=%q; filename=%[1]q", part.name)}})
		if partErr == nil {
			_, partErr = w.Write(part.content)
		}
		err = errors.Join(err, partErr)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return 0, err
	}
	return s.ask(ctx, http.MethodPut, path, form.FormDataContentType(), b.Bytes(), to, members...)
}
