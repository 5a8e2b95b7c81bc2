package playground

import (
	"mime"
	"strconv"
	"strings"
)

// maxRanges is how many media ranges of a header are read; browsers send about eight.
const maxRanges = 32

// prefersHTML reports whether the fields of Accept name text/html, and nothing before it or with more weight. A star
// names nothing: programs that ask for anything get what they have always got.
func prefersHTML(accept []string) bool {
	best, html := 0.0, false
	ranges := strings.Split(strings.Join(accept, ","), ",")
	for _, text := range ranges[:min(len(ranges), maxRanges)] {
		kind, params, err := mime.ParseMediaType(text)
		if err != nil || strings.HasSuffix(kind, "/*") {
			continue
		}
		weight := 1.0
		if q, ok := params["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil || weight > 1 {
				continue
			}
		}
		if weight > best { // of two that weigh the same the first counts
			best, html = weight, kind == "text/html"
		}
	}
	return html
}
