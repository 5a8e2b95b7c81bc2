package hf

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// SentencePieceFile holds a tokenizer of SentencePiece, which is read if there is no tokenizer.json, and
// AddedTokensFile the tokens that were added to it.
const (
	SentencePieceFile = "tokenizer.model"
	AddedTokensFile   = "added_tokens.json"
)

// maxTokenizer bounds the size of files with vocabularies in other forms; the largest public ones have some 20 MiB.
const maxTokenizer = 128 << 20

// sentencePieceModel is what is read of the file, a ModelProto of sentencepiece_model.proto.
type sentencePieceModel struct {
	ggufVocab
	// model is its kind: 1 is Unigram, 2 byte-pair encoding.
	model                                     uint64
	prefix, trims, suffix, escapes, fallbacks bool
	charsmap                                  []byte
	// separate are the tokens that the folder adds, by id: they are found before the text is normalized.
	separate map[int]bool
}

// maxLead is more spaces than a text starts with.
const maxLead = 1 << 10

// Kinds of models.
const (
	unigramPieces = 1
	pairPieces    = 2
)

// sentencePieceJSON makes tokenizer.json out of tokenizer.model, with the tokens that the folder adds to it as
// transformers has them.
func sentencePieceJSON(fsys fs.FS, t *TokenizerConfig, data []byte) ([]byte, error) {
	fail := func(format string, a ...any) ([]byte, error) {
		return nil, fmt.Errorf("%s: %w: %s", SentencePieceFile, ErrConfig, fmt.Sprintf(format, a...))
	}
	m := sentencePieceModel{model: unigramPieces, prefix: true, trims: true, escapes: true, separate: map[int]bool{}}
	if err := m.read(data); err != nil {
		return fail("%v", err)
	}
	switch {
	case len(m.tokens) == 0:
		return fail("has no pieces")
	case len(m.tokens) > maxTokens:
		return fail("has %d pieces, at most %d are allowed", len(m.tokens), maxTokens)
	case m.model != unigramPieces && m.model != pairPieces:
		return fail("is neither Unigram nor byte-pair encoding, but kind %d", m.model)
	}
	for i, text := range m.tokens {
		if len(text) > maxTokenBytes || text == "" {
			return fail("piece %d has %d bytes, want 1 to %d", i, len(text), maxTokenBytes)
		}
	}
	user := m.user()
	if err := m.addTokens(fsys, t); err != nil {
		return nil, err
	}
	plain := m.charsmap == nil && !m.trims && !m.suffix && m.escapes
	var file map[string]any
	if m.model == pairPieces {
		file = sentencePieceFile(&m.ggufVocab, m.prefix, t.NotLegacy)
	} else if file = m.unigram(); file == nil {
		return fail("has no unknown piece")
	}
	if m.model == unigramPieces || !plain {
		file["pre_tokenizer"], file["normalizer"] = nil, m.normalizer(t.NotLegacy, user)
	}
	add := t.AddBOS == nil || *t.AddBOS
	file["version"], file["added_tokens"] = "1.0", m.addedTokens()
	file["post_processor"] = postProcessor(&m.ggufVocab, map[bool]string{true: t.BOS}[add],
		map[bool]string{true: t.EOS}[t.AddEOS])
	return json.Marshal(file)
}

// user lists the symbols of users, which a Unigram model treats as pieces that always win.
func (m *sentencePieceModel) user() (texts []string) {
	for i, text := range m.tokens {
		if m.kind(i) == ggufUser {
			texts = append(texts, text)
		}
	}
	return texts
}

// normalizer is what SentencePiece does to a text; once puts the space only before its start.
func (m *sentencePieceModel) normalizer(once bool, user []string) any {
	n := map[string]any{"type": "SentencePiece", "add_dummy_prefix": m.prefix, "first_only": once,
		"remove_extra_whitespaces": m.trims, "escape_whitespaces": m.escapes, "treat_whitespace_as_suffix": m.suffix}
	if m.model == unigramPieces {
		n["user_defined_symbols"] = user
	}
	if m.charsmap != nil {
		n["precompiled_charsmap"] = m.charsmap // in base64
	}
	return n
}

// unigram is tokenizer.json of a Unigram model; nil if no piece is the unknown one.
func (m *sentencePieceModel) unigram() map[string]any {
	unk := -1
	vocab := make([][]any, len(m.tokens))
	for i, text := range m.tokens {
		kind := m.kind(i)
		if kind == ggufUnknown {
			unk = i
		}
		if m.separate[i] {
			kind = ggufControl
		}
		vocab[i] = []any{text, m.scores[i], kind}
	}
	if unk < 0 {
		return nil
	}
	decoders := []any{map[string]any{"type": "Replace", "pattern": map[string]any{"String": space}, "content": " "}}
	if m.fallbacks {
		decoders = append(decoders, map[string]any{"type": "ByteFallback"})
	}
	decoders = append(decoders, map[string]any{"type": "Fuse"})
	lead := 0 // spaces that SentencePiece leaves out at the start of a text
	switch {
	case m.trims:
		lead = maxLead
	case m.prefix:
		lead = 1
	}
	decoders = append(decoders, map[string]any{"type": "Strip", "content": " ", "start": lead, "stop": 0})
	return map[string]any{
		"decoder": map[string]any{"type": "Sequence", "decoders": decoders},
		"model":   map[string]any{"type": "SentencePiece", "unk_id": unk, "byte_fallback": m.fallbacks, "vocab": vocab},
	}
}

// addedTokens lists the tokens that are found in text before anything else: symbols of users are pieces of a Unigram
// model, unless the folder adds them.
func (m *sentencePieceModel) addedTokens() []map[string]any {
	if m.model != unigramPieces {
		return m.added()
	}
	return slices.DeleteFunc(m.added(), func(a map[string]any) bool {
		id := a["id"].(int)
		return m.kind(id) == ggufUser && !m.separate[id]
	})
}

// protoFields calls do for each field of a message; value is that of a number, bytes that of a text or message.
func protoFields(data []byte, do func(n protowire.Number, value uint64, bytes []byte) error) error {
	for len(data) > 0 {
		n, kind, used := protowire.ConsumeTag(data)
		if used < 0 {
			return protowire.ParseError(used)
		}
		data = data[used:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, used = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var v uint32
			v, used = protowire.ConsumeFixed32(data)
			value = uint64(v)
		case protowire.BytesType:
			bytes, used = protowire.ConsumeBytes(data)
		default:
			used = protowire.ConsumeFieldValue(n, kind, data)
		}
		if used < 0 {
			return protowire.ParseError(used)
		}
		data = data[used:]
		if err := do(n, value, bytes); err != nil {
			return err
		}
	}
	return nil
}

func (m *sentencePieceModel) read(data []byte) error {
	return protoFields(data, func(n protowire.Number, _ uint64, message []byte) error {
		switch n {
		case 1:
			return m.readPiece(message)
		case 2: // how it was trained
			return protoFields(message, func(n protowire.Number, value uint64, _ []byte) error {
				switch n {
				case 3:
					m.model = value
				case 24:
					m.suffix = value != 0
				case 35:
					m.fallbacks = value != 0
				}
				return nil
			})
		case 3: // how text is normalized
			return protoFields(message, func(n protowire.Number, value uint64, bytes []byte) error {
				switch n {
				case 2:
					if len(bytes) > 0 {
						m.charsmap = bytes
					}
				case 3:
					m.prefix = value != 0
				case 4:
					m.trims = value != 0
				case 5:
					m.escapes = value != 0
				}
				return nil
			})
		}
		return nil
	})
}

func (m *sentencePieceModel) readPiece(message []byte) error {
	text, score, kind := "", 0.0, 1.0
	err := protoFields(message, func(n protowire.Number, value uint64, bytes []byte) error {
		switch n {
		case 1:
			text = string(bytes)
		case 2:
			score = float64(math.Float32frombits(uint32(value)))
		case 3:
			kind = float64(value)
		}
		return nil
	})
	m.tokens, m.scores, m.kinds = append(m.tokens, text), append(m.scores, score), append(m.kinds, kind)
	return err
}

// addTokens adds those of added_tokens.json and of tokenizer_config.json behind the pieces.
func (m *sentencePieceModel) addTokens(fsys fs.FS, t *TokenizerConfig) error {
	add := func(id int, text string, special bool) error {
		if id < 0 || id > maxVocab {
			return fmt.Errorf("%s: %w: the token %q has the id %d", AddedTokensFile, ErrConfig, text, id)
		}
		for len(m.tokens) <= id { // ids that nothing is known of
			m.tokens, m.scores = append(m.tokens, ""), append(m.scores, 0)
			m.kinds = append(m.kinds, ggufUnused)
		}
		m.separate[id] = true
		m.tokens[id], m.kinds[id] = text, map[bool]float64{true: ggufControl, false: ggufUser}[special]
		return nil
	}
	data, err := readOr(fsys, AddedTokensFile, nil)
	if err != nil {
		return err
	}
	if data != nil {
		var added map[string]int
		if err := json.Unmarshal(data, &added); err != nil {
			return fmt.Errorf("%s: %w: %v", AddedTokensFile, ErrConfig, err)
		}
		for text, id := range added {
			if err := add(id, text, false); err != nil {
				return err
			}
		}
	}
	for id, token := range t.Added {
		if err := add(id, token.Content, token.Special); err != nil {
			return err
		}
	}
	// Special tokens that stand among the pieces as ordinary ones.
	for _, text := range t.Tokens {
		if i := slices.Index(m.tokens, text); i >= 0 && m.kind(i) != ggufUnknown {
			m.kinds[i] = ggufControl
		}
	}
	return nil
}

// AddedToken is one of added_tokens_decoder.
type AddedToken struct {
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// readAdded reads added_tokens_decoder, an object of tokens by their ids.
func (o *object) readAdded() map[int]AddedToken {
	v, ok := o.raw("added_tokens_decoder")
	var byID map[string]AddedToken
	if !ok || json.Unmarshal(v, &byID) != nil { // which only tokenizer.model needs
		return nil
	}
	out := map[int]AddedToken{}
	for key, token := range byID {
		if id, err := strconv.Atoi(key); err == nil {
			out[id] = token
		}
	}
	return out
}
