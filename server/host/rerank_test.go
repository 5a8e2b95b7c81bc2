package host

import (
	"slices"
	"strings"
	"testing"
)

// TestRerankOfDocuments: /rerank with documents in place of texts is /v1/rerank, errors too: vLLM and Infinity have it
// there, and LiteLLM's provider for vLLM knows no other path.
func TestRerankOfDocuments(t *testing.T) {
	s := openTexts(t, nil, "bert-rank")
	type reply struct {
		Results []struct {
			Index    int
			Score    float64 `json:"relevance_score"`
			Document struct{ Text string }
		}
	}
	var got, want reply
	body := fieldsOf{"query": "Which animal jumps?", "documents": []string{"a fox", "texts", "\"texts\""}, "top_n": 2}
	askTexts(t, s, "/rerank", fieldsOf{"query": body["query"], "documents": []string{"a fox", "x"}}, 200, &got)
	if len(got.Results) != 2 || got.Results[0].Document.Text == "" {
		t.Errorf("%+v", got)
	}
	got = reply{}
	askTexts(t, s, "/rerank", body, 200, &got)
	askTexts(t, s, "/v1/rerank", body, 200, &want)
	if len(want.Results) != 2 || !slices.Equal(got.Results, want.Results) {
		t.Errorf("%+v, want %+v", got, want)
	}
	var refused struct{ Message, Detail string }
	askTexts(t, s, "/rerank", fieldsOf{"query": "a", "documents": []string{"b"}, "top_n": 0}, 422, &refused)
	if !strings.Contains(refused.Message, "top_n") || refused.Detail != refused.Message {
		t.Errorf("%+v", refused)
	}
}
