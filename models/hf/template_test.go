package hf

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// The folders and what transformers finds in them come from testdata/make_templates.py.
func TestTemplatesAndTokensAreThoseOfTransformers(t *testing.T) {
	b, err := os.ReadFile("testdata/templates.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Folders []struct {
			Name                     string
			Files, Templates, Tokens map[string]string
		}
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Folders) < 20 {
		t.Fatalf("only %d folders", len(golden.Folders))
	}
	for _, g := range golden.Folders {
		fsys, dir := folder(), t.TempDir()
		delete(fsys, TokenizerConfigFile)
		for name, text := range g.Files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if err := os.CopyFS(dir, fsys); err != nil {
			t.Fatal(err)
		}
		inFS, err := DescribeFS(fsys, "m")
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		onDisk, err := Describe(dir)
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		for _, ck := range []*Checkpoint{inFS, onDisk} {
			tc := ck.Tokenizer
			if !maps.Equal(tc.ChatTemplates, g.Templates) || !maps.Equal(tc.Tokens, g.Tokens) {
				t.Errorf("%s: templates %q, tokens %q\nwant %q, %q", g.Name, tc.ChatTemplates, tc.Tokens, g.Templates,
					g.Tokens)
			}
			if tc.BOS != g.Tokens["bos_token"] || tc.EOS != g.Tokens["eos_token"] {
				t.Errorf("%s: BOS %q, EOS %q, want %q", g.Name, tc.BOS, tc.EOS, g.Tokens)
			}
			if len(tc.TemplateFiles) != len(tc.ChatTemplates) {
				t.Errorf("%s: files %q of templates %q", g.Name, tc.TemplateFiles, tc.ChatTemplates)
			}
			for name, file := range tc.TemplateFiles {
				if want := g.Templates[name]; file != "" && g.Files[file] != want || file == "" &&
					strings.HasSuffix(want, "jinja") {
					t.Errorf("%s: template %q is said to be from %q", g.Name, name, file)
				}
			}
		}
	}
}

func TestTemplateFiles(t *testing.T) {
	fsys := folder()
	fsys[ChatTemplateFile] = &fstest.MapFile{Data: []byte("a")}
	fsys[ChatTemplateFolder+"/rag.jinja"] = &fstest.MapFile{Data: []byte("b")}
	fsys[ChatTemplateFolder+"/.hidden.jinja"] = &fstest.MapFile{Data: []byte("\xff")}
	fsys[ChatTemplateFolder+"/.jinja"] = &fstest.MapFile{Data: []byte("\xff")}
	ck, err := DescribeFS(fsys, "m")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"default": "chat_template.jinja", "rag": "additional_chat_templates/rag.jinja"}
	if !maps.Equal(ck.Tokenizer.TemplateFiles, want) {
		t.Errorf("got %q, want %q", ck.Tokenizer.TemplateFiles, want)
	}
	// A file that changed is read under the same conditions.
	fsys[want["rag"]] = &fstest.MapFile{Data: []byte("new")}
	if s, err := ReadTemplate(fsys, want["rag"]); s != "new" || err != nil {
		t.Errorf("got %q, %v", s, err)
	}
	if _, err := ReadTemplate(fsys, "gone.jinja"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is gone gave %v", err)
	}
	delete(fsys, ChatTemplateFile)
	delete(fsys, want["rag"])
	if ck, err = DescribeFS(fsys, "m"); err != nil || !maps.Equal(ck.Tokenizer.TemplateFiles,
		map[string]string{"default": ""}) {
		t.Errorf("got %v, %v, want the one of tokenizer_config.json", ck, err)
	}
}

func TestTemplatesThatCannotBeUsed(t *testing.T) {
	long := strings.Repeat("é", MaxTemplate/2)
	inJSON := func(s string) string { return `{"chat_template":"` + s + `"}` }
	for _, c := range []struct{ file, text, want string }{
		{ChatTemplateFile, long + "x",
			"m: chat_template.jinja: unusable model configuration: the template has more than 1048576 bytes"},
		{ChatTemplateFile, "ab\xe9 {{ x }}",
			"m: chat_template.jinja: unusable model configuration: byte 2 is not UTF-8: 0xe9"},
		{ChatTemplateFile, "\u20ac\xe2\x82",
			"m: chat_template.jinja: unusable model configuration: byte 3 is not UTF-8: 0xe2"},
		{ChatTemplateFolder + "/rag.jinja", "\xff",
			"m: additional_chat_templates/rag.jinja: unusable model configuration: byte 0 is not UTF-8: 0xff"},
		{TokenizerConfigFile, inJSON(long + "x"),
			`m: tokenizer_config.json: unusable model configuration: chat_template: the template "default" has 1048577 bytes, at most 1048576`},
		{TokenizerConfigFile, `{"chat_template":{"a":"","rag":"` + long + `x"}}`,
			`m: tokenizer_config.json: unusable model configuration: chat_template: the template "rag" has 1048577 bytes, at most 1048576`},
		{LegacyTemplateFile, inJSON(long + "x"),
			`m: chat_template.json: unusable model configuration: chat_template: the template "default" has 1048577 bytes, at most 1048576`},
		{LegacyTemplateFile, `{"chat_template":7}`,
			"m: chat_template.json: unusable model configuration: chat_template: want a string, a list of {name, template} or an object of strings, got 7"},
		{LegacyTemplateFile, `[`, "m: chat_template.json: unusable model configuration: unexpected end of JSON input"},
		{ProcessorConfigFile, `{"chat_template":{"a":1}}`,
			`m: processor_config.json: unusable model configuration: chat_template: want a string, a list of {name, template} or an object of strings, got {"a":1}`},
		{SpecialTokensFile, `{"bos_token":[]}`,
			"m: special_tokens_map.json: unusable model configuration: bos_token: want a string or an object with content, got []"},
	} {
		fsys := folder()
		delete(fsys, TokenizerConfigFile)
		fsys[c.file] = &fstest.MapFile{Data: []byte(c.text)}
		if _, err := DescribeFS(fsys, "m"); !errors.Is(err, ErrConfig) || err.Error() != c.want {
			t.Errorf("%s %.40q:\n got %v\nwant %s", c.file, c.text, err, c.want)
		}
	}
	fits := folder()
	fits[ChatTemplateFile] = &fstest.MapFile{Data: []byte(long)}
	if ck, err := DescribeFS(fits, "m"); err != nil || ck.Tokenizer.ChatTemplates[DefaultTemplate] != long {
		t.Errorf("a template of %d bytes gave %v", MaxTemplate, err)
	}
	broken := folder()
	broken[ChatTemplateFile] = &fstest.MapFile{Mode: fs.ModeDir}
	if _, err := DescribeFS(broken, "m"); err == nil || !strings.Contains(err.Error(), ChatTemplateFile) {
		t.Errorf("a folder in a template's place gave %v", err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, folder()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ChatTemplateFile), []byte(long+"x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Describe(dir); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "chat_template.jinja") {
		t.Errorf("on disk: %v", err)
	}
}
