package batches

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"tgi/server/wire"
)

// line is one request of an input.
type line struct {
	number int // from 1
	index  int // among the requests, from 0
	// custom is the client's name for it.
	custom string
	body   json.RawMessage
}

// lineError says what is wrong with a line.
type lineError struct {
	Code    string  `json:"code"`
	Line    *int    `json:"line"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// maxCustom bounds a custom_id in bytes.
const maxCustom = 512

// lines reads the requests of an input one by one, without holding more than a line.
type lines struct {
	r        *bufio.Reader
	endpoint string
	most     int // bytes of a line
	number   int
	index    int
	bytes    int // that were read
}

func newLines(r io.Reader, endpoint string, most int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), endpoint: endpoint, most: most}
}

// next returns the next request, io.EOF after the last, or what is wrong with a line, behind which it can go on.
// Empty lines are skipped.
func (l *lines) next() (line, *lineError, error) {
	for {
		text, whole, err := l.read()
		if err != nil {
			return line{}, nil, err
		}
		l.number++
		if !whole {
			return line{}, l.wrong("line_too_long", "", "the line has more than %d bytes (batches.max_line)", l.most), nil
		}
		text = bytes.TrimSpace(text)
		if l.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if len(text) == 0 {
			continue
		}
		one, wrong := l.parse(text)
		if wrong == nil {
			one.number, one.index = l.number, l.index
			l.index++
		}
		return one, wrong, nil
	}
}

// read returns a line without its end, and whether all of it: one that is too long is read to its end and dropped.
func (l *lines) read() (text []byte, whole bool, err error) {
	whole = true
	for {
		part, err := l.r.ReadSlice('\n')
		l.bytes += len(part)
		if whole = whole && len(text)+len(part) <= l.most+2; whole {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return text, whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(text) > 0 || !whole):
			return text, whole, nil
		default:
			return nil, false, err
		}
	}
}

// parse reads one line.
func (l *lines) parse(text []byte) (one line, wrong *lineError) {
	if !utf8.Valid(text) {
		return one, l.wrong("invalid_json_line", "", "the line is not UTF-8")
	}
	var given struct {
		Custom *string         `json:"custom_id"`
		Method *string         `json:"method"`
		URL    *string         `json:"url"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		return one, l.wrong("invalid_json_line", "", "the line is not a JSON object of a request: %v",
			wire.Told(err))
	}
	if name := wire.Twice(text); name != "" {
		return one, l.wrong("invalid_json_line", "", "the line has the member %.64q twice", name)
	}
	switch {
	case given.Custom == nil || *given.Custom == "":
		return one, l.wrong("missing_required_parameter", "custom_id", "`custom_id` is missing")
	case len(*given.Custom) > maxCustom:
		return one, l.wrong("invalid_value", "custom_id", "`custom_id` must have at most %d bytes. Given: %d", maxCustom,
			len(*given.Custom))
	case given.Method == nil || *given.Method != "POST":
		return one, l.wrong("invalid_method", "method", "`method` must be POST")
	case given.URL == nil || *given.URL != l.endpoint:
		return one, l.wrong("invalid_url", "url", "`url` must be the endpoint of the batch, %s", l.endpoint)
	case len(given.Body) == 0 || given.Body[0] != '{':
		return one, l.wrong("missing_required_parameter", "body", "`body` must be an object")
	}
	var body struct {
		Stream     any `json:"stream"`
		Background any `json:"background"`
	}
	_ = json.Unmarshal(given.Body, &body) // it is an object
	if body.Stream == true {
		return one, l.wrong("invalid_value", "body.stream", "`stream` must not be true in a batch")
	}
	if body.Background == true {
		return one, l.wrong("invalid_value", "body.background", "`background` must not be true in a batch")
	}
	one.custom, one.body = *given.Custom, given.Body
	return one, nil
}

// wrong says what is wrong with the present line.
func (l *lines) wrong(code, param, format string, args ...any) *lineError {
	n := l.number
	e := &lineError{Code: code, Line: &n, Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}
