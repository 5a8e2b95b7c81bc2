package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// outcome is what a client saw of its request.
type outcome string

const (
	done      outcome = "complete"
	refused   outcome = "unreadable" // 400, 413, 415 or 422
	invalid   outcome = "invalid"    // 422, or such an error in a stream
	crowded   outcome = "overloaded" // 429, or such an error in a stream
	left      outcome = "left early" // before the reply's header
	leftLater outcome = "left later"
)

// tally counts outcomes, and keeps some of the replies that are wrong.
type tally struct {
	by    map[outcome]int
	wrong []string
}

func (t *tally) add(o *tally) {
	for k, v := range o.by {
		t.by[k] += v
	}
	t.wrong = append(t.wrong, o.wrong...)
}

// client sends requests, one after the other, until ctx ends.
func client(ctx context.Context, c *http.Client, url string, rng *rand.Rand) *tally {
	t := &tally{by: map[outcome]int{}}
	for ctx.Err() == nil && len(t.wrong) < 3 {
		var r request
		switch share := rng.IntN(10); {
		case share == 0:
			r = broken(rng)
		case share <= 2:
			r = leaving(rng)
		default:
			r = sound(rng)
		}
		o, err := r.send(c, url, rng)
		if err != nil {
			t.wrong = append(t.wrong, fmt.Sprintf("POST %s %.200s: %v", r.path, r.body, err))
			continue
		}
		t.by[o]++
		if o == crowded { // a client that waits less than it was told to, so that there is a crowd
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(rng.IntN(int(300 * time.Millisecond)))):
			}
		}
	}
	return t
}

// errLeft ends the requests of clients that leave.
var errLeft = errors.New("the client leaves")

// send makes the request and holds the reply to have exactly one end.
func (r request) send(c *http.Client, url string, rng *rand.Rand) (outcome, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if r.leave == 0 {
		defer time.AfterFunc(time.Duration(rng.IntN(int(200*time.Millisecond))), func() { cancel(errLeft) }).Stop()
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+r.path, strings.NewReader(r.body))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", r.kind)
	res, err := c.Do(q)
	if err != nil && context.Cause(ctx) == errLeft {
		return left, nil
	}
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var o outcome
	if res.StatusCode == http.StatusOK && r.form != whole {
		o, err = r.events(res.Body)
	} else {
		o, err = r.reply(res)
	}
	if err != nil && context.Cause(ctx) == errLeft {
		return leftLater, nil
	}
	return o, err
}

// reply reads one that is no stream.
func (r request) reply(res *http.Response) (outcome, error) {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if !json.Valid(body) || int64(len(body)) != res.ContentLength {
		return "", fmt.Errorf("status %d with a body that is no JSON of its length, %d: %.200q", res.StatusCode,
			res.ContentLength, body)
	}
	switch {
	case res.StatusCode == http.StatusTooManyRequests && r.counted && res.Header.Get("Retry-After") != "":
		return crowded, nil
	case res.StatusCode == http.StatusOK && r.status == 0:
		return done, nil
	case res.StatusCode == r.status && r.counted:
		return invalid, nil
	case res.StatusCode == r.status:
		return refused, nil
	}
	return "", fmt.Errorf("status %d, want %d: %.200s", res.StatusCode, r.status, body)
}

// event is what one of any route may say.
type event struct {
	GeneratedText *string `json:"generated_text"`
	Error         any
	ErrorType     string `json:"error_type"`
	Choices       []struct {
		Index        int
		FinishReason *string `json:"finish_reason"`
	}
}

// events reads a stream to its end, or until the client leaves.
func (r request) events(body io.Reader) (outcome, error) {
	ends, over := 0, false
	var failed *event
	seen := 0
	for lines := bufio.NewReader(body); ; seen++ {
		if seen == r.leave && seen > 0 {
			return leftLater, nil
		}
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		data, ok := strings.CutPrefix(line, "data: ")
		blank, _ := lines.ReadString('\n')
		var e event
		switch {
		case !ok || blank != "\n" || over:
			return "", fmt.Errorf("event %d: %q and %q, the stream was over: %t", seen, line, blank, over)
		case r.form == chatStream && data == "[DONE]\n":
			over = true
			continue
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return "", fmt.Errorf("event %d: %q: %w", seen, line, err)
		}
		if e.Error != nil {
			failed = &e
			over = r.form == tgiStream
		}
		if e.GeneratedText != nil {
			ends, over = ends+1, true
		}
		for _, c := range e.Choices {
			if c.FinishReason != nil {
				ends++
			}
		}
	}
	return r.verdict(ends, over, failed)
}

// verdict says what a stream was that came to its end.
func (r request) verdict(ends int, over bool, failed *event) (outcome, error) {
	want := 1
	if strings.Contains(r.body, `"n":2`) {
		want = 2
	}
	switch {
	case !over:
		return "", errors.New("the stream broke off")
	case failed != nil && ends == 0 && r.counted && failed.ErrorType == "overloaded":
		return crowded, nil
	case failed != nil && ends == 0 && r.status != 0 && failed.ErrorType == "validation":
		return invalid, nil
	case failed != nil || ends != want:
		return "", fmt.Errorf("%d ends of %d, error %+v", ends, want, failed)
	}
	return done, nil
}
