// Command ours times this repository's grammars on the cases of the comparison in the folder above: schemas go through
// the built-in plugin as a request's do, sandbox included, and masks are those of the sequences that requests get.
//
//	ours [-alone] [-cache DIR] [-from N] TOKENIZER CASES > RESULTS
//
// Each result is a line of JSON, as peers.py writes them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"tgi/plugins"
	"tgi/plugins/std"
)

// one is a case: a schema, and texts as tokens that are valid.
type one struct {
	Name, Schema string
	Tokens       [][]uint32
}

// result is what became of a case. Times are in nanoseconds.
type result struct {
	Case    int      `json:"case"`
	Compile int64    `json:"compile"`
	Refused string   `json:"refused,omitempty"`
	Texts   []walked `json:"texts"`
}

// walked is a text that was followed, twice.
type walked struct {
	Admitted bool    `json:"admitted"`
	First    []int64 `json:"first"`
	Again    []int64 `json:"again"`
	Accept   []int64 `json:"accept"` // the first time
}

func main() {
	alone := flag.Bool("alone", false, "begin each case with a set of plugins that has served no other")
	cache := flag.String("cache", "", "folder for compiled modules")
	from := flag.Int("from", 0, "first case")
	flag.Parse()
	if err := run(flag.Arg(0), flag.Arg(1), *cache, *alone, *from); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(tokenizer, path, cache string, alone bool, from int) error {
	v, err := readVocabulary(tokenizer)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var cases struct {
		End        uint32
		Whitespace string
		Cases      []one
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		return err
	}
	if int(cases.End) < len(v) {
		v[cases.End].end = true
	}
	params := fmt.Appendf(nil, `{"whitespace":%q,"draft":"2020-12"}`, cases.Whitespace)
	out := bufio.NewWriter(os.Stdout)
	var set *plugins.Set
	for i, c := range cases.Cases {
		if i < from {
			continue
		}
		if set == nil || alone {
			if set != nil {
				set.Close()
			}
			if set, err = open(v, cache, params); err != nil {
				return err
			}
			runtime.GC()
		}
		line, err := json.Marshal(follow(set, c, i, (len(v)+31)/32, cases.End, params))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if set != nil {
		set.Close()
	}
	return nil
}

// open loads the plugin and compiles a schema that is none of the cases, so that everything is there that a server has
// made before its first request.
func open(v vocabulary, cache string, params []byte) (*plugins.Set, error) {
	set, err := plugins.Open(context.Background(), plugins.Options{
		Specs: []plugins.Spec{{Name: "grammar", Source: "builtin:grammar"}}, Builtin: std.FS(), Vocabulary: v,
		CacheDir: cache,
	})
	if err != nil {
		return nil, err
	}
	set.Prepared()
	g, err := compile(set, `{"type":"null"}`, params)
	if err != nil {
		set.Close()
		return nil, err
	}
	g.Close()
	return set, nil
}

func compile(set *plugins.Set, schema string, params []byte) (*plugins.Grammar, error) {
	return set.Compile(context.Background(), plugins.GrammarCall{
		Plugin: "grammar", Language: "json_schema", Source: []byte(schema), Params: params})
}

// follow times a case.
func follow(set *plugins.Set, c one, number, words int, end uint32, params []byte) result {
	out := result{Case: number}
	start := time.Now()
	g, err := compile(set, c.Schema, params)
	out.Compile = time.Since(start).Nanoseconds()
	if err != nil {
		out.Refused = err.Error()
		return out
	}
	defer g.Close()
	for _, tokens := range c.Tokens {
		var w walked
		tokens = append(slices.Clip(tokens), end)
		w.First, w.Accept, w.Admitted = walk(g, tokens, words)
		w.Again, _, _ = walk(g, tokens, words)
		out.Texts = append(out.Texts, w)
	}
	return out
}

// walk follows a text to its end or to the first token that may not come, with a mask before each token.
func walk(g *plugins.Grammar, tokens []uint32, words int) (masks, accepts []int64, admitted bool) {
	s, err := g.Sequence(context.Background(), 1)
	if err != nil {
		return nil, nil, false
	}
	defer s.Close()
	bits := make([]uint32, words)
	for _, token := range tokens {
		start := time.Now()
		_, err := s.Mask(bits)
		masks = append(masks, time.Since(start).Nanoseconds())
		if err != nil || bits[token/32]>>(token%32)&1 == 0 {
			return masks, accepts, false
		}
		start = time.Now()
		err = s.Accept(token)
		accepts = append(accepts, time.Since(start).Nanoseconds())
		if err != nil {
			return masks, accepts, false
		}
	}
	return masks, accepts, true
}
