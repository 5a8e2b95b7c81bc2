package openapi

import (
	"net/http"

	"tgi/server/api/batchapi"
)

// tagBatches is that of OpenAI's files and batches.
const tagBatches = "OpenAI files and batches"

// mediaForm is the media type of uploads, mediaBytes that of a file's content.
const (
	mediaForm  = "multipart/form-data"
	mediaBytes = "application/octet-stream"
)

// batchCalls are the operations of OpenAI's files and batches. All are 404 where batches.folder is empty.
func batchCalls() []call {
	const files, batches = "/v1/files", "/v1/batches"
	const oneFile, oneBatch = files + "/{file_id}", batches + "/{batch_id}"
	c := func(method, path, summary string, replies *Schema, fails []int, query ...Parameter) call {
		return call{method: method, path: path, tag: tagBatches, summary: summary, query: query, fails: fails,
			replies: map[string]*Schema{mediaJSON: replies}}
	}
	query := func(name string, s *Schema, about string) Parameter {
		return Parameter{Name: name, In: "query", Schema: s, Description: about}
	}
	page := func(of string) *Schema {
		return object("", need("object", words("", "list")), need("data", list(ref(of))),
			need("first_id", orNull(text(""))), need("last_id", orNull(text(""))), need("has_more", flag("")))
	}
	upload := c(http.MethodPost, files, "Keep a file", ref("File"), []int{400, 404, 413, 415, 503, 507})
	upload.reads, upload.body = "FileRequest", mediaForm
	create := c(http.MethodPost, batches, "Begin a batch", ref("Batch"), []int{400, 404, 413, 415, 503, 507})
	create.reads = "BatchRequest"
	content := c(http.MethodGet, oneFile+"/content", "What is in a file", nil, []int{404})
	content.replies = map[string]*Schema{mediaBytes: {Type: "string", Format: "binary"}}
	return []call{
		upload,
		c(http.MethodGet, files, "The files of the key", page("File"), []int{400, 404},
			query("purpose", text(""), "Only files for this."),
			query("limit", upTo(from(whole("", ""), 1), 10_000), "10000 without it."),
			query("order", words("", "asc", "desc"), "desc without it."),
			query("after", text(""), "The id of the file behind which to begin.")),
		c(http.MethodGet, oneFile, "A file of the key", ref("File"), []int{404}),
		c(http.MethodDelete, oneFile, "Remove a file", object("", need("id", text("")),
			need("object", words("", "file")), need("deleted", flag(""))), []int{404, 409}),
		content,
		create,
		c(http.MethodGet, batches, "The batches of the key", page("Batch"), []int{400, 404},
			query("limit", upTo(from(whole("", ""), 1), 100), "20 without it."),
			query("after", text(""), "The id of the batch behind which to begin.")),
		c(http.MethodGet, oneBatch, "A batch of the key", ref("Batch"), []int{404}),
		c(http.MethodPost, oneBatch+"/cancel", "End a batch: what was answered is kept", ref("Batch"),
			[]int{404, 409, 503}),
	}
}

// batches are the schemas of files and batches.
func batches() map[string]*Schema {
	at := func(about string) *Schema { return whole("int64", about) }
	later := func(name string) property { return need(name, orNull(at(""))) }
	metadata := func() *Schema {
		return &Schema{Type: "object", Additional: text(""), Description: "At most 16 texts."}
	}
	const seconds = "From 3600 to 2592000. Without it `batches.keep` of the configuration."
	return map[string]*Schema{
		"FileRequest": object("", need("file", &Schema{Type: "string", Format: "binary"}),
			need("purpose", words("Nothing here reads files for other purposes.", "batch")),
			may("expires_after[anchor]", words("", "created_at")),
			may("expires_after[seconds]", upTo(from(whole("int32", seconds), 3600), 2_592_000))),
		"File": object("", need("id", text("")), need("object", words("", "file")), need("bytes", whole("int64", "")),
			need("created_at", at("Seconds since 1970.")), need("expires_at", orNull(at(""))),
			need("filename", text("")), need("purpose", words("", "batch", "batch_output")),
			need("status", words("", "processed"))),
		"BatchRequest": object("", need("input_file_id", text("A file of lines with custom_id, method, url and body.")),
			need("endpoint", words("The url of every line.", batchapi.Endpoints()...)),
			need("completion_window", text("24h, or another number of minutes (m), hours (h) or days (d), at most 14d.")),
			may("metadata", orNull(metadata())),
			may("output_expires_after", orNull(object("", need("anchor", words("", "created_at")),
				need("seconds", upTo(from(whole("int32", seconds), 3600), 2_592_000)))))),
		"Batch": object("", need("id", text("")), need("object", words("", "batch")),
			need("endpoint", words("", batchapi.Endpoints()...)),
			need("errors", orNull(object("Of a batch that failed.", need("object", words("", "list")),
				need("data", list(object("", need("code", text("")), need("line", orNull(whole("int32", "From 1."))),
					need("message", text("")), need("param", orNull(text(""))))))))),
			need("input_file_id", text("")), need("completion_window", text("")),
			need("status", words("", "validating", "failed", "in_progress", "finalizing", "completed", "expired",
				"cancelling", "cancelled")),
			need("output_file_id", orNull(text("The replies of status 200, in the order of the input."))),
			need("error_file_id", orNull(text("What became of the other lines."))),
			need("created_at", at("Seconds since 1970.")), need("expires_at", at("")), later("in_progress_at"),
			later("finalizing_at"), later("completed_at"), later("failed_at"), later("expired_at"),
			later("cancelling_at"), later("cancelled_at"),
			need("request_counts", object("", need("total", whole("int32", "")), need("completed", whole("int32", "")),
				need("failed", whole("int32", "")))), need("metadata", orNull(metadata()))),
	}
}
