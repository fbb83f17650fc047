package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// modelFields is a "model" of tokenizer.json without its vocabulary and merges.
type modelFields struct {
	Type            string   `json:"type"`
	Dropout         *float64 `json:"dropout"`
	UnkToken        *string  `json:"unk_token"`
	SubwordPrefix   *string  `json:"continuing_subword_prefix"`
	WordSuffix      *string  `json:"end_of_word_suffix"`
	FuseUnk         bool     `json:"fuse_unk"`
	ByteFallback    bool     `json:"byte_fallback"`
	IgnoreMerges    bool     `json:"ignore_merges"`
	MaxCharsPerWord *int     `json:"max_input_chars_per_word"`
	UnkID           *int64   `json:"unk_id"`
	vocab           string   // JSON text
	merges          [][2]string
	hasMerges       bool
	rest            strings.Builder
}

// model reads the model: the merges as a list, the vocabulary as text, because how to read that depends on parts of the
// file that may come later.
func (j *jsonScan) model() *modelFields {
	m := &modelFields{}
	j.object(func(key string) {
		switch key {
		case "vocab":
			m.vocab = j.raw()
		case "merges":
			m.hasMerges = true
			m.merges = j.merges()
		default:
			if m.rest.Len() > 0 {
				m.rest.WriteByte(',')
			}
			name, _ := json.Marshal(key)
			m.rest.Write(name)
			m.rest.WriteByte(':')
			m.rest.WriteString(j.raw())
		}
	})
	if j.err != nil {
		return nil
	}
	if err := json.Unmarshal([]byte("{"+m.rest.String()+"}"), m); err != nil {
		j.err = fmt.Errorf("tokenizer: \"model\" of tokenizer.json: %w", err)
	}
	if j.err == nil && m.vocab == "" {
		j.err = errors.New("tokenizer: the model in tokenizer.json has no \"vocab\"")
	}
	return m
}

// build makes the model in t. Files from before 0.9 do not say what type it is; its fields tell.
func (m *modelFields) build(t *Tokenizer, byteLevel bool) error {
	kind := m.Type
	if kind == "" {
		kind = m.guessType()
	}
	switch kind {
	case "BPE":
		return m.bpe(t, byteLevel)
	case "Unigram":
		return m.unigram(t)
	case "WordPiece":
		return m.wordPiece(t)
	case "WordLevel":
		return m.wordLevel(t)
	}
	return fmt.Errorf("tokenizer: unknown model type %q; known are BPE, Unigram, WordPiece and WordLevel", kind)
}

func (m *modelFields) guessType() string {
	switch {
	case m.hasMerges:
		return "BPE"
	case m.vocab[0] == '[':
		return "Unigram"
	case m.SubwordPrefix != nil:
		return "WordPiece"
	}
	return "WordLevel"
}

// merges reads a list of merges, each "left right" or ["left", "right"].
func (j *jsonScan) merges() [][2]string {
	list := make([][2]string, 0, len(j.s)/40)
	j.array(func() {
		if j.peek() == '"' {
			line := j.str()
			left, right, ok := strings.Cut(line, " ")
			switch {
			case strings.HasPrefix(line, "#version"):
			case !ok || strings.Contains(right, " "):
				j.fail(fmt.Sprintf("merge %d is %q, not two tokens with a space between", len(list), line))
			default:
				list = append(list, [2]string{left, right})
			}
			return
		}
		j.expect('[')
		left := j.str()
		j.expect(',')
		right := j.str()
		j.expect(']')
		list = append(list, [2]string{left, right})
	})
	return list
}

// vocabulary reads {"token": id, …}.
func (m *modelFields) vocabulary(byteLevel bool) (*vocab, error) {
	v := newVocab(len(m.vocab)/12, byteLevel)
	j := &jsonScan{s: m.vocab}
	j.object(func(token string) {
		if id := j.integer(); j.err == nil {
			_, j.err = v.add(token, id)
		}
	})
	return v, j.err
}

// orEmpty reads a string that may be null.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (m *modelFields) bpe(t *Tokenizer, byteLevel bool) (err error) {
	if !m.hasMerges {
		return fmt.Errorf("tokenizer: the BPE model in tokenizer.json has no \"merges\"")
	}
	// Dropout makes training texts vary; for inference only its range matters.
	if m.Dropout != nil && !(*m.Dropout >= 0 && *m.Dropout <= 1) {
		return fmt.Errorf("tokenizer: dropout is %v; it must be between 0 and 1", *m.Dropout)
	}
	b := &bpe{
		ignoreMerges: m.IgnoreMerges, prefix: orEmpty(m.SubwordPrefix), suffix: orEmpty(m.WordSuffix),
		unkName: orEmpty(m.UnkToken), fuseUnk: m.FuseUnk, byteFallback: m.ByteFallback,
	}
	if byteLevel && b.prefix == "" && b.suffix == "" {
		if t.vocab, err = m.vocabulary(true); err != nil {
			return err
		}
		if t.vocab.hasAllBytes() {
			t.pre = t.pre.withoutSpelling()
			b.vocab = t.vocab
		}
	}
	if b.vocab == nil {
		if t.vocab, err = m.vocabulary(false); err != nil {
			return err
		}
		b.vocab = t.vocab
	}
	if b, err = newBPE(b, len(m.merges), func(rank int) (left, right string, err error) {
		return m.merges[rank][0], m.merges[rank][1], nil
	}); err != nil {
		return err
	}
	t.model, t.cut = b, b.cut
	return nil
}

func (m *modelFields) unigram(t *Tokenizer) error {
	t.vocab = newVocab(len(m.vocab)/24, false)
	var scores []float64
	j := &jsonScan{s: m.vocab}
	j.array(func() {
		j.expect('[')
		token := j.str()
		j.expect(',')
		score, err := strconv.ParseFloat(j.number(), 64)
		if err != nil || math.IsNaN(score) {
			j.fail("expected a score")
		}
		j.expect(']')
		if j.err == nil {
			_, j.err = t.vocab.add(token, int64(len(scores)))
		}
		scores = append(scores, score)
	})
	if j.err != nil {
		return j.err
	}
	unk := int32(-1)
	if m.UnkID != nil {
		if *m.UnkID < 0 || *m.UnkID >= int64(len(scores)) {
			return fmt.Errorf("tokenizer: unk_id is %d in a vocabulary of %d tokens", *m.UnkID, len(scores))
		}
		unk = int32(*m.UnkID)
	}
	t.model = newUnigram(t.vocab, scores, unk, m.ByteFallback)
	return nil
}

func (m *modelFields) wordPiece(t *Tokenizer) (err error) {
	if t.vocab, err = m.vocabulary(false); err != nil {
		return err
	}
	unk, prefix, most := "[UNK]", "##", 100
	if m.UnkToken != nil {
		unk = *m.UnkToken
	}
	if m.SubwordPrefix != nil {
		prefix = *m.SubwordPrefix
	}
	if m.MaxCharsPerWord != nil {
		most = *m.MaxCharsPerWord
	}
	t.model = newWordPiece(t.vocab, t.vocab.id(unk), prefix, most)
	return nil
}

func (m *modelFields) wordLevel(t *Tokenizer) (err error) {
	if t.vocab, err = m.vocabulary(false); err != nil {
		return err
	}
	unk := "<unk>"
	if m.UnkToken != nil {
		unk = *m.UnkToken
	}
	t.model = &wordLevel{t.vocab, t.vocab.id(unk)}
	return nil
}
