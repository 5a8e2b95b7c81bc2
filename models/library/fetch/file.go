package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"tgi/models/library"
)

// errAgain says that an attempt has to be repeated from what is there now.
var errAgain = errors.New("interrupted")

// transfer fetches one file into its part.
type transfer struct {
	*part
	s *session
	// high is how far the file ever came, so that a server which makes every attempt
	// start over does not count as one that makes progress.
	high int64
	// resumed says that not all bytes came from one reply.
	resumed bool
	// checked says that this run has seen the file's end, or a reply that it
	// is unchanged.
	checked bool
	// grow asks whether a file of unknown size may have n more bytes.
	grow func(n int64) error
	// report is told n and the size, -1 when not known.
	report func(n, size int64)
}

// run fetches what is missing and checks the whole. It returns the SHA-256.
func (t *transfer) run(ctx context.Context) (string, error) {
	t.high, t.resumed = t.n, t.n > 0
	t.report(t.n, t.note.Size)
	for again := false; ; again = true {
		err := t.s.retry(ctx, func() (bool, error) {
			before := t.high
			err := t.attempt(ctx)
			t.high = max(t.high, t.n)
			return t.high > before, err
		})
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.Path, err)
		}
		err = t.sums.check(t.File)
		if err == nil {
			return t.sums.sum(), nil
		}
		// The bytes are wrong and worth nothing. Bytes of one reply will be the same next
		// time; those of several may be of two versions.
		retryWhole := t.resumed && !again
		if resetErr := t.reset(); resetErr != nil {
			return "", fmt.Errorf("%s: %w", t.Path, errors.Join(err, resetErr))
		}
		t.report(0, t.Size)
		if !retryWhole {
			return "", fmt.Errorf("%s: %w", t.Path, err)
		}
		t.resumed, t.checked = false, false
	}
}

// attempt asks for what is missing once and takes what comes.
func (t *transfer) attempt(ctx context.Context) error {
	if t.whole() && (t.known() || t.checked) {
		return nil
	}
	actx, alive, done := t.s.watch(ctx)
	defer done()
	from := t.n
	res, err := t.s.get(actx, t.url, t.conditions())
	if err != nil {
		return stalled(actx, err)
	}
	defer res.Body.Close()
	alive()
	size, err := t.begin(res)
	if err != nil || t.checked {
		return err
	}
	t.resumed = t.resumed || from > 0 && t.n > 0
	if err := t.take(res.Body, alive); err != nil {
		return stalled(actx, err)
	}
	if size >= 0 && t.n < size {
		return fmt.Errorf("%w: %d of %d bytes came", errAgain, t.n, size)
	}
	if t.note.Size < 0 {
		t.note.Size = t.n
		if err := t.save(); err != nil {
			return err
		}
		t.report(t.n, t.n)
	}
	t.checked = true
	return nil
}

// conditions are the headers that ask for the rest, or whether a whole file is still the same.
func (t *transfer) conditions() map[string]string {
	strong := t.note.ETag != "" && !strings.HasPrefix(t.note.ETag, "W/")
	switch {
	case t.n == 0 || !t.versioned():
		return nil
	case t.whole() && t.note.ETag != "":
		return map[string]string{"If-None-Match": t.note.ETag}
	case t.whole() && t.note.LastModified != "":
		return map[string]string{"If-Modified-Since": t.note.LastModified}
	}
	h := map[string]string{"Range": "bytes=" + strconv.FormatInt(t.n, 10) + "-"}
	switch {
	case strong:
		h["If-Range"] = t.note.ETag
	case t.note.LastModified != "":
		h["If-Range"] = t.note.LastModified
	}
	return h
}

// begin reads the reply's head, brings the part to where the body begins and
// returns the size of the whole file, -1 when not known.
func (t *transfer) begin(res *http.Response) (size int64, err error) {
	if e := res.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, fmt.Errorf("%w: content encoding %q was not asked for", ErrSource, clean(e))
	}
	etag := res.Header.Get("ETag")
	switch res.StatusCode {
	case http.StatusNotModified:
		if !t.whole() {
			return 0, fmt.Errorf("%w: status 304 to no condition", ErrSource)
		}
		t.checked = true
		return t.note.Size, nil
	case http.StatusRequestedRangeNotSatisfiable:
		// The file is shorter than what is here: it is another one.
		return 0, errors.Join(fmt.Errorf("%w: status 416 at byte %d", errAgain, t.n), t.restart())
	case http.StatusPartialContent:
		start, total, ok := contentRange(res.Header.Get("Content-Range"))
		same := ok && start == t.n && (t.note.Size < 0 || total < 0 || total == t.note.Size) &&
			(t.known() || etag == t.note.ETag && res.Header.Get("Last-Modified") == t.note.LastModified)
		if !same {
			return 0, errors.Join(fmt.Errorf("%w: reply to byte %d is %q of another version", errAgain, t.n, clean(res.Header.Get("Content-Range"))), t.restart())
		}
		size = total
		if size < 0 {
			size = t.note.Size
		}
	case http.StatusOK:
		if err := t.restart(); err != nil {
			return 0, err
		}
		size = res.ContentLength
		framed := size >= 0 || res.ProtoMajor > 1 || len(res.TransferEncoding) > 0
		if !framed && !t.known() && t.Size < 0 {
			return 0, fmt.Errorf("%w: the reply has no length, so its end cannot be told from a break", ErrSource)
		}
	default:
		return 0, failure(res)
	}
	if t.Size >= 0 && size >= 0 && size != t.Size {
		return 0, fmt.Errorf("%w: the file has %d bytes, the list says %d", ErrChecksum, size, t.Size)
	}
	if size < 0 {
		size = t.Size
	}
	t.note.ETag, t.note.LastModified, t.note.Size = etag, res.Header.Get("Last-Modified"), size
	if err := t.save(); err != nil {
		return 0, err
	}
	t.report(t.n, size)
	return size, nil
}

func (t *transfer) restart() error {
	if t.n == 0 {
		return nil
	}
	if err := t.reset(); err != nil {
		return err
	}
	t.resumed = false
	t.report(0, t.Size)
	return nil
}

// take appends a body to the part.
func (t *transfer) take(body io.Reader, alive func()) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			if t.note.Size >= 0 && int64(n) > t.note.Size-t.n {
				return fmt.Errorf("%w: more than the %d bytes that were announced", ErrChecksum, t.note.Size)
			}
			if t.Size < 0 && t.n+int64(n) > t.high {
				if err := t.grow(t.n + int64(n) - max(t.high, t.n)); err != nil {
					return err
				}
			}
			if err := t.write(buf[:n]); err != nil {
				return err
			}
			t.high = max(t.high, t.n)
			t.report(t.n, t.note.Size)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w after %d bytes: %w", errAgain, t.n, err)
		}
	}
}

// contentRange reads "bytes a-b/total"; total is -1 for "*".
func contentRange(s string) (start, total int64, ok bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, all, ok2 := strings.Cut(rest, "/")
	first, _, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, false
	}
	start, err := strconv.ParseInt(first, 10, 64)
	if err != nil || start < 0 {
		return 0, 0, false
	}
	if all == "*" {
		return start, -1, true
	}
	total, err = strconv.ParseInt(all, 10, 64)
	return start, total, err == nil && total >= 0
}

// budget bounds the bytes of files whose size no list gives.
type budget struct {
	left func(n int64) (rest int64)
	max  int64
}

func (b budget) grow(n int64) error {
	if b.left(n) < 0 {
		return fmt.Errorf("%w: the files have more than %d bytes", library.ErrLimit, b.max)
	}
	return nil
}
