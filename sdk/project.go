// Package sdk embeds the files that plugin authors need: the contract, the SDKs of four languages,
// and a first plugin in each. Its caller is `tgi plugin new`, which writes them out. It starts no
// goroutines.
//
// The reasons behind it: docs/rationale/sdk.md.
package sdk

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"tgi/sdk/abi"
)

//go:embed abi/abi.go abi/draft.go abi/grammar.go abi/guard.go abi/program.go abi/tools.go abi/README.md
//go:embed go/README.md go/chat go/draft go/grammar go/guard go/internal go/logits go/params go/plugin go/plugintest go/program go/sampler go/steps go/template go/tools
//go:embed c/README.md c/tgi.h c/tgi_guard.h c/tgi_json.h c/tgi_math.h c/tgi_program.h
//go:embed c/tgi_test.h c/tgi_test_guard.h c/tgi_test_program.h
//go:embed rust/README.md rust/Cargo.toml rust/build.rs rust/src rust/.cargo/config.toml
//go:embed assemblyscript/README.md assemblyscript/assembly assemblyscript/asconfig.json
//go:embed assemblyscript/test/guard.mjs assemblyscript/test/host.mjs assemblyscript/test/program.mjs
//go:embed assemblyscript/package-lock.json
//go:embed templates
var files embed.FS

// File is one file of a project.
type File struct {
	// Path is slash-separated and relative to the project's folder.
	Path string
	Data []byte
}

// Languages are the languages that [Project] supports.
var Languages = []string{"go", "rust", "c", "as"}

// Kinds are the kinds of plugins that [Project] supports, in every language.
var Kinds = []string{abi.KindLogits, abi.KindSampler, abi.KindTemplate, abi.KindTools, abi.KindGrammar}

// Stepping is the kind that [Project] takes, instead of grammar, for a plugin that computes the allowed tokens at each
// step itself. In C and AssemblyScript every grammar does.
const Stepping = "steps"

// FewKinds are further kinds, and the languages that [Project] supports each in.
var FewKinds = map[string][]string{
	abi.KindDraft:   {"go", "rust", "c", "as"},
	abi.KindGuard:   {"go", "rust", "c", "as"},
	abi.KindProgram: {"go", "rust", "c", "as"},
}

// KindsOf lists the kinds that [Project] supports in a language, [Stepping] last.
func KindsOf(language string) []string {
	kinds := slices.Clone(Kinds)
	for _, kind := range slices.Sorted(maps.Keys(FewKinds)) {
		if slices.Contains(FewKinds[kind], language) {
			kinds = append(kinds, kind)
		}
	}
	return append(kinds, Stepping)
}

// Name is the pattern of plugin names.
var Name = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Project returns the files of a new plugin of a kind, or [Stepping], with its own copy of the SDK. It
// builds and passes its tests without changes and without network (AssemblyScript: once asc is
// installed). `make` builds NAME.wasm and `make test` tests it; for AssemblyScript these are
// `npm run build` and `npm test`.
func Project(language, kind, name string) ([]File, error) {
	if !Name.MatchString(name) || slices.Contains([]string{"tgi", "tgi-plugin", "test", "auto", "none"}, name) {
		return nil,
			fmt.Errorf("plugin name %q: want lower-case letters, digits and single hyphens, a letter first, and none of "+
				"tgi, tgi-plugin, test, auto, none", name)
	}
	if !slices.Contains(Languages, language) {
		return nil, fmt.Errorf("language %q: want one of %s", language, strings.Join(Languages, ", "))
	}
	if kinds := KindsOf(language); !slices.Contains(kinds, kind) {
		return nil, fmt.Errorf("kind %q: want one of %s", kind, strings.Join(kinds, ", "))
	}
	if kind == Stepping && (language == "c" || language == "as") {
		kind = abi.KindGrammar
	}
	p := project{name: name, kind: kind}
	switch language {
	case "go":
		p.fromTemplate("go", map[string]string{"KIND/main.go": "main.go", "KIND/main_test.go": "main_test.go",
			"go.mod": "go.mod", "Makefile": "Makefile"})
		p.add("tgi/go.mod", []byte("module tgi\n\ngo 1.24\n"))
		p.copy("abi", "tgi/sdk/abi")
		p.copy("go", "tgi/sdk/go")
		p.common("tgi/sdk/go/README.md")
	case "rust":
		p.fromTemplate("rust", map[string]string{"KIND/lib.rs": "src/lib.rs", "Cargo.toml": "Cargo.toml",
			"Makefile": "Makefile"})
		p.copy("rust", "tgi")
		p.copy("rust/.cargo", ".cargo")
		p.edit("tgi/Cargo.toml", func(s string) string {
			before, _, _ := strings.Cut(s, "\n[workspace]") // its members are the SDK's examples
			return before
		})
		p.common("tgi/README.md")
	case "c":
		p.fromTemplate("c", map[string]string{"KIND/plugin.c": name + ".c", "KIND/plugin_test.c": name + "_test.c",
			"Makefile": "Makefile"})
		p.copy("c", "tgi")
		p.common("tgi/README.md")
	case "as":
		p.fromTemplate("assemblyscript", map[string]string{"KIND/index.ts": "src/index.ts",
			"KIND/plugin.test.mjs": "test/" + name + ".test.mjs", "package.json": "package.json"})
		p.copy("assemblyscript/assembly", "assembly") // as in the SDK, so that its examples build here too
		p.copy("assemblyscript/test", "tgi")
		p.copy("assemblyscript/asconfig.json", "asconfig.json")
		p.copy("assemblyscript/README.md", "tgi/README.md")
		// so that asc is the one that the SDK was tested with
		p.copy("assemblyscript/package-lock.json", "package-lock.json")
		p.edit("package-lock.json", func(s string) string {
			return strings.NewReplacer(`"tgi-plugin"`, `"`+name+`"`, `"version": "1.0.0"`, `"version": "0.1.0"`,
				"      \"license\": \"Apache-2.0\",\n      \"dev", "      \"dev").Replace(s)
		})
		p.common("tgi/README.md")
	}
	slices.SortFunc(p.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return p.files, p.err
}

// project collects files. It keeps the first error.
type project struct {
	name  string
	kind  string
	files []File
	err   error
}

func (p *project) add(to string, data []byte) { p.files = append(p.files, File{to, data}) }

// common adds what a project has in every language.
func (p *project) common(docs string) {
	page := p.kind + ".md"
	if p.kind == Stepping {
		page = abi.KindGrammar + ".md"
	}
	p.fromTemplate(".", map[string]string{page: "README.md", "gitignore": ".gitignore"})
	p.edit("README.md", func(s string) string { return strings.ReplaceAll(s, "SDKDOC", docs) })
	// The SDK's README refers to folders that are elsewhere in a project.
	p.edit(docs, strings.NewReplacer("[examples](examples)", "the project's own",
		"[test/host.mjs](test/host.mjs)", "[host.mjs](host.mjs)", "[test/guard.mjs](test/guard.mjs)",
		"[guard.mjs](guard.mjs)", "[test/program.mjs](test/program.mjs)", "[program.mjs](program.mjs)").Replace)
}

// fromTemplate adds templates of a language: paths maps each template to its file. KIND stands for the kind.
func (p *project) fromTemplate(language string, paths map[string]string) {
	for from, to := range paths {
		b, err := files.ReadFile(path.Join("templates", language, strings.Replace(from, "KIND", p.kind, 1)+".tmpl"))
		if err != nil && p.err == nil {
			p.err = fmt.Errorf("BUG: %w", err)
		}
		p.add(to, []byte(strings.ReplaceAll(string(b), "NAME", p.name)))
	}
}

// copy adds a file or folder of the SDK without the SDK's own tests.
func (p *project) copy(from, to string) {
	err := fs.WalkDir(files, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		b, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		p.add(path.Join(to, strings.TrimPrefix(name, from)), b)
		return nil
	})
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("BUG: %w", err)
	}
}

func (p *project) edit(name string, change func(string) string) {
	for i := range p.files {
		if p.files[i].Path == name {
			p.files[i].Data = []byte(change(string(p.files[i].Data)))
		}
	}
}
