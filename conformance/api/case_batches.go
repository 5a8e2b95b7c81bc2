package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	filesPath   = "/v1/files"
	batchesPath = "/v1/batches"
	ofBatches   = ofOpenAI + ", batches and files"
)

// boundary separates the parts of the kit's forms.
const boundary = "a-boundary-of-the-kit"

// upload posts a file with a purpose.
func (p *probe) upload(purpose, content string) *reply {
	var b strings.Builder
	fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n%s\r\n", boundary, purpose)
	fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n", boundary)
	fmt.Fprintf(&b, "Content-Type: application/jsonl\r\n\r\n%s\r\n--%s--\r\n", content, boundary)
	r := p.do(request{method: http.MethodPost, path: filesPath, body: b.String(),
		header: map[string]string{"Content-Type": "multipart/form-data; boundary=" + boundary}})
	if v, err := parse(r.body); err == nil && v.at("error", "code").text() == "not_enabled" {
		p.skip("files and batches are switched off")
	}
	return r
}

// batchLine is one request of a batch.
func batchLine(id, body string) string {
	return fmt.Sprintf(`{"custom_id":%s,"method":"POST","url":"%s","body":%s}`, encode(id), chatPath, body)
}

// batchOf is the body that begins a batch.
func batchOf(file, endpoint, window string) string {
	return fmt.Sprintf(`{"input_file_id":%s,"endpoint":%s,"completion_window":%s,"metadata":{"a":"b"}}`,
		encode(file), encode(endpoint), encode(window))
}

// finished waits for the end of a batch.
func (p *probe) finished(id string) value {
	for {
		v := p.json(p.get(batchesPath + "/" + id))
		switch v.at("status").text() {
		case "validating", "in_progress", "finalizing", "cancelling":
		default:
			return v
		}
		select {
		case <-p.ctx.Done():
			p.fatal("the batch is %s when the time of the case is over", v.at("status"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// jsonLines returns the values of a file of the server, by custom_id, and these in their order.
func (p *probe) jsonLines(file string) (order []string, by map[string]value) {
	r := p.get(filesPath + "/" + file + "/content")
	p.status(r, http.StatusOK)
	by = map[string]value{}
	for text := range strings.Lines(string(r.body)) {
		v, err := parse([]byte(text))
		if err != nil {
			p.fatal("a line of the file is no JSON: %v", err)
		}
		id := v.at("custom_id").text()
		order, by[id] = append(order, id), v
	}
	return order, by
}

// batchesCases leave nothing behind: a file that is kept takes room of the key.
var batchesCases = []Case{
	{ID: "files", Rule: "a file is kept, listed, given back byte by byte, and removed", Source: ofBatches, This: true,
		run: func(p *probe) {
			text := batchLine("one", chat(1, "")) + "\n"
			v := p.json(p.upload("batch", text))
			id := v.at("id").text()
			defer p.remove(filesPath + "/" + id)
			p.begins(id, "file-")
			p.equal("object", v.at("object"), "file")
			p.equal("bytes", v.at("bytes"), len(text))
			p.equal("filename", v.at("filename"), "in.jsonl")
			p.equal("purpose", v.at("purpose"), "batch")
			p.equal("the file again", p.json(p.get(filesPath+"/"+id)), v)
			p.equal("the first of the list", p.json(p.get(filesPath)).at("data", 0, "id"), id)
			p.equal("the content", string(p.get(filesPath+"/"+id+"/content").body), text)
			gone := p.json(p.do(request{method: http.MethodDelete, path: filesPath + "/" + id}))
			p.equal("deleted", gone.at("deleted"), true)
			p.status(p.get(filesPath+"/"+id), http.StatusNotFound)
			p.status(p.get(filesPath+"/"+id+"/content"), http.StatusNotFound)
		}},
	{ID: "batches", Rule: "each line is answered once, in order, as the route answers it; errors have their own file",
		Source: ofBatches, This: true, run: func(p *probe) {
			in := p.json(p.upload("batch", strings.Join([]string{batchLine("b", chat(3, "")),
				batchLine("wrong", `{"messages":[],"temperature":0}`), batchLine("a", chat(2, ""))}, "\n"))).at("id").
				text()
			defer p.remove(filesPath + "/" + in)
			r := p.post(batchesPath, batchOf(in, chatPath, "24h"))
			p.status(r, http.StatusOK)
			v := p.json(r)
			p.begins(v.at("id").text(), "batch_")
			p.equal("object", v.at("object"), "batch")
			p.equal("metadata", v.at("metadata", "a"), "b")
			v = p.finished(v.at("id").text())
			out, bad := v.at("output_file_id").text(), v.at("error_file_id").text()
			defer p.remove(filesPath + "/" + out)
			defer p.remove(filesPath + "/" + bad)
			p.equal("status", v.at("status"), "completed")
			p.equal("request_counts", v.at("request_counts"), `{"completed":2,"failed":1,"total":3}`)
			order, by := p.jsonLines(out)
			p.equal("the order of the output", order, []string{"b", "a"})
			p.equal("status_code", by["b"].at("response", "status_code"), http.StatusOK)
			same := p.ask(chatPath, chat(3, ""), "Chat").at("choices", 0, "message", "content")
			p.equal("the text", by["b"].at("response", "body", "choices", 0, "message", "content"), same)
			order, by = p.jsonLines(bad)
			p.equal("the order of the errors", order, []string{"wrong"})
			if by["wrong"].at("response", "status_code").number() < http.StatusBadRequest {
				p.fail("the line that is wrong got %s", by["wrong"])
			}
			p.equal("the newest batch", p.json(p.get(batchesPath)).at("data", 0, "id"), v.at("id"))
		}},
	{ID: "batches-refused", Rule: "wrong batches and files are refused by field, in OpenAI's object", Source: ofBatches,
		This: true, run: func(p *probe) {
			file := p.json(p.upload("batch", batchLine("one", chat(1, "")))).at("id").text()
			defer p.remove(filesPath + "/" + file)
			refused := func(r *reply, status int, name string) {
				p.status(r, status)
				p.equal("the error's type", p.json(r).at("error", "type"), "invalid_request_error")
				if text := p.json(r).at("error", "message").text(); !strings.Contains(text, name) {
					p.fail("the error %q does not name %s", text, name)
				}
			}
			refused(p.upload("fine-tune", "x"), http.StatusBadRequest, "purpose")
			refused(p.post(batchesPath, batchOf(file, "/v1/images", "24h")), http.StatusBadRequest, "endpoint")
			refused(p.post(batchesPath, batchOf(file, chatPath, "soon")), http.StatusBadRequest, "completion_window")
			refused(p.post(batchesPath, batchOf("file-none", chatPath, "24h")), http.StatusNotFound, "file-none")
			refused(p.get(batchesPath+"/batch_none"), http.StatusNotFound, "batch_none")
		}},
}

// remove deletes what a case made. What is not there any more is no violation.
func (p *probe) remove(path string) {
	_, _ = p.try(request{method: http.MethodDelete, path: path})
}
