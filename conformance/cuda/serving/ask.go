package serving

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Parameters of a request to /generate.
type Parameters map[string]any

// Reply is what /generate answers.
type Reply struct {
	Text    string `json:"generated_text"`
	Details struct {
		Finish    string            `json:"finish_reason"`
		Generated int               `json:"generated_tokens"`
		Tokens    []Token           `json:"tokens"`
		Others    []json.RawMessage `json:"best_of_sequences"`
	} `json:"details"`
}

// Token is a generated token.
type Token struct {
	ID int `json:"id"`
}

// Generate sends a prompt to /generate. It adds the parameter details.
func (s *Server) Generate(ctx context.Context, prompt string, p Parameters) (r Reply, err error) {
	all := Parameters{"details": true}
	for k, v := range p {
		all[k] = v
	}
	return r, s.Post(ctx, "/generate", map[string]any{"inputs": prompt, "parameters": all}, &r)
}

// Post sends a body and reads the answer into out. Another status than 200 is an error.
func (s *Server) Post(ctx context.Context, path string, body, out any) error {
	res, err := s.send(ctx, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(out)
}

// send sends a body. The caller closes the answer's.
func (s *Server) send(ctx context.Context, path string, body any) (*http.Response, error) {
	method, content := http.MethodGet, io.Reader(http.NoBody)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		method, content = http.MethodPost, bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(ctx, method, s.URL+path, content)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return nil, fmt.Errorf("%s answers %d: %s", path, res.StatusCode, text)
	}
	return res, nil
}

// Get reads the JSON of a path.
func (s *Server) Get(ctx context.Context, path string, out any) error {
	return s.Post(ctx, path, nil, out)
}

// Stream sends a prompt to /generate_stream and calls f with the data of each event until it returns false, which
// closes the connection, or the stream ends. An event that is an error is one.
func (s *Server) Stream(ctx context.Context, prompt string, p Parameters, f func(event string) bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	res, err := s.send(ctx, "/generate_stream", map[string]any{"inputs": prompt, "parameters": p})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		if strings.Contains(data, `"error":`) {
			return fmt.Errorf("the stream ends with %s", data)
		}
		if !f(data) {
			return nil
		}
	}
	return lines.Err()
}

// Metrics are the values of a server's metrics by name, summed over their labels.
type Metrics map[string]float64

// Metrics reads the server's metrics.
func (s *Server) Metrics(ctx context.Context) (Metrics, error) {
	res, err := s.send(ctx, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	m := Metrics{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		name, _, _ := strings.Cut(lines.Text()[:at], "{")
		if v, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			m[name] += v
		}
	}
	return m, lines.Err()
}
