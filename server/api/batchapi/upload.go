package batchapi

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/batches"
)

// Bounds of a form.
const (
	maxParts    = 16
	maxField    = 1 << 10
	maxFileName = 255
)

// form is what an upload says beside its file.
type form struct {
	purpose, anchor, seconds string
}

// upload is POST /v1/files: the file goes to the disk as it comes.
func (a *API) upload(w http.ResponseWriter, r *http.Request) error {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return fmt.Errorf("%w: `Content-Encoding: %.32s`; send the file as it is", server.ErrEncoding, e)
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return refusal(http.StatusUnsupportedMediaType, "unsupported_media_type", "",
			"the body must be a form with a file: expected `Content-Type: multipart/form-data`")
	}
	var f form
	var u *batches.Upload
	defer func() {
		if u != nil {
			u.Close()
		}
	}()
	name := ""
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return formError(err)
		}
		switch {
		case n == maxParts:
			return invalid("", "the form must have at most %d parts", maxParts)
		case part.FormName() != "file":
			if err := f.read(part); err != nil {
				return err
			}
			continue
		case u != nil:
			return invalid("file", "`file` is there twice")
		}
		if err := f.checkPurpose(); f.purpose != "" && err != nil {
			return err // before the file is read
		}
		name = fileName(part.FileName())
		if u, err = a.options.Store.Begin(server.OwnerOf(r)); err != nil {
			return err
		}
		if err := copyPart(u, part); err != nil {
			return err
		}
	}
	if u == nil {
		return refusal(http.StatusBadRequest, "missing_required_parameter", "file", "`file` is missing")
	}
	if err := f.checkPurpose(); err != nil {
		return err
	}
	keep, err := f.keep()
	if err != nil {
		return err
	}
	kept, err := u.Keep(name, f.purpose, keep)
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, kept)
}

// copyPart writes a file. Errors of the disk and of the client stay apart.
func copyPart(u *batches.Upload, part *multipart.Part) error {
	buf, total := make([]byte, 64<<10), 0
	for {
		n, err := part.Read(buf)
		total += n
		if _, wrong := u.Write(buf[:n]); wrong != nil {
			return wrong
		}
		switch {
		case errors.Is(err, io.EOF) && total == 0:
			return invalid("file", "`file` is empty")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return formError(err)
		}
	}
}

// formError says what is wrong with a form that can't be read.
func formError(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return fmt.Errorf("%w: the body may have %d bytes (batches.max_file)", batches.ErrTooLarge, large.Limit)
	case errors.Is(err, multipart.ErrMessageTooLarge):
		return invalid("", "the header of a part is too long")
	}
	return invalid("", "the form can't be read: %.200s", err)
}

// read reads a field; others than those that are known are skipped.
func (f *form) read(part *multipart.Part) error {
	dst := map[string]*string{"purpose": &f.purpose, "expires_after[anchor]": &f.anchor,
		"expires_after[seconds]": &f.seconds}[part.FormName()]
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	switch {
	case err != nil:
		return formError(err)
	case len(text) > maxField:
		return invalid(part.FormName(), "`%.64s` must have at most %d bytes", part.FormName(), maxField)
	case dst != nil:
		*dst = string(text)
	}
	return nil
}

// checkPurpose refuses files that nothing here reads.
func (f *form) checkPurpose() error {
	switch {
	case f.purpose == batches.PurposeBatch:
		return nil
	case f.purpose == "":
		return refusal(http.StatusBadRequest, "missing_required_parameter", "purpose", "`purpose` is missing")
	case slices.Contains([]string{"assistants", "fine-tune", "vision", "user_data", "evals"}, f.purpose):
		return invalid("purpose", "`purpose` must be batch: this server has nothing that reads files for `%s`", f.purpose)
	}
	return invalid("purpose", "`purpose` must be batch. Given: %.64q", f.purpose)
}

// keep returns how long the file is to be kept, 0 for the server's default.
func (f *form) keep() (time.Duration, error) {
	if f.anchor == "" && f.seconds == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(f.seconds)
	if f.anchor != "created_at" || err != nil || n < leastKeep || n > mostKeep {
		return 0, invalid("expires_after", "`expires_after` must have the anchor created_at and %d to %d seconds",
			leastKeep, mostKeep)
	}
	return time.Duration(n) * time.Second, nil
}

// fileName is what a client calls a file, without folders and what no name has. It names nothing on this machine.
func fileName(given string) string {
	given = path.Base(strings.ReplaceAll(strings.ToValidUTF8(given, ""), `\`, "/"))
	given = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, given)
	for len(given) > maxFileName {
		_, n := utf8.DecodeLastRuneInString(given)
		given = given[:len(given)-n]
	}
	if given == "." || given == ".." || given == "/" {
		given = ""
	}
	return cmp.Or(given, "file")
}
