package api

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// fakeFile is a file of the fake.
type fakeFile struct {
	about map[string]any
	text  string
}

// files serves files.
func (c *fakeCall) files() {
	id, more, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, filesPath+"/"), "/")
	switch {
	case c.r.Method == http.MethodPost:
		if err := c.r.ParseMultipartForm(1 << 20); err != nil {
			c.refuseResponse(400, "invalid_value", err.Error())
			return
		}
		if c.r.FormValue("purpose") != "batch" {
			c.refuseResponse(400, "invalid_value", "`purpose` must be batch")
			return
		}
		f, head, err := c.r.FormFile("file")
		if err != nil {
			c.refuseResponse(400, "invalid_value", err.Error())
			return
		}
		var text bytes.Buffer
		_, _ = text.ReadFrom(f)
		c.json(200, c.keepFile(head.Filename, text.String()).about)
	case c.r.URL.Path == filesPath:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.json(200, map[string]any{"object": "list", "data": []any{c.newest.about}})
	default:
		kept, ok := c.fake.stored.Load(id)
		if !ok {
			c.refuseResponse(404, "not_found", "no such file: "+id)
			return
		}
		f := kept.(*fakeFile)
		switch {
		case c.r.Method == http.MethodDelete:
			c.fake.stored.Delete(id)
			c.json(200, map[string]any{"id": id, "object": "file", "deleted": true})
		case more == "content":
			c.w.Header().Set("Content-Type", "application/octet-stream")
			fmt.Fprint(c.w, f.text)
		default:
			c.json(200, f.about)
		}
	}
}

// keepFile keeps a text as a file.
func (c *fakeCall) keepFile(name, text string) *fakeFile {
	id := fmt.Sprintf("file-%d", c.made.Add(1))
	f := &fakeFile{map[string]any{"id": id, "object": "file", "bytes": len(text), "created_at": now(),
		"filename": name, "purpose": "batch", "status": "processed"}, text}
	c.fake.stored.Store(id, f)
	c.mu.Lock()
	c.newest = f
	c.mu.Unlock()
	return f
}

// batches serves batches, which are over when they begin.
func (c *fakeCall) batches() {
	if id, ok := strings.CutPrefix(c.r.URL.Path, batchesPath+"/"); ok {
		kept, ok := c.fake.stored.Load(id)
		if !ok {
			c.refuseResponse(404, "not_found", "no such batch: "+id)
			return
		}
		c.json(200, kept)
		return
	}
	if c.r.Method == http.MethodGet {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.json(200, map[string]any{"object": "list", "data": []any{c.batch}})
		return
	}
	v := value{c.body, true}
	file, ok := c.fake.stored.Load(v.at("input_file_id").text())
	switch {
	case v.at("endpoint").text() != chatPath:
		c.refuseResponse(400, "invalid_value", "`endpoint` is unknown")
	case v.at("completion_window").text() != "24h":
		c.refuseResponse(400, "invalid_value", "`completion_window` must be 24h")
	case !ok:
		c.refuseResponse(404, "not_found", "no such file: "+v.at("input_file_id").text())
	default:
		b := c.answerLines(file.(*fakeFile).text)
		b["metadata"] = v.at("metadata").any
		c.fake.stored.Store(b["id"], b)
		c.mu.Lock()
		c.batch = b
		c.mu.Unlock()
		c.json(200, b)
	}
}

// answerLines answers the lines of a batch, and returns it.
func (c *fakeCall) answerLines(text string) map[string]any {
	var good, bad strings.Builder
	counts := map[string]any{"total": 0, "completed": 0, "failed": 0}
	for line := range strings.Lines(text) {
		v, _ := parse([]byte(line))
		r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(v.at("body").String()))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+c.key)
		w := httptest.NewRecorder()
		c.fake.ServeHTTP(w, r)
		body, _ := parse(w.Body.Bytes())
		to, kind := &good, "completed"
		if w.Code != http.StatusOK {
			to, kind = &bad, "failed"
		}
		counts["total"] = counts["total"].(int) + 1
		counts[kind] = counts[kind].(int) + 1
		fmt.Fprintln(to, value{map[string]any{"custom_id": v.at("custom_id").text(),
			"response": map[string]any{"status_code": w.Code, "body": body.any}}, true})
	}
	return map[string]any{"id": fmt.Sprintf("batch_%d", c.made.Add(1)), "object": "batch", "status": "completed",
		"request_counts": counts, "output_file_id": c.keepFile("output", good.String()).about["id"],
		"error_file_id": c.keepFile("errors", bad.String()).about["id"]}
}
