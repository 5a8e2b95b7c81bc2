package playground

import (
	"iter"
	"math"
	"mime"
	"strconv"
	"strings"
)

// maxAccepted is how many members of a header are read; browsers send about eight.
const maxAccepted = 32

// accepted yields what the fields of Accept or Accept-Encoding name, each with its weight. What cannot be read is left
// out.
func accepted(fields []string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		members := strings.Split(strings.Join(fields, ","), ",")
		for _, text := range members[:min(len(members), maxAccepted)] {
			name, params, err := mime.ParseMediaType(text)
			if err != nil {
				continue
			}
			weight := 1.0
			if q, ok := params["q"]; ok {
				if weight, err = strconv.ParseFloat(q, 64); err != nil || weight > 1 || math.IsNaN(weight) {
					continue
				}
			}
			if !yield(name, weight) {
				return
			}
		}
	}
}

// prefersHTML reports whether the fields of Accept name text/html, and nothing before it or with more weight. A star
// names nothing: programs that ask for anything get what they have always got.
func prefersHTML(accept []string) bool {
	best, html := 0.0, false
	for kind, weight := range accepted(accept) {
		if !strings.HasSuffix(kind, "/*") && weight > best { // of two that weigh the same the first counts
			best, html = weight, kind == "text/html"
		}
	}
	return html
}

// acceptsGzip reports whether the fields of Accept-Encoding take gzip, and do not prefer what is not compressed.
func acceptsGzip(fields []string) bool {
	weights := map[string]float64{}
	for coding, weight := range accepted(fields) {
		weights[coding] = weight
	}
	zip, named := weights["gzip"]
	if !named {
		zip = weights["*"]
	}
	return zip > 0 && zip >= weights["identity"]
}
