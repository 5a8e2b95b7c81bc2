package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestLoraAdapters: TGI's flag, whose paths may be absent, and what it refuses.
func TestLoraAdapters(t *testing.T) {
	folder, err := (&Models{}).Dir()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]Adapter{
		"a=/x,b=y/z":    {{"a", "/x", ""}, {"b", "y/z", ""}},
		" a=/x , org/b": {{"a", "/x", ""}, {"org/b", filepath.Join(folder, "org", "b"), "org/b"}},
		"a=/x=y":        {{"a", "/x=y", ""}},
		"a=":            nil, "=x": nil, "": nil, "a,,b": nil,
	} {
		l, _, err := read(t, "", nil, "--lora-adapters", text)
		switch {
		case want == nil:
			if err == nil || !strings.Contains(err.Error(), "is not name=path, separated by commas") {
				t.Errorf("%q: %v %+v", text, err, l.Config.Model.Adapters)
			}
		case err != nil || !reflect.DeepEqual(l.Config.Model.Adapters, want):
			t.Errorf("%q: %v %+v", text, err, l.Config.Model.Adapters)
		}
		if l, _, err := read(t, "", map[string]string{"LORA_ADAPTERS": text}); want != nil &&
			(err != nil || !reflect.DeepEqual(l.Config.Model.Adapters, want)) {
			t.Errorf("variable %q: %v %+v", text, err, l.Config.Model.Adapters)
		}
	}
}

// TestAdaptersOfFiles: adapters of one model and of several, and what is wrong with others.
func TestAdaptersOfFiles(t *testing.T) {
	const a = "[[model.adapter]]\nname = \"a\"\npath = \"x\"\n"
	l, _, err := read(t, "[[model]]\nname = \"m\"\n"+a+
		"[[model]]\nname = \"n\"\n[[model.adapter]]\nname = \"b\"\npath = \"/y\"\n", nil)
	if err != nil || len(l.Config.ModelList) != 2 ||
		!reflect.DeepEqual(l.Config.ModelList[1].Adapters, []Adapter{{"b", "/y", ""}}) {
		t.Fatalf("%v %+v", err, l.Config.ModelList)
	}
	for text, want := range map[string]string{
		a + a:                               `tgi.toml:5: model.adapter[1].name must differ from all others, but another adapter is called "a"`,
		"[[model]]\nname = \"a\"\n" + a:     `but a model is called "a"`,
		"[[model.adapter]]\npath = \"x\"\n": "model.adapter[0].name is needed",
		"[[model.adapter]]\nname = \"../a\"\npath = \"x\"\n":              "model.adapter[0].name",
		"[[model.adapter]]\nname = \"a\"\npath = \"x\"\nrank = 3\n":       "rank",
		"[[model]]\nname = \"m\"\n" + a + "[[model]]\nname = \"n\"\n" + a: `model[1].adapter[0].name must differ`,
		strings.Repeat(strings.Replace(a, `"a"`, `""`, 1), 1025):          "at most 1024 entries, given 1025",
	} {
		if _, _, err := read(t, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v\nwant %s", text, err, want)
		}
	}
}

// TestAdaptersInTheModelsFolder: adapters without a folder, or whose folder is not there, are those of their names in
// the models folder.
func TestAdaptersInTheModelsFolder(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"models/poet", "models/people/pirate", "beside/poet"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "tgi.toml")
	text := "[models]\nfolder = \"models\"\n"
	want := []string{"models/people/pirate", "beside/poet", "models/poet", "elsewhere"}
	for i, one := range [][2]string{{"people/pirate", ""}, {"a", "beside/poet"}, {"poet", "gone"}, {"b", "elsewhere"}} {
		text += fmt.Sprintf("[[model.adapter]]\nname = %q\npath = %q\n", one[0], one[1])
		want[i] = filepath.Join(dir, want[i])
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := Read(&Flags{given: map[string]string{"config": file}}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range l.Config.Model.Adapters {
		if a.Path != want[i] {
			t.Errorf("%s is at %s, want %s", a.Name, a.Path, want[i])
		}
	}
}
