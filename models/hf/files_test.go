package hf

import (
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/tensors"
)

func TestTokenizerConfigs(t *testing.T) {
	yes := true
	cases := []struct {
		name, text string
		want       TokenizerConfig
	}{
		{"empty", `{}`, TokenizerConfig{}},
		{"strings", `{"bos_token":"<s>","eos_token":"</s>","unk_token":null,"add_bos_token":true}`,
			TokenizerConfig{BOS: "<s>", EOS: "</s>", AddBOS: &yes,
				Tokens: map[string]string{"bos_token": "<s>", "eos_token": "</s>"}}},
		{"objects",
			`{"bos_token":{"content":"<s>","lstrip":false},"pad_token":{"__type":"AddedToken","content":"<pad>"}}`,
			TokenizerConfig{BOS: "<s>", Pad: "<pad>",
				Tokens: map[string]string{"bos_token": "<s>", "pad_token": "<pad>"}}},
		{"other tokens",
			`{"image_token":"<image>","odd_token":{"content":"<odd>"},"no_token":3,"token":"x","extra_special_tokens":{"audio":"<audio>","n":1}}`, TokenizerConfig{
				Tokens: map[string]string{"image_token": "<image>", "odd_token": "<odd>", "audio": "<audio>"}}},
		{"extra list", `{"extra_special_tokens":["<a>"]}`, TokenizerConfig{}},
		{"template", `{"chat_template":"{{ x }}"}`,
			TokenizerConfig{ChatTemplates: map[string]string{"default": "{{ x }}"}}},
		{"templates", `{"chat_template":[{"name":"default","template":"a"},{"name":"tool_use","template":"b"}]}`,
			TokenizerConfig{ChatTemplates: map[string]string{"default": "a", "tool_use": "b"}}},
	}
	for _, c := range cases {
		for _, m := range []*map[string]string{&c.want.Tokens, &c.want.ChatTemplates} {
			if *m == nil {
				*m = map[string]string{}
			}
		}
		c.want.TemplateFiles = map[string]string{}
		for name := range c.want.ChatTemplates {
			c.want.TemplateFiles[name] = ""
		}
		got, err := ParseTokenizerConfig([]byte(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v (%v), want %+v", c.name, got, err, c.want)
		}
	}
	bad := map[string]string{
		`{"bos_token":1}`:                  "bos_token: want a string or an object with content, got 1",
		`{"eos_token":{}}`:                 "eos_token: want a string or an object with content, got {}",
		`{"add_bos_token":1}`:              "add_bos_token: want true or false, got 1",
		`{"chat_template":1}`:              "chat_template: want a string, a list of {name, template} or an object of strings, got 1",
		`{"chat_template":[{"name":"a"}]}`: "chat_template: entry 0 lacks name or template",
		`{"chat_template":[{"name":"a","template":"x"},{"name":"a","template":"y"}]}`: `chat_template: two templates are named "a"`,
		`[]`: "tokenizer_config.json: ",
	}
	for text, want := range bad {
		if _, err := ParseTokenizerConfig([]byte(text)); !errors.Is(err, ErrConfig) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %s", text, err, want)
		}
	}
}

func FuzzTokenizerConfig(f *testing.F) {
	f.Add([]byte(`{"bos_token":{"content":"<s>"},"eos_token":"</s>","chat_template":[{"name":"default","template":"a"}],"add_bos_token":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := ParseTokenizerConfig(data); err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("error %v does not wrap ErrConfig", err)
		}
	})
}

// folder is a valid model folder without weights.
func folder() fstest.MapFS {
	return fstest.MapFS{
		ConfigFile: {Data: []byte(`{"model_type":"llama","vocab_size":10,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,` +
			`"num_attention_heads":2,"max_position_embeddings":16,"eos_token_id":5}`)},
		TokenizerFile:       {Data: []byte(`{}`)},
		TokenizerConfigFile: {Data: []byte(`{"chat_template":"old"}`)},
		GenerationFile:      {Data: []byte(`{"eos_token_id":[7,5],"bos_token_id":1,"temperature":0.6}`)},
	}
}

func TestDescribeGathersAllFiles(t *testing.T) {
	ck, err := DescribeFS(folder(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if got := ck.EOS(); !slices.Equal(got, []uint32{5, 7}) {
		t.Errorf("ends are %v, want [5 7]", got)
	}
	if string(ck.TokenizerJSON) != "{}" || ck.Name != "tiny" || ck.Tokenizer.ChatTemplates[DefaultTemplate] != "old" {
		t.Errorf("got %+v", ck)
	}
	newer := folder()
	newer[ChatTemplateFile] = &fstest.MapFile{Data: []byte("new")}
	delete(newer, GenerationFile)
	if ck, err = DescribeFS(newer, "tiny"); err != nil || ck.Tokenizer.ChatTemplates[DefaultTemplate] != "new" ||
		!slices.Equal(ck.EOS(), []uint32{5}) {
		t.Errorf("got %+v, %v", ck, err)
	}
}

func TestOpenNamesTheFileAtFault(t *testing.T) {
	for name, want := range map[string]string{
		ConfigFile: "tiny: config.json: ", GenerationFile: "tiny: generation_config.json: ",
		TokenizerConfigFile: "tiny: tokenizer_config.json: ",
	} {
		broken := maps.Clone(folder())
		broken[name] = &fstest.MapFile{Data: []byte(`{`)}
		if _, err := OpenFS(broken, "tiny"); !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	bare := folder()
	if _, err := OpenFS(bare, "tiny"); !errors.Is(err, tensors.ErrMissing) {
		t.Errorf("a folder without weights gave %v", err)
	}
	delete(bare, ConfigFile)
	if _, err := OpenFS(bare, "tiny"); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "config.json") {
		t.Errorf("a folder without config.json gave %v", err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder gave %v", err)
	}
}
