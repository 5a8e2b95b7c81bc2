package config

import (
	"slices"
	"strings"
	"testing"
)

func TestSpeculation(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args, variable, file string
		limit                int
		kinds                string
	}{
		{"", "", "", 7, "grammar plugin prediction draft prompt"},
		{"--speculate 3", "", "", 3, "grammar plugin prediction draft prompt"},
		{"", "5", "", 5, "grammar plugin prediction draft prompt"},
		{"--speculate 0", "5", "", 0, "grammar plugin prediction draft prompt"},
		{"", "", "[model.speculation]\ntokens = 2\n", 2, "grammar plugin prediction draft prompt"},
		{"", "", "[model.speculation]\nkinds = [\"grammar\"]\n", 7, "grammar"},
		{"--speculate 4", "", "[model.speculation]\nkinds = [\"grammar\"]\n", 4, "grammar prompt"},
		{"", "", "[model.speculation]\nkinds = []\n", 0, ""},
		{"", "", "[[model]]\nname = \"a\"\n", 7, "grammar plugin prediction draft prompt"},
		{"", "", "[[model]]\nname = \"a\"\n[model.speculation]\ntokens = 2\n", 2, "grammar plugin prediction draft prompt"},
		{"", "", "[[model]]\nname = \"a\"\nspeculation = { kinds = [\"prompt\"] }\n", 7, "prompt"},
	} {
		cfg := Default()
		if c.file != "" {
			if err := Decode("f.toml", []byte(c.file), &cfg); err != nil {
				t.Errorf("%s: %v", c.file, err)
				continue
			}
		}
		if c.args != "" || c.variable != "" {
			l, err := Read(parsed(t, strings.Fields(c.args)...), func(name string) (string, bool) {
				return c.variable, name == "SPECULATE" && c.variable != ""
			})
			if err != nil || len(l.Notices) > 0 {
				t.Errorf("%+v: %v, notices %v", c, err, l.Notices)
				continue
			}
			if c.file == "" {
				cfg = l.Config
			} else if err := assign(speculate{&cfg.Model.Speculation}, strings.Fields(c.args)[1]); err != nil {
				t.Error(err)
			}
		}
		s := cfg.All()[0].Speculation
		if s.Limit() != c.limit || strings.Join(s.Kinds, " ") != c.kinds {
			t.Errorf("%+v gives %+v, limit %d", c, s, s.Limit())
		}
	}
	for text, want := range map[string]string{
		"tokens = 33":                     "model.speculation.tokens must be >= 0 and <= 32, given 33",
		"model = \"a b\"":                 "model.speculation.model",
		"tokens = -1":                     "model.speculation.tokens must be >= 0 and <= 32, given -1",
		"kinds = [\"x\"]":                 `model.speculation.kinds[0] must be one of grammar, plugin, prediction, draft, prompt, given "x"`,
		"kinds = [\"prompt\",\"prompt\"]": `model.speculation.kinds[1] must not be there twice, given "prompt"`,
	} {
		c := Default()
		if err := Decode("f.toml", []byte("[model.speculation]\n"+text+"\n"), &c); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if d := Default(); !slices.Equal(d.Model.Speculation.Kinds, SpeculationKinds) {
		t.Errorf("default kinds %v", d.Model.Speculation.Kinds)
	}
	if _, err := Read(parsed(t, "--speculate", "many"), func(string) (string, bool) { return "", false }); err == nil ||
		!strings.Contains(err.Error(), `"many" is no whole number`) {
		t.Errorf("got %v", err)
	}
}
