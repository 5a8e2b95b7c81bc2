package replay

import (
	"fmt"
	"net/http"
	"slices"
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
)

// allowed returns an error that names the route where an exchange is none that replay sends.
func (e *Exchange) allowed() error {
	route, _, _ := strings.Cut(e.Path, "?")
	paths := slices.Concat(nativePaths, openAIPaths, anthropicPaths)
	if e.Method == http.MethodPost && slices.Contains(paths, route) {
		return nil
	}
	return fmt.Errorf("%.20q %.200q is not sent: replay sends POST to %s alone", e.Method, route,
		strings.Join(paths, ", "))
}
