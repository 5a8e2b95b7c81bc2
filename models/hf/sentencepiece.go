package hf

import (
	"encoding/json"
	"errors"
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

// maxSentencePiece bounds the file's size; the largest public ones have a few MiB.
const maxSentencePiece = 64 << 20

// sentencePieceModel is what is read of the file, a ModelProto of sentencepiece_model.proto.
type sentencePieceModel struct {
	ggufVocab
	bpe, prefix, trims, suffix, escapes bool
	normalization                       string
	charsmap                            int // bytes
}

// sentencePieceJSON makes tokenizer.json out of tokenizer.model, as transformers does for LlamaTokenizer; nil if
// there is no such file. Only models of byte-pair encoding without a normalization are read.
func sentencePieceJSON(fsys fs.FS, t *TokenizerConfig) ([]byte, error) {
	st, err := fs.Stat(fsys, SentencePieceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	fail := func(format string, a ...any) ([]byte, error) {
		return nil, fmt.Errorf("%s: %w: %s", SentencePieceFile, ErrConfig, fmt.Sprintf(format, a...))
	}
	if err != nil {
		return nil, err
	}
	if st.Size() > maxSentencePiece {
		return fail("has %d bytes, at most %d are allowed", st.Size(), maxSentencePiece)
	}
	data, err := fs.ReadFile(fsys, SentencePieceFile)
	if err != nil {
		return nil, err
	}
	m := sentencePieceModel{prefix: true, trims: true, escapes: true}
	if err := m.read(data); err != nil {
		return fail("%v", err)
	}
	switch {
	case len(m.tokens) == 0:
		return fail("has no pieces")
	case !m.bpe:
		return fail("is no byte-pair encoding: other kinds are not supported without a %s", TokenizerFile)
	case m.charsmap > 0:
		return fail("normalizes text by %q, which is not supported without a %s", m.normalization, TokenizerFile)
	case m.trims || m.suffix || !m.escapes:
		return fail("treats spaces in a way that is not supported without a %s", TokenizerFile)
	}
	if err := m.addTokens(fsys, t); err != nil {
		return nil, err
	}
	file := sentencePieceFile(&m.ggufVocab, m.prefix, t.NotLegacy)
	add := t.AddBOS == nil || *t.AddBOS
	file["added_tokens"] = m.added()
	file["post_processor"] = postProcessor(&m.ggufVocab, map[bool]string{true: t.BOS}[add],
		map[bool]string{true: t.EOS}[t.AddEOS])
	return json.Marshal(file)
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
					m.bpe = value == 2
				case 24:
					m.suffix = value != 0
				}
				return nil
			})
		case 3: // how text is normalized
			return protoFields(message, func(n protowire.Number, value uint64, bytes []byte) error {
				switch n {
				case 1:
					m.normalization = string(bytes)
				case 2:
					m.charsmap = len(bytes)
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
