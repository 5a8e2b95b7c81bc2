package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tgi/server/generate"
)

// ReadBody returns the JSON body of r. Errors are ErrMediaType and those of
// ReadAnyBody.
func ReadBody(r *http.Request) ([]byte, error) {
	if ok, _ := jsonType(r); !ok {
		return nil, ErrMediaType
	}
	return ReadAnyBody(r)
}

// jsonType says whether the body of r says that it is JSON, and in which charset, "" for one that it does not name.
func jsonType(r *http.Request) (ok bool, charset string) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false, ""
	}
	sub, ok := strings.CutPrefix(kind, "application/")
	return ok && (sub == "json" || strings.HasSuffix(sub, "+json")), params["charset"]
}

// firstRoom is what a body gets before its first byte is there, however long it says
// that it is: a client that announces much and sends nothing costs no more.
const firstRoom = 64 << 10

// shortRoom is what one gets that does not say how long it is.
const shortRoom = 4 << 10

// ReadAnyBody returns the body of r, whatever its media type. Errors are ErrEncoding, ErrCharset,
// ErrTooLarge, ErrBody and that of a server that holds too many bodies.
func ReadAnyBody(r *http.Request) ([]byte, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, fmt.Errorf("%w: `Content-Encoding: %.32s`; send the body as it is", ErrEncoding, e)
	}
	if ok, c := jsonType(r); ok && c != "" && !strings.EqualFold(c, "utf-8") && !strings.EqualFold(c, "utf8") {
		return nil, fmt.Errorf("%w: `charset=%.32s` of Content-Type; send JSON in UTF-8", ErrCharset, c)
	}
	body, err := readBody(r.Body, r.ContentLength)
	return body, BodyError(err)
}

// readBody reads a body of so many bytes, of an unknown length if it is negative. What is there of a long one is held
// once, in parts, until all of it is.
func readBody(r io.Reader, length int64) ([]byte, error) {
	room := shortRoom
	if length >= 0 {
		room = int(min(length, firstRoom)) + 1 // in which its end is seen
	}
	var full [][]byte
	part := make([]byte, 0, room)
	for {
		if len(part) == cap(part) {
			full = append(full, part)
			part = make([]byte, 0, firstRoom)
		}
		n, err := r.Read(part[len(part):cap(part)])
		switch part = part[:len(part)+n]; {
		case err == nil:
		case err != io.EOF:
			return nil, err
		case full == nil:
			return part, nil
		default:
			return slices.Concat(append(full, part)...), nil
		}
	}
}

// BodyError returns what is said of an error of a request's body, nil for none:
// ErrTooLarge, ErrBody, or that of a server that holds too many bodies.
func BodyError(err error) error {
	var large *http.MaxBytesError
	var full *generate.Overloaded
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return ErrTooLarge
	case errors.As(err, &full):
		return full
	}
	return fmt.Errorf("%w: %w", ErrBody, err)
}

// WriteJSON replies with status 200 and body.
func WriteJSON(w http.ResponseWriter, body []byte) { writeJSON(w, http.StatusOK, body) }

// WriteStatus replies with another status and body.
func WriteStatus(w http.ResponseWriter, status int, body []byte) { writeJSON(w, status, body) }

// WriteValue replies with another status and v as JSON.
func WriteValue(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("BUG: a reply that is no JSON: %w", err)
	}
	writeJSON(w, status, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return nil
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	WriteLast(w, body)
}

// WriteLast writes the last part of a reply. Its end leaves when the handler has returned, since net/http keeps a short
// last write until then. So what the request holds is free before the client has read all of the reply and asks again.
func WriteLast(w http.ResponseWriter, body []byte) {
	early := max(0, len(body)-lastWrite)
	_, _ = w.Write(body[:early]) // a client that left is nobody's problem
	_, _ = w.Write(body[early:])
}

// lastWrite is less than net/http keeps.
const lastWrite = 1 << 10
