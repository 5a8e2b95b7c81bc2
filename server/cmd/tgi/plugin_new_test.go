package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tgi/sdk"
)

// TestTryParams: the main file of every language declares each parameter that the hint of its kind has.
func TestTryParams(t *testing.T) {
	tried := 0
	for _, language := range sdk.Languages {
		for _, kind := range sdk.KindsOf(language) {
			_, text, ok := strings.Cut(tryParams[kind], "--params '")
			if !ok {
				continue
			}
			var given map[string]any
			if err := json.Unmarshal([]byte(strings.TrimSuffix(text, "'")), &given); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			files, err := sdk.Project(language, kind, "mine")
			if err != nil {
				t.Fatal(err)
			}
			for name := range given {
				declares := func(file []byte) bool {
					_, declared, ok := strings.Cut(strings.ReplaceAll(string(file), `\"`, `"`), `"properties":{`)
					return ok && strings.Contains(declared, `"`+name+`":{"description":`)
				}
				main := false
				for _, f := range files {
					main = main || slices.ContainsFunc([]string{"main.go", "src/lib.rs", "mine.c", "src/index.ts"},
						func(s string) bool { return s == f.Path }) && declares(f.Data)
				}
				if !main {
					t.Errorf("%s, %s: no parameter %s", language, kind, name)
				}
				tried++
			}
		}
	}
	if tried < 4*5 {
		t.Errorf("%d parameters of four languages and five kinds", tried)
	}
}
