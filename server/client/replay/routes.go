package replay

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The paths that are sent to, by API: those that generate a text, and whose replies can be compared. A file may come
// from anywhere, and is sent with the user's key: what loads, stops or removes something, what others made (batches,
// kept responses) and what only looks is not among them, and neither is what continues a text that the server holds.
var (
	// nativePaths are TGI's, whose settings are in parameters, and SageMaker's.
	nativePaths = []string{"/", "/generate", "/generate_stream", "/v1/completions/generate",
		"/v1/completions/generate_stream", "/invocations"}
	openAIPaths    = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses"}
	anthropicPaths = []string{"/v1/messages"}
	// ollamaPaths are Ollama's, whose settings are in options.
	ollamaPaths = []string{"/api/chat", "/api/generate"}
	// plainPaths are those of the generate API, whose texts have ids: see fresh.
	plainPaths = []string{"/api/generate-one", "/api/generate-batch"}
	// cloudPaths are Vertex AI's, whose replies are texts alone.
	cloudPaths = []string{"/vertex"}
)

// allowed returns an error that names the route where an exchange is none that replay sends.
func (e *Exchange) allowed() error {
	paths := slices.Concat(nativePaths, openAIPaths, anthropicPaths, ollamaPaths, plainPaths, cloudPaths)
	if e.Method == http.MethodPost && e.among(paths) {
		return nil
	}
	route, _, _ := strings.Cut(e.Path, "?")
	return fmt.Errorf("%.20q %.200q is not sent: replay sends POST to %s alone", e.Method, route,
		strings.Join(paths, ", "))
}

// among reports whether an exchange is of one of the paths.
func (e *Exchange) among(paths []string) bool {
	route, _, _ := strings.Cut(e.Path, "?")
	return slices.Contains(paths, route)
}

// harmless returns the members of a body without what does more than to generate a text: how long a model is to stay
// loaded, and ids of texts that the server holds.
func (e *Exchange) harmless() (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Body, &members) != nil || members == nil {
		return nil, fmt.Errorf("the body of %s is no JSON object", e.Path)
	}
	switch {
	case e.among(ollamaPaths):
		delete(members, "keep_alive")
	case e.among(plainPaths[:1]):
		return members, fresh(members)
	case e.among(plainPaths):
		var prompts []map[string]json.RawMessage
		if json.Unmarshal(members["prompts"], &prompts) != nil {
			return nil, fmt.Errorf("prompts of the body of %s are no list of objects", e.Path)
		}
		for _, one := range prompts {
			if err := fresh(one); err != nil {
				return nil, err
			}
		}
		var err error
		members["prompts"], err = json.Marshal(prompts)
		return members, err
	}
	return members, nil
}

// fresh gives a text of the generate API an id that the server does not know, so that the text of nobody goes on.
func fresh(members map[string]json.RawMessage) error {
	if !set(members["prompt"]) {
		return errors.New("it goes on with a text that the server held: its body has no prompt")
	}
	members["request_id"] = json.RawMessage(strconv.Quote("replay-" + rand.Text()))
	return nil
}
