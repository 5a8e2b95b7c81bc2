package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestConceal: an error repeats no secret of a value, however it has it, and stays what it is.
func TestConceal(t *testing.T) {
	const long = "https://registry.example.com/a/path?key=PWPWPWPWPWPWPW"
	for _, x := range []struct{ value, text, want string }{
		{"u:PW@h", "open u:PW@h: no such file", "open ***@h: no such file"},
		{"--url=http://u:PW@h/x", `"http://u:PW@h/x" is none`, `"http://***@h/x" is none`},
		{"a=u:PW@h", "u:PW@h and a=u:PW@h", "***@h and ***@h"},
		{"http://h/?a=b=PW", "given http://h/?a=b=PW", "given http://h/?***"},
		{"x,u:PW@h,y", `element "u:PW@h"`, `element "***@h"`},
		{"u:P\"W\x01@h", fmt.Sprintf("given %q", "u:P\"W\x01@h"), `given "***@h"`},
		{long, fmt.Sprintf("given %.44q", long), `given "https://registry.example.com/a/path?***"`},
		{long, fmt.Sprintf("given %.20q", long), `given "https://registry.exa"`},
		{long, "see https://registry.example.com/a/path?***", "see https://registry.example.com/a/path?***"},
		{"org/name@main", "no org/name@main", "no org/name@main"},
		{"a", "a a", "a a"}, {"", "x", "x"},
	} {
		if got := Conceal(errors.New(x.text), "y", x.value); got.Error() != x.want {
			t.Errorf("%s: %s, want %s", x.value, got, x.want)
		}
	}
	_, err := os.Open("u:PW@h")
	if got := Conceal(err, "u:PW@h"); !errors.Is(got, fs.ErrNotExist) || strings.Contains(got.Error(), "PW") {
		t.Error(got)
	}
	if Conceal(nil, "u:PW@h") != nil {
		t.Error("no error became one")
	}
	if err := errors.New("x"); Conceal(err, "u:PW@h") != err {
		t.Error("an error without a secret became another")
	}
}

// TestNoSettingIsTold: whatever setting a flag, a variable or the file gives a text with a password, no error has it.
func TestNoSettingIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	none := func(string) (string, bool) { return "", false }
	for _, value := range []string{"u:PASSWORD@h", "http://u:PASSWORD@h:1/x", "http://u:1/PASSWORD@h", "h?key=PASSWORD",
		"//u:PASSWORD@h/x", "redis://h/PASSWORD"} {
		for i := range settings {
			s := &settings[i]
			for name, read := range map[string]func() (Loaded, error){
				"--" + s.flag: func() (Loaded, error) {
					return Read(&Flags{given: map[string]string{s.flag: value}}, none)
				},
				env(s.flag): func() (Loaded, error) {
					return Read(nil, func(name string) (string, bool) { return value, name == env(s.flag) })
				},
				s.key: func() (Loaded, error) {
					section, key, _ := strings.Cut(s.key, ".")
					if inner, last, ok := strings.Cut(key, "."); ok {
						section, key = section+"."+inner, last
					}
					text := fmt.Sprintf("[%s]\n%s = %q\n", section, key, value)
					if err := os.WriteFile("x.toml", []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					return Read(&Flags{given: map[string]string{configFlag: "x.toml"}}, none)
				},
			} {
				l, err := read()
				if err != nil && strings.Contains(err.Error(), "PASSWORD") {
					t.Errorf("%s %s: %v", name, value, err)
				}
				for _, n := range l.Notices {
					if strings.Contains(n.String(), "PASSWORD") {
						t.Errorf("%s %s: %s", name, value, n)
					}
				}
			}
		}
		for _, flags := range []*Flags{{given: map[string]string{configFlag: value}}, nil} {
			_, err := Read(flags, func(name string) (string, bool) { return value, name == env(configFlag) })
			if err == nil || strings.Contains(err.Error(), "PASSWORD") {
				t.Errorf("%s: %v", value, err)
			}
		}
	}
}
