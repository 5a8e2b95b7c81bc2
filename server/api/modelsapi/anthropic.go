package modelsapi

import (
	"cmp"
	"net/http"
	"time"

	"tgi/server"
)

// anthropicVersion is the header by which Anthropic's clients are known.
const anthropicVersion = "Anthropic-Version"

// anthropicModel is a model as Anthropic's clients read it.
type anthropicModel struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Name      string `json:"display_name"`
	Created   string `json:"created_at"`
	Lifecycle string `json:"lifecycle"`
	Context   int    `json:"max_input_tokens,omitempty"`
}

func (m *Model) anthropic() anthropicModel {
	return anthropicModel{"model", m.ID, cmp.Or(m.Name, m.ID), m.Created.UTC().Format(time.RFC3339), "active",
		m.Context}
}

// writeAnthropic replies with models as Anthropic's API lists them: all on one page.
func writeAnthropic(w http.ResponseWriter, models []Model) error {
	page := struct {
		Data  []anthropicModel `json:"data"`
		More  bool             `json:"has_more"`
		First *string          `json:"first_id"`
		Last  *string          `json:"last_id"`
	}{Data: []anthropicModel{}}
	for i := range models {
		page.Data = append(page.Data, models[i].anthropic())
	}
	if n := len(models); n > 0 {
		page.First, page.Last = &models[0].ID, &models[n-1].ID
	}
	return server.WriteValue(w, http.StatusOK, page)
}
