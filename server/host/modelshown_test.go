package host

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"tgi/models/hf"
	"tgi/server/config"
)

// readOf is what a model that runs says of what it reads, in the list and by itself.
func readOf(t *testing.T, p *plugged) (modalities, templates []string) {
	t.Helper()
	type shown struct {
		ID         string
		Modalities []string `json:"input_modalities"`
		Templates  []string `json:"chat_templates"`
	}
	var list struct{ Data []shown }
	status, text := p.call(t, http.MethodGet, "/v1/models", nil)
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || len(list.Data) == 0 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	var one shown
	status, text = p.call(t, http.MethodGet, "/v1/models/"+list.Data[0].ID, nil)
	if err := json.Unmarshal([]byte(text), &one); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if !reflect.DeepEqual(one, list.Data[0]) {
		t.Errorf("the list says %v, the model %v", list.Data[0], one)
	}
	return one.Modalities, one.Templates
}

// TestModelsTellWhatTheyRead: a page may offer images for models that take them, and no others.
func TestModelsTellWhatTheyRead(t *testing.T) {
	plain, templates := readOf(t, openChat(t, nil))
	if !reflect.DeepEqual(plain, []string{"text"}) || templates != nil {
		t.Errorf("the demo model reads %q, by templates %q", plain, templates)
	}
	seeing, _ := openSeeing(t, "llava", nil)
	if read, _ := readOf(t, seeing); !reflect.DeepEqual(read, []string{"text", "image"}) {
		t.Errorf("a model with images reads %q", read)
	}
}

// TestTemplatesAreNamed: templates that a request may choose among have names; one alone is no choice.
func TestTemplatesAreNamed(t *testing.T) {
	for _, c := range []struct {
		own  map[string]string
		want []string
	}{
		{map[string]string{"default": "{{ messages }}"}, nil},
		{map[string]string{"tool_use": "{{ tools }}", "default": "{{ messages }}"}, []string{"default", "tool_use"}},
	} {
		setup, err := chatSetupOf(config.Default(), "m", "", hf.TokenizerConfig{ChatTemplates: c.own})
		if err != nil || !reflect.DeepEqual(setup.templates, c.want) {
			t.Errorf("%v: %q, %v, want %q", c.own, setup.templates, err, c.want)
		}
	}
}
