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

// errInterrupted says that an attempt must be repeated from where it stopped.
var errInterrupted = errors.New("interrupted")

// transfer fetches one file into its part.
type transfer struct {
	*part
	s *session
	// highWater is the most bytes that the part ever had, so that a server which makes every
	// attempt start over does not count as making progress.
	highWater int64
	// resumed says that the bytes come from more than one reply.
	resumed bool
	// checked says that this run has seen the file's end, or a reply that it is unchanged.
	checked bool
	// reserve takes n bytes from the budget of files of unknown size.
	reserve func(n int64) error
	// report receives n and the size, -1 if not known.
	report func(n, size int64)
}

// run fetches the missing bytes, verifies the file and returns its SHA-256.
func (t *transfer) run(ctx context.Context) (string, error) {
	t.highWater, t.resumed = t.n, t.n > 0
	t.report(t.n, t.info.Size)
	for again := false; ; again = true {
		err := t.s.retry(ctx, func() (bool, error) {
			before := t.highWater
			err := t.attempt(ctx)
			t.highWater = max(t.highWater, t.n)
			return t.highWater > before, err
		})
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.Path, err)
		}
		err = t.sums.check(t.File)
		if err == nil {
			return t.sums.sum(), nil
		}
		// The bytes are wrong. Those of one reply will be the same next time; those of
		// several replies may come from two versions, so one more attempt is worthwhile.
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

// attempt sends one request for the missing bytes and reads the reply.
func (t *transfer) attempt(ctx context.Context) error {
	if t.complete() && (t.known() || t.checked) {
		return nil
	}
	actx, alive, done := t.s.watch(ctx)
	defer done()
	from := t.n
	res, err := t.s.get(actx, t.url, t.conditions())
	if err != nil {
		return stallCause(actx, err)
	}
	defer res.Body.Close()
	alive()
	size, err := t.readHead(res)
	if err != nil || t.checked {
		return err
	}
	t.resumed = t.resumed || from > 0 && t.n > 0
	if err := t.readBody(res.Body, alive); err != nil {
		return stallCause(actx, err)
	}
	if size >= 0 && t.n < size {
		return fmt.Errorf("%w: %d of %d bytes came", errInterrupted, t.n, size)
	}
	if t.info.Size < 0 {
		t.info.Size = t.n
		if err := t.save(); err != nil {
			return err
		}
		t.report(t.n, t.n)
	}
	t.checked = true
	return nil
}

// conditions are the headers of a range request for the rest, or of a conditional request for
// a complete file.
func (t *transfer) conditions() map[string]string {
	strong := t.info.ETag != "" && !strings.HasPrefix(t.info.ETag, "W/")
	switch {
	case t.n == 0 || !t.versioned():
		return nil
	case t.complete() && t.info.ETag != "":
		return map[string]string{"If-None-Match": t.info.ETag}
	case t.complete() && t.info.LastModified != "":
		return map[string]string{"If-Modified-Since": t.info.LastModified}
	}
	h := map[string]string{"Range": "bytes=" + strconv.FormatInt(t.n, 10) + "-"}
	switch {
	case strong:
		h["If-Range"] = t.info.ETag
	case t.info.LastModified != "":
		h["If-Range"] = t.info.LastModified
	}
	return h
}

// readHead reads the reply's status and headers, truncates the part to where the body begins
// and returns the size of the whole file, -1 if not known.
func (t *transfer) readHead(res *http.Response) (size int64, err error) {
	if e := res.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, fmt.Errorf("%w: content encoding %q was not asked for", ErrSource, sanitize(e))
	}
	etag := res.Header.Get("ETag")
	switch res.StatusCode {
	case http.StatusNotModified:
		if !t.complete() {
			return 0, fmt.Errorf("%w: status 304 to no condition", ErrSource)
		}
		t.checked = true
		return t.info.Size, nil
	case http.StatusRequestedRangeNotSatisfiable:
		// The file is shorter than the part, so it has changed.
		return 0, errors.Join(fmt.Errorf("%w: status 416 at byte %d", errInterrupted, t.n), t.restart())
	case http.StatusPartialContent:
		start, total, ok := contentRange(res.Header.Get("Content-Range"))
		same := ok && start == t.n && (t.info.Size < 0 || total < 0 || total == t.info.Size) &&
			(t.known() || etag == t.info.ETag && res.Header.Get("Last-Modified") == t.info.LastModified)
		if !same {
			return 0, errors.Join(fmt.Errorf("%w: reply to byte %d is %q of another version", errInterrupted, t.n,
				sanitize(res.Header.Get("Content-Range"))), t.restart())
		}
		size = total
		if size < 0 {
			size = t.info.Size
		}
	case http.StatusOK:
		if err := t.restart(); err != nil {
			return 0, err
		}
		size = res.ContentLength
		framed := size >= 0 || res.ProtoMajor > 1 || len(res.TransferEncoding) > 0
		if !framed && !t.known() && t.Size < 0 {
			return 0, fmt.Errorf("%w: the reply has no length, so a broken connection could not be detected", ErrSource)
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
	t.info.ETag, t.info.LastModified, t.info.Size = etag, res.Header.Get("Last-Modified"), size
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

// readBody appends the body to the part.
func (t *transfer) readBody(body io.Reader, alive func()) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			if t.info.Size >= 0 && int64(n) > t.info.Size-t.n {
				return fmt.Errorf("%w: more than the %d bytes that were announced", ErrChecksum, t.info.Size)
			}
			if t.Size < 0 && t.n+int64(n) > t.highWater {
				if err := t.reserve(t.n + int64(n) - max(t.highWater, t.n)); err != nil {
					return err
				}
			}
			if err := t.write(buf[:n]); err != nil {
				return err
			}
			t.highWater = max(t.highWater, t.n)
			t.report(t.n, t.info.Size)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w after %d bytes: %w", errInterrupted, t.n, err)
		}
	}
}

// contentRange parses "bytes a-b/total"; total is -1 for "*".
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

// budget limits the bytes of files whose size is not known in advance.
type budget struct {
	left func(n int64) (rest int64)
	max  int64
}

func (b budget) reserve(n int64) error {
	if b.left(n) < 0 {
		return fmt.Errorf("%w: the files have more than %d bytes", library.ErrLimit, b.max)
	}
	return nil
}
