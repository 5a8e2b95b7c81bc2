package token

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// file is a tokenizer.json.
type file struct {
	Version       string          `json:"version"`
	AddedTokens   []addedFile     `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         modelFile       `json:"model"`
}

type addedFile struct {
	Content    *string `json:"content"`
	SingleWord *bool   `json:"single_word"`
	LStrip     *bool   `json:"lstrip"`
	RStrip     *bool   `json:"rstrip"`
	Normalized *bool   `json:"normalized"`
	Special    *bool   `json:"special"`
}

type modelFile struct {
	Type                    *string           `json:"type"`
	Dropout                 *float64          `json:"dropout"`
	UnkToken                *string           `json:"unk_token"`
	ContinuingSubwordPrefix string            `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string            `json:"end_of_word_suffix"`
	FuseUnk                 bool              `json:"fuse_unk"`
	ByteFallback            bool              `json:"byte_fallback"`
	IgnoreMerges            bool              `json:"ignore_merges"`
	Vocab                   map[string]uint32 `json:"vocab"`
	Merges                  []mergeFile       `json:"merges"`
}

// mergeFile is a merge: "a b" or ["a", "b"].
type mergeFile struct {
	pair    [2]string
	comment bool // a "#version" line of old files
}

func (m *mergeFile) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var pair []string
		if err := json.Unmarshal(b, &pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("model.merges: %s is not a pair", b)
		}
		m.pair = [2]string(pair)
		return nil
	}
	var line string
	if err := json.Unmarshal(b, &line); err != nil {
		return err
	}
	if strings.HasPrefix(line, "#version") {
		m.comment = true
		return nil
	}
	left, right, ok := strings.Cut(line, " ")
	if !ok || strings.Contains(right, " ") {
		return fmt.Errorf("model.merges: %q is not two tokens and a space", line)
	}
	m.pair = [2]string{left, right}
	return nil
}

// Load reads a tokenizer.json. Its errors wrap ErrFormat and name the unsupported key and
// value.
func Load(tokenizerJSON []byte) (*Tokenizer, error) {
	t, err := load(tokenizerJSON)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, nil
}

func load(b []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, cmp.Or(otherModelType(b), err)
	}
	if f.Version != "" && f.Version != "1.0" {
		return nil, fmt.Errorf("version: %q is not \"1.0\"", f.Version)
	}
	t := &Tokenizer{}
	var err error
	if t.normalizer, err = loadNormalizers(f.Normalizer, "normalizer", 0); err != nil {
		return nil, err
	}
	if err := t.normalizer.checkGrowth(); err != nil {
		return nil, err
	}
	if t.pre, err = loadPre(f.PreTokenizer, "pre_tokenizer", 0); err != nil {
		return nil, err
	}
	if err := loadPost(&t.post, f.PostProcessor, "post_processor", 0); err != nil {
		return nil, err
	}
	if t.decoders, err = loadDecoders(f.Decoder, "decoder", 0); err != nil {
		return nil, err
	}
	if err := checkDecoders(t.decoders); err != nil {
		return nil, err
	}
	if len(t.decoders) == 0 && isNull(f.Decoder) {
		t.decoders = []decoder{joinDecoder{}}
	}
	if err := t.loadVocab(&f); err != nil {
		return nil, err
	}
	if t.model, err = loadModel(&f.Model, t.useRawBytes(f.Model.Vocab)); err != nil {
		return nil, err
	}
	t.setLongest()
	t.model.findBarred(slices.Concat(t.rawFinder.tokens, t.normalizedFinder.tokens))
	for _, part := range t.post.template {
		for _, id := range part.ids {
			if _, ok := t.Token(id); !ok {
				return nil, fmt.Errorf("post_processor: special token id %d is not in the vocabulary", id)
			}
		}
	}
	return t, nil
}

// otherModelType returns the error of an unsupported model type in a file that does not
// decode, nil for BPE: other types have vocabularies of another form.
func otherModelType(b []byte) error {
	var f struct {
		Model struct {
			Type  *string         `json:"type"`
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	err := json.Unmarshal(b, &f)
	switch kind := f.Model.Type; {
	case err != nil:
		return nil
	case kind != nil && *kind != "BPE":
		return unsupportedModel(*kind)
	case kind == nil && len(f.Model.Vocab) > 0 && f.Model.Vocab[0] == '[': // old files leave the type to the reader
		return unsupportedModel("Unigram")
	}
	return nil
}

func unsupportedModel(kind string) error {
	return fmt.Errorf("model.type: %.64q is not supported, only \"BPE\"", kind)
}

// useRawBytes reports whether the model can read raw bytes, which is faster: the last
// pre-tokenizer is ByteLevel and each byte has a token. If so it sets that pre-tokenizer to
// raw.
func (t *Tokenizer) useRawBytes(vocab map[string]uint32) bool {
	if len(t.pre) == 0 {
		return false
	}
	last, ok := t.pre[len(t.pre)-1].(*byteLevel)
	if !ok {
		return false
	}
	for _, r := range byteRunes {
		if _, ok := vocab[string(r)]; !ok {
			return false
		}
	}
	last.raw = true
	return true
}

// loadVocab fills the tables of tokens and finds of added tokens.
func (t *Tokenizer) loadVocab(f *file) error {
	vocab := f.Model.Vocab
	t.ids = make(map[string]uint32, len(vocab)+len(f.AddedTokens))
	t.special, t.decoderForms = make(map[string]bool), make(map[uint32]string)
	limit := uint32(2*(len(vocab)+len(f.AddedTokens)) + 1<<16)
	for s, id := range vocab {
		if id >= limit {
			return fmt.Errorf("model.vocab: id %d of %q leaves too large a gap: %d tokens, ids below %d", id, s,
				len(vocab), limit)
		}
		if err := t.put("model.vocab", s, id); err != nil {
			return err
		}
	}
	// As in the reference, an added token that the vocabulary lacks gets the
	// next id, whatever the file says.
	next := uint32(len(vocab))
	var order []*addedToken
	known := make(map[string]*addedToken)
	for i, a := range f.AddedTokens {
		where := fmt.Sprintf("added_tokens[%d]", i)
		tok, err := a.token(where)
		if err != nil {
			return err
		}
		if tok.content == "" {
			continue
		}
		id, ok := t.ids[tok.content]
		if !ok {
			id = next
			next++
			if err := t.put(where, tok.content, id); err != nil {
				return err
			}
		}
		tok.id = id
		if tok.special {
			t.special[tok.content] = true
		}
		if old := known[tok.content]; old != nil {
			*old = *tok // the last of several entries wins
			continue
		}
		known[tok.content] = tok
		order = append(order, tok)
	}
	return t.findAdded(order)
}

// put assigns an id to a token; where is its path in the file, for errors.
func (t *Tokenizer) put(where, token string, id uint32) error {
	for uint32(len(t.tokens)) <= id {
		t.tokens, t.known = append(t.tokens, ""), append(t.known, false)
	}
	if t.known[id] {
		return fmt.Errorf("%s: id %d has two tokens: %q and %q", where, id, t.tokens[id], token)
	}
	t.tokens[id], t.known[id], t.ids[token] = token, true, id
	return nil
}

// token validates an entry of added_tokens; where is its path in the file, for errors.
func (a *addedFile) token(where string) (*addedToken, error) {
	missing := ""
	for _, m := range []struct {
		key    string
		absent bool
	}{
		{"content", a.Content == nil}, {"single_word", a.SingleWord == nil}, {"lstrip", a.LStrip == nil},
		{"rstrip", a.RStrip == nil}, {"normalized", a.Normalized == nil}, {"special", a.Special == nil},
	} {
		if m.absent {
			missing = m.key
			break
		}
	}
	if missing != "" {
		return nil, fmt.Errorf("%s: key %q is missing", where, missing)
	}
	return &addedToken{
		content: *a.Content, singleWord: *a.SingleWord, lstrip: *a.LStrip, rstrip: *a.RStrip,
		normalized: *a.Normalized, special: *a.Special, withheld: withheld(*a.Content, *a.Special),
	}, nil
}

// findAdded builds the finders of added tokens.
func (t *Tokenizer) findAdded(tokens []*addedToken) error {
	for _, tok := range tokens {
		in, pattern := &t.rawFinder, tok.content
		if tok.normalized {
			in = &t.normalizedFinder
			pattern = t.normalizer.normalize(original(tok.content)).s
			if pattern != tok.content {
				t.decoderForms[tok.id] = pattern
				if strings.HasSuffix(pattern, tok.content) {
					tok.lead = len(pattern) - len(tok.content)
				}
			}
		}
		if err := in.add(pattern, tok); err != nil {
			return fmt.Errorf("added_tokens: %w", err)
		}
	}
	return nil
}

// loadModel builds the BPE model; raw says that it reads bytes.
func loadModel(f *modelFile, raw bool) (*bpe, error) {
	switch {
	case f.Type != nil && *f.Type != "BPE":
		return nil, unsupportedModel(*f.Type)
	case f.Vocab == nil:
		return nil, fmt.Errorf("model.vocab is missing")
	case f.Merges == nil:
		return nil, fmt.Errorf("model.merges is missing")
	case f.Dropout != nil && *f.Dropout != 0:
		return nil, fmt.Errorf("model.dropout: %v is not supported, only null and 0", *f.Dropout)
	case f.ContinuingSubwordPrefix != "":
		return nil, fmt.Errorf("model.continuing_subword_prefix: %q is not supported", f.ContinuingSubwordPrefix)
	case f.EndOfWordSuffix != "":
		return nil, fmt.Errorf("model.end_of_word_suffix: %q is not supported", f.EndOfWordSuffix)
	}
	m := &bpe{
		vocab: f.Vocab, raw: raw, ignoreMerges: f.IgnoreMerges, fuseUnk: f.FuseUnk,
		merges: newPairTable(len(f.Merges)), cache: newWordCache(),
	}
	if f.UnkToken != nil && !raw { // where each byte is a token nothing is unknown
		if m.unk, m.hasUnk = f.Vocab[*f.UnkToken]; !m.hasUnk {
			return nil, fmt.Errorf("model.unk_token: %q is not in the vocabulary", *f.UnkToken)
		}
	}
	if f.ByteFallback {
		m.fallback = make([]int64, 256)
		for b := range m.fallback {
			m.fallback[b] = -1
			if id, ok := f.Vocab[fmt.Sprintf("<0x%02X>", b)]; ok {
				m.fallback[b] = int64(id)
			}
		}
	}
	var merged []string
	for i, merge := range f.Merges {
		if merge.comment {
			continue
		}
		left, okLeft := f.Vocab[merge.pair[0]]
		right, okRight := f.Vocab[merge.pair[1]]
		joined := merge.pair[0] + merge.pair[1]
		made, okMade := f.Vocab[joined]
		if !okLeft || !okRight || !okMade {
			return nil, fmt.Errorf("model.merges[%d]: %q and %q or what they make is not in the vocabulary", i,
				merge.pair[0], merge.pair[1])
		}
		m.merges.put(left, right, uint32(len(m.results)))
		m.results, merged = append(m.results, made), append(merged, joined)
	}
	m.detectMark(merged)
	if raw {
		m.toBytes()
	}
	return m, nil
}

// toBytes converts the vocabulary to raw bytes. Tokens outside the byte alphabet can never
// match and are dropped.
func (m *bpe) toBytes() {
	vocab := make(map[string]uint32, len(m.vocab))
	for s, id := range m.vocab {
		if b, ok := fromByteAlphabet(s); ok {
			vocab[b] = id
		}
	}
	m.vocab = vocab
	for b := range m.bytes {
		m.bytes[b] = vocab[string([]byte{byte(b)})]
	}
}

func isNull(b json.RawMessage) bool {
	return len(b) == 0 || slices.Equal(bytes.TrimSpace(b), []byte("null"))
}
