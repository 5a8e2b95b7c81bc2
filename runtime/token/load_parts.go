package token

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Limits that keep the cost of a hostile file in proportion to its size.
const (
	// maxDepth is how deep Sequences may nest, maxParts how long one may be.
	maxDepth, maxParts = 8, 64
	// maxGrowth is how many times longer Replace normalizers together may
	// make a text; the usual one, of a space by ▁, makes it 3 times longer.
	maxGrowth = 1 << 12
)

// part is any component of the file: the union of the keys that the
// supported types have.
type part struct {
	Type string `json:"type"`

	Normalizers   []json.RawMessage `json:"normalizers"`
	Pretokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage `json:"processors"`
	Decoders      []json.RawMessage `json:"decoders"`

	AddPrefixSpace   *bool           `json:"add_prefix_space"`
	TrimOffsets      *bool           `json:"trim_offsets"`
	UseRegex         *bool           `json:"use_regex"`
	Pattern          *patternFile    `json:"pattern"`
	Behavior         *string         `json:"behavior"`
	Invert           *bool           `json:"invert"`
	IndividualDigits *bool           `json:"individual_digits"`
	Replacement      *string         `json:"replacement"`
	PrependScheme    *string         `json:"prepend_scheme"`
	Split            *bool           `json:"split"`
	Prepend          *string         `json:"prepend"`
	Content          *string         `json:"content"`
	StripLeft        *bool           `json:"strip_left"`
	StripRight       *bool           `json:"strip_right"`
	Start            *int            `json:"start"`
	Stop             *int            `json:"stop"`
	Single           []templateFile  `json:"single"`
	SpecialTokens    map[string]*ids `json:"special_tokens"`
	Sep              *tokenFile      `json:"sep"`
	Cls              *tokenFile      `json:"cls"`

	CleanText          *bool   `json:"clean_text"`
	HandleChineseChars *bool   `json:"handle_chinese_chars"`
	StripAccents       *bool   `json:"strip_accents"`
	Lowercase          *bool   `json:"lowercase"`
	Charsmap           *string `json:"precompiled_charsmap"`
	Delimiter          *string `json:"delimiter"`
	Length             *int    `json:"length"`
	Prefix             *string `json:"prefix"`
	Suffix             *string `json:"suffix"`
	Cleanup            *bool   `json:"cleanup"`
	PadToken           *string `json:"pad_token"`
	WordDelimiter      *string `json:"word_delimiter_token"`
}

// tokenFile is a token of BERT's post-processors: ["</s>", 2].
type tokenFile struct{ id uint32 }

func (t *tokenFile) UnmarshalJSON(b []byte) error {
	var text string
	pair := []any{&text, &t.id}
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("%s is not a token and its id", b)
	}
	return nil
}

type patternFile struct {
	String *string
	Regex  *string
}

type ids struct {
	IDs []uint32 `json:"ids"`
}

type templateFile struct {
	SpecialToken *struct {
		ID string `json:"id"`
	}
	Sequence *struct {
		ID string `json:"id"`
	}
}

// parsePart reads one component; where is its path in the file. It returns nil if the file
// has null.
func parsePart(b json.RawMessage, where string, depth int) (*part, error) {
	if isNull(b) {
		return nil, nil
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: nested more than %d deep", where, maxDepth)
	}
	p := &part{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return p, nil
}

// require returns the value of a mandatory key.
func require[T any](v *T, where, key string) (T, error) {
	if v == nil {
		var none T
		return none, fmt.Errorf("%s: key %q is missing", where, key)
	}
	return *v, nil
}

// eachInSequence calls load for each of a Sequence's components.
func eachInSequence(parts []json.RawMessage, where, key string, load func(b json.RawMessage,
	where string) error) error {
	if parts == nil {
		return fmt.Errorf("%s: key %q is missing", where, key)
	}
	if len(parts) > maxParts {
		return fmt.Errorf("%s.%s: %d entries, at most %d", where, key, len(parts), maxParts)
	}
	for i, b := range parts {
		if err := load(b, fmt.Sprintf("%s.%s[%d]", where, key, i)); err != nil {
			return err
		}
	}
	return nil
}

func unsupported(p *part, where string) error {
	return fmt.Errorf("%s.type: %q is not supported", where, p.Type)
}

// splitter returns what a "pattern" matches.
func (p *part) splitter(where string) (*splitter, error) {
	switch {
	case p.Pattern == nil:
		return nil, fmt.Errorf("%s: key %q is missing", where, "pattern")
	case p.Pattern.Regex != nil:
		s, err := newRegex(*p.Pattern.Regex)
		if err != nil {
			return nil, fmt.Errorf("%s.pattern.Regex: %w", where, err)
		}
		return s, nil
	case p.Pattern.String != nil:
		if *p.Pattern.String == "" {
			return nil, fmt.Errorf("%s.pattern.String: %q matches nothing", where, "")
		}
		return &splitter{literal: *p.Pattern.String}, nil
	}
	return nil, fmt.Errorf("%s.pattern: neither String nor Regex", where)
}

// checkGrowth refuses Replaces that could make a text too long.
func (ns normalizers) checkGrowth() error {
	growth := 1
	for _, n := range ns {
		times, name := 1, "Replace"
		switch n := n.(type) {
		case replace:
			// A regular expression may match between any two bytes.
			times = 1 + len(n.content)
			if n.on.literal != "" {
				times = max(1, (len(n.content)+len(n.on.literal)-1)/len(n.on.literal))
			}
		case *charsmap:
			times, name = max(1, n.longest), "Precompiled"
		case *sentencePiece:
			times, name = n.grows(), "SentencePiece"
		}
		if growth *= times; growth > maxGrowth {
			return fmt.Errorf("normalizer: %s could make a text more than %d times longer", name, maxGrowth)
		}
	}
	return nil
}

func loadNormalizers(b json.RawMessage, where string, depth int) (normalizers, error) {
	p, err := parsePart(b, where, depth)
	if p == nil || err != nil {
		return nil, err
	}
	one := func(n normalizer, err error) (normalizers, error) { return normalizers{n}, err }
	if f, ok := forms[p.Type]; ok {
		return one(f, nil)
	}
	switch p.Type {
	case "Sequence":
		var all normalizers
		err := eachInSequence(p.Normalizers, where, "normalizers", func(b json.RawMessage, where string) error {
			ns, err := loadNormalizers(b, where, depth+1)
			all = append(all, ns...)
			return err
		})
		return all, err
	case "Lowercase":
		return one(lowercase{}, nil)
	case "ByteLevel":
		return one(byteLevelNormalizer{}, nil)
	case "BertNormalizer":
		n, err := p.bert(where)
		return one(n, err)
	case "StripAccents":
		return one(stripAccents{}, nil)
	case "Nmt":
		return one(nmt{}, nil)
	case "Precompiled":
		m, err := p.charsmap(where)
		return one(m, err)
	case "SentencePiece":
		n, err := p.sentencePiece(b, where)
		return one(n, err)
	case "Strip":
		left, err := require(p.StripLeft, where, "strip_left")
		if err != nil {
			return nil, err
		}
		right, err := require(p.StripRight, where, "strip_right")
		return one(strip{left, right}, err)
	case "Prepend":
		s, err := require(p.Prepend, where, "prepend")
		return one(prepend(s), err)
	case "Replace":
		on, err := p.splitter(where)
		if err != nil {
			return nil, err
		}
		content, err := require(p.Content, where, "content")
		return one(replace{on, content}, err)
	}
	return nil, unsupported(p, where)
}

// bert reads a BertNormalizer.
func (p *part) bert(where string) (n bertNormalizer, err error) {
	for _, f := range []struct {
		to  *bool
		v   *bool
		key string
	}{{&n.clean, p.CleanText, "clean_text"}, {&n.chinese, p.HandleChineseChars, "handle_chinese_chars"},
		{&n.lower, p.Lowercase, "lowercase"}} {
		if *f.to, err = require(f.v, where, f.key); err != nil {
			return n, err
		}
	}
	n.accents = n.lower
	if p.StripAccents != nil {
		n.accents = *p.StripAccents
	}
	return n, nil
}

// charsmap reads a Precompiled.
func (p *part) charsmap(where string) (*charsmap, error) {
	code, err := require(p.Charsmap, where, "precompiled_charsmap")
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(code)
	if err != nil {
		return nil, fmt.Errorf("%s.precompiled_charsmap: %w", where, err)
	}
	m, err := newCharsmap(b)
	if err != nil {
		return nil, fmt.Errorf("%s.precompiled_charsmap: %w", where, err)
	}
	return m, nil
}

// sentencePiece reads a SentencePiece, all of whose keys may be missing.
func (p *part) sentencePiece(b json.RawMessage, where string) (*sentencePiece, error) {
	var f struct {
		Prefix  bool     `json:"add_dummy_prefix"`
		Once    bool     `json:"first_only"`
		Trims   bool     `json:"remove_extra_whitespaces"`
		Escapes bool     `json:"escape_whitespaces"`
		Suffix  bool     `json:"treat_whitespace_as_suffix"`
		User    []string `json:"user_defined_symbols"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	n := &sentencePiece{prefix: f.Prefix, once: f.Once, trims: f.Trims, suffix: f.Suffix, space: " "}
	if f.Escapes {
		n.space = mark
	}
	if len(f.User) > 0 {
		words := make([]treeWord, len(f.User))
		for i, s := range f.User {
			words[i] = treeWord{s, uint32(i)}
		}
		if err := checkLengths(words); err != nil {
			return nil, fmt.Errorf("%s.user_defined_symbols: %w", where, err)
		}
		n.user = newPrefixTree(words)
	}
	var err error
	if p.Charsmap != nil {
		n.rules, err = p.charsmap(where)
	}
	return n, err
}

func loadPre(b json.RawMessage, where string, depth int) ([]pretoken, error) {
	p, err := parsePart(b, where, depth)
	if p == nil || err != nil {
		return nil, err
	}
	one := func(n pretoken, err error) ([]pretoken, error) { return []pretoken{n}, err }
	switch p.Type {
	case "Sequence":
		var all []pretoken
		err := eachInSequence(p.Pretokenizers, where, "pretokenizers", func(b json.RawMessage, where string) error {
			ps, err := loadPre(b, where, depth+1)
			all = append(all, ps...)
			return err
		})
		return all, err
	case "ByteLevel":
		prefix, err := require(p.AddPrefixSpace, where, "add_prefix_space")
		return one(&byteLevel{addPrefixSpace: prefix, useRegex: p.UseRegex == nil || *p.UseRegex}, err)
	case "Digits":
		single, err := require(p.IndividualDigits, where, "individual_digits")
		how := contiguous
		if single {
			how = isolated
		}
		return one(&split{on: digits, how: how}, err)
	case "Metaspace":
		m, err := p.metaspace(where)
		return one(m, err)
	case "Punctuation":
		how := isolated
		if p.Behavior != nil {
			var ok bool
			if how, ok = behaviors[*p.Behavior]; !ok {
				return nil, fmt.Errorf("%s.behavior: %q is not supported", where, *p.Behavior)
			}
		}
		return one(&split{on: punctuations, how: how}, nil)
	case "Split":
		s, err := p.split(where)
		return one(s, err)
	case "BertPreTokenizer":
		return []pretoken{&split{on: whiteSpace, how: removed}, &split{on: punctuations, how: isolated}}, nil
	case "CharDelimiterSplit":
		char, err := require(p.Delimiter, where, "delimiter")
		if err == nil && utf8.RuneCountInString(char) != 1 {
			err = fmt.Errorf("%s.delimiter: %.64q is not one character", where, char)
		}
		return one(&split{on: &splitter{literal: char}, how: removed}, err)
	case "FixedLength":
		length := 5
		if p.Length != nil {
			length = *p.Length
		}
		if length < 1 {
			return nil, fmt.Errorf("%s.length: %d is not positive", where, length)
		}
		return one(fixedLength{length}, nil)
	case "UnicodeScripts":
		return one(scriptSplit{}, nil)
	case "Whitespace":
		return []pretoken{&split{on: whiteSpace, how: removed}, &split{on: notWords, how: contiguous}}, nil
	case "WhitespaceSplit":
		return one(&split{on: whiteSpace, how: removed}, nil)
	}
	return nil, unsupported(p, where)
}

func (p *part) split(where string) (*split, error) {
	on, err := p.splitter(where)
	if err != nil {
		return nil, err
	}
	name, err := require(p.Behavior, where, "behavior")
	if err != nil {
		return nil, err
	}
	how, ok := behaviors[name]
	if !ok {
		return nil, fmt.Errorf("%s.behavior: %q is not supported", where, name)
	}
	invert, err := require(p.Invert, where, "invert")
	return &split{on: on, how: how, invert: invert}, err
}

// metaspace reads a Metaspace; old files have add_prefix_space instead of prepend_scheme.
func (p *part) metaspace(where string) (*metaspace, error) {
	char, err := require(p.Replacement, where, "replacement")
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(char) != 1 {
		return nil, fmt.Errorf("%s.replacement: %q is not one character", where, char)
	}
	m := &metaspace{replacement: char, split: p.Split == nil || *p.Split}
	if p.PrependScheme != nil {
		s, ok := schemes[*p.PrependScheme]
		if !ok {
			return nil, fmt.Errorf("%s.prepend_scheme: %q is not supported", where, *p.PrependScheme)
		}
		m.prepend = s
	}
	if p.AddPrefixSpace != nil && !*p.AddPrefixSpace {
		if m.prepend != never {
			return nil, fmt.Errorf("%s: add_prefix_space false contradicts prepend_scheme", where)
		}
	}
	return m, nil
}

func loadPost(to *post, b json.RawMessage, where string, depth int) error {
	p, err := parsePart(b, where, depth)
	if p == nil || err != nil {
		return err
	}
	switch p.Type {
	case "Sequence":
		return eachInSequence(p.Processors, where, "processors", func(b json.RawMessage, where string) error {
			return loadPost(to, b, where, depth+1)
		})
	case "ByteLevel":
		prefix, err := require(p.AddPrefixSpace, where, "add_prefix_space")
		if err != nil {
			return err
		}
		trim, err := require(p.TrimOffsets, where, "trim_offsets")
		if trim {
			to.trims = append(to.trims, prefix)
		}
		return err
	case "TemplateProcessing":
		if to.template != nil {
			return fmt.Errorf("%s: a second TemplateProcessing is not supported", where)
		}
		return to.loadTemplate(p, where)
	case "BertProcessing":
		return to.loadBert(p, where)
	case "RobertaProcessing":
		prefix, err := require(p.AddPrefixSpace, where, "add_prefix_space")
		if err != nil {
			return err
		}
		trim, err := require(p.TrimOffsets, where, "trim_offsets")
		if err != nil {
			return err
		}
		if trim {
			to.trims = append(to.trims, prefix)
		}
		return to.loadBert(p, where)
	}
	return unsupported(p, where)
}

// loadBert puts a token before the text and one behind it.
func (to *post) loadBert(p *part, where string) error {
	if to.template != nil {
		return fmt.Errorf("%s: a second template is not supported", where)
	}
	cls, err := require(p.Cls, where, "cls")
	if err != nil {
		return err
	}
	sep, err := require(p.Sep, where, "sep")
	to.template = []templatePart{{ids: []uint32{cls.id}}, {sequence: true}, {ids: []uint32{sep.id}}}
	return err
}

func (to *post) loadTemplate(p *part, where string) error {
	if p.Single == nil {
		return fmt.Errorf("%s: key %q is missing", where, "single")
	}
	to.template = []templatePart{}
	for i, t := range p.Single {
		at := fmt.Sprintf("%s.single[%d]", where, i)
		switch {
		case t.Sequence != nil && t.Sequence.ID == "A":
			to.template = append(to.template, templatePart{sequence: true})
		case t.Sequence != nil:
			return fmt.Errorf("%s.Sequence.id: %q is not \"A\"", at, t.Sequence.ID)
		case t.SpecialToken != nil:
			s := p.SpecialTokens[t.SpecialToken.ID]
			if s == nil {
				return fmt.Errorf("%s.SpecialToken.id: %q is not in special_tokens", at, t.SpecialToken.ID)
			}
			to.template = append(to.template, templatePart{ids: s.IDs})
		default:
			return fmt.Errorf("%s: neither SpecialToken nor Sequence", at)
		}
	}
	return nil
}

func loadDecoders(b json.RawMessage, where string, depth int) ([]decoder, error) {
	p, err := parsePart(b, where, depth)
	if p == nil || err != nil {
		return nil, err
	}
	one := func(d decoder, err error) ([]decoder, error) { return []decoder{d}, err }
	switch p.Type {
	case "Sequence":
		var all []decoder
		err := eachInSequence(p.Decoders, where, "decoders", func(b json.RawMessage, where string) error {
			ds, err := loadDecoders(b, where, depth+1)
			all = append(all, ds...)
			return err
		})
		return all, err
	case "ByteLevel":
		return one(byteDecoder{}, nil)
	case "ByteFallback":
		return one(fallbackDecoder{}, nil)
	case "Fuse":
		return one(fuseDecoder{}, nil)
	case "Metaspace":
		m, err := p.metaspace(where)
		if err != nil {
			return nil, err
		}
		return one(metaspaceDecoder{m.replacement, m.prepend == never}, nil)
	case "Replace":
		if p.Pattern == nil || p.Pattern.String == nil || *p.Pattern.String == "" {
			return nil, fmt.Errorf("%s.pattern: only a String that is not empty is supported here", where)
		}
		content, err := require(p.Content, where, "content")
		return one(replaceDecoder{*p.Pattern.String, content}, err)
	case "Strip":
		d, err := p.stripDecoder(where)
		return one(d, err)
	case "WordPiece":
		prefix, err := require(p.Prefix, where, "prefix")
		if err != nil {
			return nil, err
		}
		clean, err := require(p.Cleanup, where, "cleanup")
		return one(wordPieceDecoder{prefix, clean}, err)
	case "BPEDecoder":
		suffix, err := require(p.Suffix, where, "suffix")
		if err == nil && suffix == "" {
			err = fmt.Errorf("%s.suffix: an empty one is not supported", where)
		}
		return one(suffixDecoder{suffix}, err)
	case "CTC":
		d, err := p.ctcDecoder(where)
		return one(d, err)
	}
	return nil, unsupported(p, where)
}

func (p *part) ctcDecoder(where string) (d ctcDecoder, err error) {
	if d.pad, err = require(p.PadToken, where, "pad_token"); err != nil {
		return d, err
	}
	if d.delimiter, err = require(p.WordDelimiter, where, "word_delimiter_token"); err != nil {
		return d, err
	}
	if d.pad == "" || d.delimiter == "" {
		return d, fmt.Errorf("%s: an empty pad_token or word_delimiter_token is not supported", where)
	}
	d.cleanup, err = require(p.Cleanup, where, "cleanup")
	return d, err
}

func (p *part) stripDecoder(where string) (stripDecoder, error) {
	var d stripDecoder
	content, err := require(p.Content, where, "content")
	if err != nil {
		return d, err
	}
	if utf8.RuneCountInString(content) != 1 {
		return d, fmt.Errorf("%s.content: %q is not one character", where, content)
	}
	if d.start, err = require(p.Start, where, "start"); err != nil {
		return d, err
	}
	if d.stop, err = require(p.Stop, where, "stop"); err != nil {
		return d, err
	}
	for _, n := range []int{d.start, d.stop} {
		if n < 0 || n > 1<<10 {
			return d, fmt.Errorf("%s: start and stop must be 0 to %d, not %d", where, 1<<10, n)
		}
	}
	d.content, _ = utf8.DecodeRuneInString(content)
	return d, nil
}

// checkDecoders refuses ByteLevel and ByteFallback after a decoder that joins tokens: they
// would need the whole text at once. Decoders that look at whole tokens come first.
func checkDecoders(ds []decoder) error {
	joined := false
	for i, d := range ds {
		switch d.(type) {
		case wordPieceDecoder, suffixDecoder, ctcDecoder:
			if i > 0 {
				return fmt.Errorf("decoder: WordPiece, BPEDecoder or CTC as number %d is not the first, which is not supported", i)
			}
		case byteDecoder:
			if joined {
				return fmt.Errorf("decoder: ByteLevel as number %d comes after the tokens were joined, which is not supported", i)
			}
			joined = true
		case fuseDecoder:
			joined = true
		case fallbackDecoder:
			if joined {
				return fmt.Errorf("decoder: ByteFallback as number %d comes after the tokens were joined, which is not supported", i)
			}
		}
	}
	return nil
}
