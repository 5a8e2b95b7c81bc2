package chat

import (
	"reflect"
	"testing"

	"tgi/sdk/go/params"
)

func TestReadModel(t *testing.T) {
	r := params.Read([]byte(`{"name": "m", "tokens": {"bos_token": "<s>", "pad_token": null}, "templates": {"default": "{{ x }}"}, "new": []}`))
	got := ReadModel(r)
	want := Model{Name: "m", Tokens: map[string]string{"bos_token": "<s>", "pad_token": ""},
		Templates: map[string]string{"default": "{{ x }}"}}
	if err := r.Close(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`[]`, `{"name": 1}`, `{"tokens": []}`, `{"templates": {"default": 1}}`} {
		r := params.Read([]byte(bad))
		if ReadModel(r); r.Close() == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
