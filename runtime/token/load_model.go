package token

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxTokenBytes bounds the tokens of models that look for them at each place of a text; the longest of public models
// have some hundreds of bytes.
const maxTokenBytes = 1 << 10

// modelFile is the file's model: the union of the keys that the supported types have.
type modelFile struct {
	Type                    *string         `json:"type"`
	Dropout                 *float64        `json:"dropout"`
	UnkToken                *string         `json:"unk_token"`
	UnkID                   *uint32         `json:"unk_id"`
	ContinuingSubwordPrefix *string         `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string         `json:"end_of_word_suffix"`
	MaxInputChars           *int            `json:"max_input_chars_per_word"`
	FuseUnk                 bool            `json:"fuse_unk"`
	ByteFallback            bool            `json:"byte_fallback"`
	IgnoreMerges            bool            `json:"ignore_merges"`
	Vocab                   json.RawMessage `json:"vocab"`
	Merges                  []mergeFile     `json:"merges"`

	// vocab is that of all types but Unigram, which has a list with scores.
	vocab  map[string]uint32
	list   []treeWord
	scores []float64
	kinds  []int
	// owns says that added tokens have the ids of the file, whatever the vocabulary says.
	owns bool
}

// Types of models. The last two are not the reference's: see Load.
var modelTypes = []string{"BPE", "Unigram", "WordLevel", "WordPiece", "SentencePiece", "Tiktoken"}

// readModel reads the model and its vocabulary.
func readModel(b json.RawMessage) (*modelFile, error) {
	if isNull(b) {
		return nil, fmt.Errorf("model is missing")
	}
	f := &modelFile{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	f.owns = f.Type != nil && (*f.Type == "SentencePiece" || *f.Type == "Tiktoken")
	if f.Type == nil {
		kind := f.untyped()
		f.Type = &kind
	}
	if isNull(f.Vocab) {
		return nil, fmt.Errorf("model.vocab is missing")
	}
	if !slices.Contains(modelTypes, *f.Type) {
		return nil, fmt.Errorf("model.type: %.64q is not supported, only \"BPE\", \"Unigram\", \"WordLevel\" and \"WordPiece\"",
			*f.Type)
	}
	var err error
	if *f.Type == "Unigram" || *f.Type == "SentencePiece" {
		err = f.readList()
	} else {
		err = json.Unmarshal(f.Vocab, &f.vocab)
	}
	if err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	f.Vocab = nil
	return f, nil
}

// untyped returns the type of a model of an old file, which does not name it, by its keys.
func (f *modelFile) untyped() string {
	switch {
	case len(f.Vocab) > 0 && f.Vocab[0] == '[':
		return "Unigram"
	case f.MaxInputChars != nil && f.ContinuingSubwordPrefix != nil:
		return "WordPiece"
	case f.Merges == nil && f.UnkToken != nil:
		return "WordLevel"
	}
	return "BPE"
}

// scoredToken is an entry of Unigram's vocabulary: a token and its score; SentencePiece's has its kind too.
type scoredToken struct {
	text  string
	score float64
	kind  int
}

func (s *scoredToken) UnmarshalJSON(b []byte) error {
	var text *string
	var score *float64
	s.kind = pieceNormal
	entry := []any{&text, &score, &s.kind}
	if err := json.Unmarshal(b, &entry); err != nil || len(entry) > 3 || text == nil || score == nil {
		return fmt.Errorf("%.64s is not a token and its score", b)
	}
	s.text, s.score = *text, *score
	return nil
}

func (f *modelFile) readList() error {
	var list []scoredToken
	if err := json.Unmarshal(f.Vocab, &list); err != nil {
		return err
	}
	f.list, f.scores, f.kinds = make([]treeWord, len(list)), make([]float64, len(list)), make([]int, len(list))
	for i, s := range list {
		f.list[i], f.scores[i], f.kinds[i] = treeWord{s.text, uint32(i)}, s.score, s.kind
	}
	return nil
}

// size is how many tokens the vocabulary has.
func (f *modelFile) size() int { return len(f.vocab) + len(f.list) }

// build builds the model of a tokenizer whose pre-tokenizers are loaded.
func (f *modelFile) build(t *Tokenizer) (model, error) {
	switch *f.Type {
	case "Unigram", "SentencePiece":
		return f.unigram()
	case "Tiktoken":
		return f.tiktoken(t)
	case "WordPiece":
		return f.wordPiece()
	case "WordLevel":
		unk, err := f.unknown("<unk>")
		return &wordLevel{vocab: f.vocab, unk: unk}, err
	}
	return f.bpe(t)
}

// unknown returns the id of the unknown token, which has a name if the file has none.
func (f *modelFile) unknown(name string) (uint32, error) {
	if f.UnkToken != nil {
		name = *f.UnkToken
	}
	id, ok := f.vocab[name]
	if !ok {
		return 0, fmt.Errorf("model.unk_token: %.64q is not in the vocabulary", name)
	}
	return id, nil
}

func (f *modelFile) unigram() (*unigram, error) {
	if f.UnkID == nil { // the reference fails then, at the first text with an unknown character
		return nil, fmt.Errorf("model.unk_id is missing")
	}
	if int64(*f.UnkID) >= int64(len(f.list)) {
		return nil, fmt.Errorf("model.unk_id: %d is not below %d, the size of the vocabulary", *f.UnkID, len(f.list))
	}
	if err := checkLengths(f.list); err != nil {
		return nil, err
	}
	if *f.Type == "SentencePiece" {
		return newPieces(f.list, f.scores, f.kinds, *f.UnkID, f.ByteFallback), nil
	}
	return newUnigram(f.list, f.scores, *f.UnkID, f.ByteFallback), nil
}

// words lists a vocabulary.
func (f *modelFile) words() []treeWord {
	words := make([]treeWord, 0, len(f.vocab))
	for s, id := range f.vocab {
		words = append(words, treeWord{s, id})
	}
	return words
}

func (f *modelFile) tiktoken(t *Tokenizer) (*rankBPE, error) {
	m, err := newRankBPE(f.words())
	if err == nil && !t.useRawBytes(f.vocab) {
		err = fmt.Errorf("pre_tokenizer: the model Tiktoken needs ByteLevel as the last one")
	}
	return m, err
}

func (f *modelFile) wordPiece() (*wordPiece, error) {
	unk, err := f.unknown("[UNK]")
	if err != nil {
		return nil, err
	}
	words := f.words()
	if err := checkLengths(words); err != nil {
		return nil, err
	}
	prefix, most := "##", 100
	if f.ContinuingSubwordPrefix != nil {
		prefix = *f.ContinuingSubwordPrefix
	}
	if f.MaxInputChars != nil {
		if most = *f.MaxInputChars; most < 0 {
			return nil, fmt.Errorf("model.max_input_chars_per_word: %d is negative", most)
		}
	}
	return newWordPiece(words, prefix, unk, most), nil
}

func checkLengths(words []treeWord) error {
	for _, w := range words {
		if len(w.text) > maxTokenBytes {
			return fmt.Errorf("model.vocab: token %d has %d bytes, at most %d are allowed", w.id, len(w.text), maxTokenBytes)
		}
	}
	return nil
}

// optional returns the text of an optional key.
func optional(s *string) string {
	if s == nil {
		return ""
	}
	return *s
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

// bpe builds the model of byte-pair encoding.
func (f *modelFile) bpe(t *Tokenizer) (*bpe, error) {
	prefix, suffix := optional(f.ContinuingSubwordPrefix), optional(f.EndOfWordSuffix)
	switch {
	case f.Merges == nil:
		return nil, fmt.Errorf("model.merges is missing")
	case f.Dropout != nil && *f.Dropout != 0:
		return nil, fmt.Errorf("model.dropout: %v is not supported, only null and 0", *f.Dropout)
	case len(prefix) != utf8.RuneCountInString(prefix): // the reference counts characters and cuts bytes
		return nil, fmt.Errorf("model.continuing_subword_prefix: %.64q is not supported, only ASCII", prefix)
	case f.ByteFallback && prefix+suffix != "": // the reference makes tokens of their bytes, which cover nothing
		return nil, fmt.Errorf("model.byte_fallback is not supported beside continuing_subword_prefix %.64q and end_of_word_suffix %.64q",
			prefix, suffix)
	case len(prefix) > maxTokenBytes || len(suffix) > maxTokenBytes:
		return nil, fmt.Errorf("model: continuing_subword_prefix and end_of_word_suffix have %d and %d bytes, at most %d are allowed",
			len(prefix), len(suffix), maxTokenBytes)
	}
	raw := prefix+suffix == "" && t.useRawBytes(f.vocab)
	m := &bpe{
		vocab: f.vocab, raw: raw, ignoreMerges: f.IgnoreMerges, fuseUnk: f.FuseUnk, prefix: prefix, suffix: suffix,
		merges: newPairTable(len(f.Merges)), cache: newWordCache(),
	}
	if f.UnkToken != nil && !raw { // where each byte is a token nothing is unknown
		var err error
		if m.unk, err = f.unknown(""); err != nil {
			return nil, err
		}
		m.hasUnk = true
	}
	if f.ByteFallback {
		m.fallback = newByteTokens(func(token string) (uint32, bool) {
			id, ok := f.vocab[token]
			return id, ok
		})
	}
	var merged []string
	for i, merge := range f.Merges {
		if merge.comment {
			continue
		}
		left, okLeft := f.vocab[merge.pair[0]]
		right, okRight := f.vocab[merge.pair[1]]
		if len(merge.pair[1]) < len(prefix) {
			return nil, fmt.Errorf("model.merges[%d]: %q is shorter than continuing_subword_prefix %q", i, merge.pair[1],
				prefix)
		}
		joined := merge.pair[0] + merge.pair[1][len(prefix):]
		made, okMade := f.vocab[joined]
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
