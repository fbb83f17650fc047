package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBrokenFiles(t *testing.T) {
	const model = `"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}`
	for file, want := range map[string]string{
		``:                   "byte 0",
		`{`:                  "byte 1",
		`[]`:                 "expected '{'",
		`{}`:                 `no "model"`,
		"{\"\xff\": 1}":      "UTF-8",
		`{"model": {}}`:      `no "vocab"`,
		`{"version": "2.0"}`: `version "2.0"`,
		`{` + model + `} x`:  "text after the end",
		`{"model": {"type": "BPE", "vocab": {"a": 0}}}`:                                                                `no "merges"`,
		`{"model": {"type": "XYZ", "vocab": {"a": 0}}}`:                                                                `"XYZ"`,
		`{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}`:                                                 "id -1",
		`{"model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}}`:                                         "id 4000000000",
		`{"model": {"type": "BPE", "vocab": {"a": 1.5}, "merges": []}}`:                                                `"1.5"`,
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}`:                                             `"b"`,
		`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}`:                                     "merge 0",
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}}`:                                               "two tokens",
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}`:                                             "expected ','",
		`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 2}}`:                                    "dropout",
		`{"model": {"type": "BPE", "vocab": {"\ud800": 0}, "merges": []}}`:                                             "surrogate",
		`{"model": {"type": "Unigram", "vocab": [["a", "b"]]}}`:                                                        "number",
		`{"model": {"type": "Unigram", "unk_id": 5, "vocab": [["a", 0]]}}`:                                             "unk_id",
		`{"normalizer": {"type": "Nope"}, ` + model + `}`:                                                              `"Nope"`,
		`{"normalizer": {"type": "Precompiled", "precompiled_charsmap": "!"}, ` + model + `}`:                          "base64",
		`{"normalizer": {"type": "Replace", "content": ""}, ` + model + `}`:                                            "no pattern",
		`{"pre_tokenizer": {"type": "Split", "behavior": "Isolated"}, ` + model + `}`:                                  "no pattern",
		`{"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}, ` + model + `}`:       "pattern \"(\"",
		`{"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"}, ` + model + `}`:           `"Odd"`,
		`{"pre_tokenizer": {"type": "Metaspace", "replacement": "ab"}, ` + model + `}`:                                 "one character",
		`{"pre_tokenizer": {"type": "FixedLength", "length": 0}, ` + model + `}`:                                       "length 0",
		`{"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}]}, ` + model + `}`: `"x"`,
		`{"post_processor": {"type": "BertProcessing", "sep": ["a"], "cls": ["b", 1]}, ` + model + `}`:                 "post_processor",
		`{"decoder": {"type": "Strip", "content": "", "start": 1, "stop": 0}, ` + model + `}`:                          "one character",
		`{"added_tokens": [{"id": "a"}], ` + model + `}`:                                                               "added_tokens",
	} {
		_, err := FromJSON([]byte(file), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "tokenizer: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, and should speak of %s", file, err, want)
		}
	}
}

func TestBrokenGGUF(t *testing.T) {
	tokens := []string{"a", "b"}
	for _, c := range []struct {
		meta map[string]any
		want string
	}{
		{nil, keyTokens},
		{map[string]any{keyTokens: tokens}, keyModel},
		{map[string]any{keyTokens: tokens, keyModel: "rwkv"}, `"rwkv"`},
		{map[string]any{keyTokens: tokens, keyModel: "gpt2"}, keyMerges},
		{map[string]any{keyTokens: tokens, keyModel: "gpt2", keyPre: "odd"}, `"odd"`},
		{map[string]any{keyTokens: tokens, keyModel: "gpt2", keyMerges: []string{"ab"}}, keyMerges + "[0]"},
		{map[string]any{keyTokens: tokens, keyModel: "llama"}, keyScores},
		{map[string]any{keyTokens: tokens, keyModel: "llama", keyScores: []float32{1}}, "1 entries for 2"},
		{map[string]any{keyTokens: []string{"a", "a"}, keyModel: "llama", keyScores: []float32{1, 2}}, "twice"},
		{map[string]any{keyTokens: tokens, keyModel: "llama", keyScores: "x"}, "float32"},
		{map[string]any{keyTokens: tokens, keyModel: "t5", keyScores: []float32{1, 2}, keyCharsmap: []uint8{1}}, "precompiled_charsmap"},
		{map[string]any{keyTokens: tokens, keyModel: "t5", keyScores: []float32{1, 2}}, keyUnk},
	} {
		_, err := FromGGUF(c.meta)
		if err == nil || !strings.HasPrefix(err.Error(), "tokenizer: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: the error is %v, and should speak of %s", c.meta, err, c.want)
		}
	}
}

// TestJSONStrings compares the hand-written scan with encoding/json.
func TestJSONStrings(t *testing.T) {
	for _, text := range []string{`""`, `"abc"`, `"a\"b\\c\/\b\f\n\r\t"`, `"\u00e9\ud83e\udd99x"`, `"é\u0041é"`} {
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		j := &jsonScan{s: text}
		if got := j.str(); got != want || j.err != nil || j.i != len(text) {
			t.Errorf("%s: got %q at byte %d, %v", text, got, j.i, j.err)
		}
	}
}

func FuzzFromJSON(f *testing.F) {
	for _, name := range []string{"unigram.json", "wordpiece.json", "spm.json"} {
		file, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Add([]byte(`{"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		tok, err := FromJSON(file, nil)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer: ") {
				t.Errorf("the error does not say where it comes from: %v", err)
			}
			return
		}
		ids, err := tok.Encode("The cat, ab é\u0301 <s> 中 12 \xff", whole)
		if err != nil {
			return
		}
		if text := tok.Decode(ids, false); !utf8.ValidString(text) {
			t.Errorf("decoded text %q is not UTF-8", text)
		}
		if _, err := tok.GGUF(tok.VocabSize()); err != nil && !strings.HasPrefix(err.Error(), "tokenizer: ") {
			t.Errorf("the error does not say where it comes from: %v", err)
		}
	})
}

// FuzzByteLevelRoundTrip holds that byte-level vocabularies lose nothing.
func FuzzByteLevelRoundTrip(f *testing.F) {
	f.Add("Hello <|im_end|> wörld\n\n  123 \u0301 🦙")
	tok := fixture(f, "demo.json")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []bool{false, true} {
			ids := mustEncode(t, tok, text, Options{ParseSpecial: parse})
			if got := tok.Decode(ids, false); got != validText(text) {
				t.Errorf("%q came back as %q", text, got)
			}
			again := mustEncode(t, tok, text, Options{ParseSpecial: parse})
			if !slices.Equal(ids, again) {
				t.Errorf("%q: %v, and the second time %v", text, ids, again)
			}
			checkStream(t, tok, ids)
		}
	})
}
