package replay

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// api is what an exchange speaks.
type api uint8

const (
	noAPI     api = iota
	nativeAPI     // TGI's, whose settings are in parameters, and SageMaker's
	openAIAPI     // also Anthropic's: settings are members of the body
	ollamaAPI     // whose settings are in options
	batchAPI      // the generate API's, whose texts have ids: see fresh
	textAPI       // the same, with one text, which is the whole reply
	cloudAPI      // Vertex AI's and KServe's, whose replies are texts alone
)

// routes are the paths that are sent to: those that generate a text, and whose replies can be compared. A file may come
// from anywhere, and is sent with the user's keys: what loads, stops or removes something, what others made (batches,
// kept responses) and what only looks is not among them, and neither is what continues a text that the server holds.
var routes = []struct {
	path string
	api
}{
	{"/", nativeAPI}, {"/generate", nativeAPI}, {"/generate_stream", nativeAPI},
	{"/v1/completions/generate", nativeAPI}, {"/v1/completions/generate_stream", nativeAPI},
	{"/invocations", nativeAPI}, {"/v1/chat/completions", openAIAPI}, {"/v1/completions", openAIAPI},
	{"/v1/responses", openAIAPI}, {"/v1/messages", openAIAPI}, {"/api/chat", ollamaAPI}, {"/api/generate", ollamaAPI},
	{"/api/generate-one", textAPI}, {"/api/generate-batch", batchAPI}, {"/vertex", cloudAPI},
}

// vectors are the paths that embed, rank and classify: servers record them, and there is no text of theirs to compare.
var vectors = []string{"/v1/embeddings", "/embeddings", "/v1/rerank", "/v2/rerank", "/embed", "/embed_all",
	"/embed_sparse", "/rerank", "/predict", "/similarity", "/api/embed", "/api/embeddings"}

// KServe's path names a model and a version.
const kservePath = "/v2/models/MODEL/versions/VERSION/infer"

var kserve = regexp.MustCompile(`^/v2/models/[\w.:@+/-]+/versions/[\w.:@+-]+/infer$`)

// api returns what the exchange's path is of, noAPI for one that is not sent.
func (e *Exchange) api() api {
	path := e.route()
	for _, r := range routes {
		if r.path == path {
			return r.api
		}
	}
	if kserve.MatchString(path) {
		return cloudAPI
	}
	return noAPI
}

// route is the path without a query.
func (e *Exchange) route() string {
	path, _, _ := strings.Cut(e.Path, "?")
	return path
}

// allowed returns an error that names the route where an exchange is none that replay sends.
func (e *Exchange) allowed() error {
	if e.Method == http.MethodPost && e.api() != noAPI {
		return nil
	}
	var paths []string
	for _, r := range routes {
		paths = append(paths, r.path)
	}
	return fmt.Errorf("%.20q %.200q is not sent: replay sends POST to %s and %s alone", e.Method, e.route(),
		strings.Join(paths, ", "), kservePath)
}

// harmless returns the members of a body without what does more than to generate a text: how long a model is to stay
// loaded, and ids of texts that the server holds.
func (e *Exchange) harmless() (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Body, &members) != nil || members == nil {
		return nil, fmt.Errorf("the body of %s is no JSON object", e.Path)
	}
	switch e.api() {
	case ollamaAPI:
		delete(members, "keep_alive")
	case textAPI:
		return members, fresh(members, map[string]json.RawMessage{})
	case batchAPI:
		ids := map[string]json.RawMessage{}
		var prompts []map[string]json.RawMessage
		if json.Unmarshal(members["prompts"], &prompts) != nil {
			return nil, fmt.Errorf("prompts of the body of %s are no list of objects", e.Path)
		}
		for _, one := range prompts {
			if err := fresh(one, ids); err != nil {
				return nil, err
			}
		}
		var err error
		members["prompts"], err = json.Marshal(prompts)
		return members, err
	}
	return members, nil
}

// fresh gives a text of the generate API an id that the server does not know, so that the text of nobody goes on. ids
// has those that were given: what had one id twice has so again. What is no id, for which it is refused, stays.
func fresh(members map[string]json.RawMessage, ids map[string]json.RawMessage) error {
	if !set(members["prompt"]) {
		return errors.New("it goes on with a text that the server held: its body has no prompt")
	}
	var id string
	if json.Unmarshal(members["request_id"], &id) != nil || id == "" {
		return nil
	}
	if ids[id] == nil {
		ids[id] = json.RawMessage(strconv.Quote("replay-" + rand.Text()))
	}
	members["request_id"] = ids[id]
	return nil
}

// oneID is a text that tells of one.
var oneID = regexp.MustCompile(`request_id\b`)

// unlike returns an error where the exchange was refused with err for what replay changes, which a server cannot refuse
// again.
func (e *Exchange) unlike(err string) error {
	var of string
	switch a := e.api(); {
	case e.Status < http.StatusBadRequest:
	case a == ollamaAPI && strings.Contains(err, "keep_alive") && has(e.Body, "keep_alive"):
		of = "keep_alive, which replay leaves out"
	case (a == textAPI || a == batchAPI) && oneID.MatchString(err):
		of = "request_id, which replay changes"
	}
	if of == "" {
		return nil
	}
	return fmt.Errorf("it was refused for its %s: %s", of, statusOf(e.Status, err))
}
