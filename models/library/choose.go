package library

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"tgi/models/gguf"
	"tgi/models/hf"
	"tgi/models/ready"
	"tgi/models/safetensors"
	"tgi/models/vision"
)

// Bounds of a file's path inside a checkpoint.
const (
	maxPath      = 512
	maxPathPart  = 200
	maxPathParts = 8
)

// MaxIndex bounds the index of sharded weights; the largest public ones have a few MiB.
const MaxIndex = 32 << 20

// CheckPath checks the slash-separated path of a file in an archive or a hub's list: it must
// be relative, lead downwards, be printable, and name the same file on every system. Its
// errors wrap ErrPath.
func CheckPath(name string) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w %s: %s", ErrPath, quote(name), fmt.Sprintf(format, a...))
	}
	switch {
	case name == "":
		return fail("is empty")
	case len(name) > maxPath:
		return fail("has %d bytes, at most %d are allowed", len(name), maxPath)
	case strings.ContainsAny(name, "\\:"):
		return fail("holds a backslash or a colon")
	case strings.HasPrefix(name, "/"):
		return fail("is absolute")
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxPathParts {
		return fail("has %d parts, at most %d are allowed", len(parts), maxPathParts)
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return fail("has the part %q", part)
		}
		if len(part) > maxPathPart {
			return fail("has a part of %d bytes, at most %d are allowed", len(part), maxPathPart)
		}
		if i := strings.IndexFunc(part, func(r rune) bool {
			return r == unicode.ReplacementChar ||
				!unicode.IsPrint(r)
		}); i >= 0 {
			return fail("holds a character that does not print")
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fail("is no file name on this system")
	}
	return nil
}

// rootFiles are the files at a checkpoint's root that serving reads, apart from weights.
var rootFiles = []string{
	hf.ConfigFile, hf.GenerationFile, hf.TokenizerFile, hf.TokenizerConfigFile, hf.SpecialTokensFile,
	hf.ChatTemplateFile, hf.ProcessorConfigFile, hf.LegacyTemplateFile, vision.PreprocessorFile,
}

// otherTokenizers are those that serving reads if there is no tokenizer.json.
var otherTokenizers = []string{hf.TekkenFile, hf.SentencePieceFile, hf.AddedTokensFile, hf.TiktokenFile,
	hf.QwenTiktokenFile}

// Choose returns, sorted, the files of a checkpoint that serving reads: the configuration, the tokenizer, the chat
// templates, and one set of weights; or those of an adapter. Safetensors win over ONNX, and both over GGUF, unless file
// names one of the files in those formats: by its name, or by what that ends with, such as Q4_K_M or q4f16. Of several
// ONNX graphs that of ready.Pick is taken. Shards are those that
// the index names, so a second copy under another name is left out. read returns the content of the index and is called
// for nothing else. Errors wrap ErrUnusable, or are read's.
func Choose(names []string, file string, read func(name string) ([]byte, error)) ([]string, error) {
	has := make(map[string]bool, len(names))
	for _, n := range names {
		has[n] = true
	}
	if has[hf.AdapterConfigFile] && !has[hf.ConfigFile] {
		if !has[hf.AdapterFile] {
			return nil, fmt.Errorf("%w: %s is missing", ErrUnusable, hf.AdapterFile)
		}
		return []string{hf.AdapterConfigFile, hf.AdapterFile}, nil
	}
	graphs := ready.Variants(names)
	graph, asked := askedGraph(graphs, file)
	var weights []string
	var err error
	if !asked {
		weights, err = chooseGGUF(names, has, file, len(graphs) > 0)
	}
	if err == nil && weights == nil {
		if !has[hf.ConfigFile] && !(has[ready.GenaiFile] && len(graphs) > 0) {
			return nil, fmt.Errorf("%w: %s is missing", ErrUnusable, hf.ConfigFile)
		}
		if asked {
			weights = graphFiles(names, has, graph)
		} else {
			weights, err = chooseWeights(names, has, graphs, read)
		}
	}
	if err != nil {
		return nil, err
	}
	var out []string
	roots := rootFiles
	if !has[hf.TokenizerFile] {
		roots = slices.Concat(rootFiles, otherTokenizers)
	}
	for _, n := range roots {
		if has[n] && (n != hf.ConfigFile || !hf.IsGGUF(weights[0])) {
			out = append(out, n)
		}
	}
	for _, n := range names {
		if dir, file := path.Split(n); dir == hf.ChatTemplateFolder+"/" && path.Ext(file) == ".jinja" &&
			file[0] != '.' {
			out = append(out, n)
		}
	}
	if !hf.IsGGUF(weights[0]) {
		out = append(out, hf.SentenceFiles(names)...)
	}
	out = append(out, weights...)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// chooseGGUF returns the files of the model in the GGUF format, nil if there is none and file is empty.
func chooseGGUF(names []string, has map[string]bool, file string, graphs bool) ([]string, error) {
	if file == "" && (has[safetensors.SingleFile] || has[safetensors.IndexFile] || graphs) {
		return nil, nil
	}
	var found []string
	for _, n := range names {
		_, first := gguf.Parts(path.Base(n))
		switch {
		case !first || !hf.IsGGUF(n):
		case file == "" && !strings.Contains(n, "/"), file != "" && named(n, file):
			found = append(found, n)
		}
	}
	slices.Sort(found)
	switch {
	case len(found) == 0 && file == "":
		return nil, nil
	case len(found) == 0:
		return nil, fmt.Errorf("%w: there is no file %s in the GGUF format, and no such ONNX graph", ErrUnusable, quote(file))
	case len(found) > 1:
		return nil, fmt.Errorf("%w: there are %d models in the GGUF format, name one: %s", ErrUnusable, len(found),
			strings.Join(found[:min(len(found), maxNamed)], ", "))
	}
	dir, base := path.Split(found[0])
	parts, _ := gguf.Parts(base)
	for i := range parts {
		parts[i] = dir + parts[i]
		if !has[parts[i]] {
			return nil, fmt.Errorf("%w: %s is missing, a part of %s", ErrUnusable, quote(parts[i]), quote(found[0]))
		}
	}
	return parts, nil
}

// maxNamed bounds the files that an error lists.
const maxNamed = 40

// named reports whether a file is meant by its name, or by the end of its name without extension and part.
func named(name, file string) bool {
	for _, own := range []string{name, path.Base(name)} {
		if strings.EqualFold(own, file) || strings.EqualFold(own, file+gguf.Extension) {
			return true
		}
	}
	stem := strings.ToLower(ggufStem(path.Base(name)))
	end, ok := strings.CutSuffix(stem, strings.ToLower(file))
	return ok && end != "" && strings.ContainsAny(end[len(end)-1:], "-.")
}

// ggufStem is a file's name without extension and part.
func ggufStem(name string) string {
	if parts, _ := gguf.Parts(name); len(parts) > 1 {
		return name[:len(name)-len("-00001-of-00001.gguf")]
	}
	return strings.TrimSuffix(name, path.Ext(name))
}

func chooseWeights(names []string, has map[string]bool, graphs []ready.Variant,
	read func(string) ([]byte, error)) ([]string, error) {
	if has[safetensors.IndexFile] {
		data, err := read(safetensors.IndexFile)
		if err != nil {
			return nil, err
		}
		shards, err := shardsOf(data)
		if err != nil {
			return nil, err
		}
		for _, s := range shards {
			if !has[s] {
				return nil, fmt.Errorf("%w: %s names %s, which is missing", ErrUnusable, safetensors.IndexFile,
					quote(s))
			}
		}
		return append(shards, safetensors.IndexFile), nil
	}
	if has[safetensors.SingleFile] {
		return []string{safetensors.SingleFile}, nil
	}
	if len(graphs) > 0 {
		return graphFiles(names, has, graphs[0].File), nil
	}
	return nil, fmt.Errorf("%w: there are no weights: want %s, %s, a graph such as onnx/model.onnx or a file %s", ErrUnusable,
		safetensors.SingleFile, safetensors.IndexFile, "*"+gguf.Extension)
}

// askedGraph returns the graph that file names: by its path, its name or its weights.
func askedGraph(graphs []ready.Variant, file string) (string, bool) {
	if file == "" || len(graphs) == 0 {
		return "", false
	}
	for _, g := range graphs {
		if file == g.File || file == path.Base(g.File) {
			return g.File, true
		}
	}
	g, err := ready.Pick(graphs, file)
	return g.File, err == nil
}

// graphFiles are a graph, its weights and what describes it.
func graphFiles(names []string, has map[string]bool, graph string) []string {
	out := append([]string{graph}, ready.DataOf(names, graph)...)
	if path.Dir(graph) == "." && has[ready.GenaiFile] {
		out = append(out, ready.GenaiFile)
	}
	return out
}

// shardsOf returns the files that an index of weights names, sorted.
func shardsOf(index []byte) ([]string, error) {
	var x struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrUnusable, safetensors.IndexFile, err)
	}
	var out []string
	for _, s := range x.WeightMap {
		if err := CheckPath(s); err != nil {
			return nil, fmt.Errorf("%s: %w", safetensors.IndexFile, err)
		}
		if strings.Contains(s, "/") {
			return nil, fmt.Errorf("%s: %w %s: is in another folder", safetensors.IndexFile, ErrPath, quote(s))
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s names no shards", ErrUnusable, safetensors.IndexFile)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// mayBelong reports whether Choose might take a file, before the checkpoint's root is known.
func mayBelong(name string) bool {
	base := path.Base(name)
	if base[0] == '.' {
		return false
	}
	switch path.Ext(base) {
	case ".json", ".jinja", ".safetensors", ".onnx", gguf.Extension:
		return true
	}
	return strings.Contains(base, ".onnx_data") || strings.Contains(base, ".onnx.data")
}
