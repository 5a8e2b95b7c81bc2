package api

// embedded refuses what the cases send to the routes of embeddings and rerank.
func (c *fakeCall) embedded() {
	v := value{c.body, true}
	switch c.r.URL.Path {
	case embeddingsPath:
		c.json(422, map[string]any{"error": map[string]any{"type": "invalid_request_error",
			"message": "encoding_format is " + v.at("encoding_format").text()}})
	case rerankPath:
		c.json(422, map[string]any{"message": "top_n is 0", "error_type": "validation"})
	default:
		c.json(413, map[string]any{"error": "truncation_direction is " + v.at("truncation_direction").text(),
			"error_type": "Validation"})
	}
}
