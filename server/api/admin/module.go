package admin

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"

	"tgi/server"
	"tgi/server/generate"
)

// Parts of a form with a module.
const (
	PartModule   = "module"
	PartArtifact = "artifact"
)

// maxArtifact bounds what comes with a module, in bytes.
const maxArtifact = 2 << 20

// readModule returns the module of a body and, if the body is a form, what else it has of the artefact. A client that
// names no media type sends bytes (RFC 9110, section 8.3), as curl -T does.
func (a *API) readModule(r *http.Request) (wasm, signed []byte, err error) {
	kind, params := "", map[string]string(nil)
	if given := r.Header.Get("Content-Type"); given != "" {
		if kind, params, err = mime.ParseMediaType(given); err != nil || kind != "application/wasm" &&
			kind != "application/octet-stream" && kind != "multipart/form-data" {
			return nil, nil, server.ErrModuleType
		}
	}
	tooLarge := func(given string) error {
		return fmt.Errorf("%w: the body must have at most %d bytes (plugins.upload_limit), given %s", server.ErrModuleSize,
			a.options.UploadLimit, given)
	}
	if r.ContentLength > a.options.UploadLimit {
		return nil, nil, tooLarge(strconv.FormatInt(r.ContentLength, 10))
	}
	if kind == "multipart/form-data" {
		wasm, signed, err = readForm(multipart.NewReader(r.Body, params["boundary"]))
	} else {
		wasm, err = server.ReadAnyBody(r)
	}
	if errors.Is(err, server.ErrTooLarge) {
		return nil, nil, tooLarge("more") // of a body that says no length
	}
	return wasm, signed, err
}

// readForm reads the parts of a form, whose bytes the body's reader bounds.
func readForm(form *multipart.Reader) (wasm, signed []byte, err error) {
	for {
		p, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF) && wasm != nil:
			return wasm, signed, nil
		case errors.Is(err, io.EOF):
			return nil, nil, &generate.Invalid{Msg: "the form has no part " + PartModule}
		case err != nil:
			return nil, nil, server.BodyError(err)
		}
		to, from := &wasm, io.Reader(p)
		switch name := p.FormName(); name {
		case PartModule:
		case PartArtifact:
			to, from = &signed, io.LimitReader(p, maxArtifact+1)
		default:
			return nil, nil, &generate.Invalid{Msg: fmt.Sprintf("unknown part %.*q of the form; it takes %s and %s", maxValue,
				name, PartModule, PartArtifact)}
		}
		if *to != nil {
			return nil, nil, &generate.Invalid{Msg: fmt.Sprintf("the form has two parts %s", p.FormName())}
		}
		if *to, err = io.ReadAll(from); err != nil {
			return nil, nil, server.BodyError(err)
		}
		if len(signed) > maxArtifact {
			return nil, nil, &generate.Invalid{Msg: fmt.Sprintf("%s must have at most %d bytes", PartArtifact,
				maxArtifact)}
		}
	}
}
