package token

import (
	"bytes"
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
	Model         json.RawMessage `json:"model"`
}

type addedFile struct {
	ID         *uint32 `json:"id"`
	Content    *string `json:"content"`
	SingleWord *bool   `json:"single_word"`
	LStrip     *bool   `json:"lstrip"`
	RStrip     *bool   `json:"rstrip"`
	Normalized *bool   `json:"normalized"`
	Special    *bool   `json:"special"`
}

// Load reads a tokenizer.json. Its errors wrap ErrFormat and name the unsupported key and
// value.
//
// Beside the reference's types it knows three by which other files are given in that form: the normalizer and the model
// SentencePiece, which do what that library does, and the model Tiktoken, byte-pair encoding by ranks. With these
// models added tokens have the ids that the file gives them.
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
		return nil, err
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
	if t.sides, err = loadPair(f.PostProcessor); err != nil {
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
	m, err := readModel(f.Model)
	if err != nil {
		return nil, err
	}
	if err := t.loadVocab(m, f.AddedTokens); err != nil {
		return nil, err
	}
	if t.model, err = m.build(t); err != nil {
		return nil, err
	}
	t.setLongest()
	t.findBarred()
	for _, part := range t.post.template {
		for _, id := range part.ids {
			if _, ok := t.Token(id); !ok {
				return nil, fmt.Errorf("post_processor: special token id %d is not in the vocabulary", id)
			}
		}
	}
	return t, nil
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
func (t *Tokenizer) loadVocab(m *modelFile, added []addedFile) error {
	t.ids = make(map[string]uint32, m.size()+len(added))
	t.special, t.decoderForms = make(map[string]bool), make(map[uint32]string)
	limit := uint32(2*(m.size()+len(added)) + 1<<16)
	for s, id := range m.vocab {
		if id >= limit {
			return fmt.Errorf("model.vocab: id %d of %q leaves too large a gap: %d tokens, ids below %d", id, s,
				len(m.vocab), limit)
		}
		if err := t.put("model.vocab", s, id); err != nil {
			return err
		}
	}
	for id, w := range m.list {
		if err := t.put("model.vocab", w.text, uint32(id)); err != nil {
			return err
		}
	}
	// As in the reference, an added token that the vocabulary lacks gets the
	// next id, whatever the file says.
	next := uint32(m.size())
	var order []*addedToken
	known := make(map[string]*addedToken)
	for i, a := range added {
		where := fmt.Sprintf("added_tokens[%d]", i)
		tok, err := a.token(where)
		if err != nil {
			return err
		}
		if tok.content == "" {
			continue
		}
		id, ok := t.ids[tok.content]
		switch {
		case m.owns && a.ID == nil:
			return fmt.Errorf("%s: key \"id\" is missing", where)
		case m.owns:
			ok = ok && id == *a.ID
			id = *a.ID
			if id >= limit {
				return fmt.Errorf("%s: id %d leaves too large a gap: ids below %d", where, id, limit)
			}
		case !ok:
			id = next
			next++
		}
		if !ok {
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
