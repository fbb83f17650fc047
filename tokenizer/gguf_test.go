package tokenizer

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func fromSharedGGUF(t testing.TB, name string) (*Tokenizer, map[string]any) {
	t.Helper()
	meta, err := readMetadata(readShared(t, name))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromGGUF(meta)
	if err != nil {
		t.Fatal(err)
	}
	return tok, meta
}

// vocabCases are the texts and ids beside llama.cpp's vocabulary files.
func vocabCases(t *testing.T, name string) (texts []string, ids [][]int32) {
	t.Helper()
	file := "reference/tokenizers/gguf/ggml-vocab-" + name + ".gguf"
	const separator = "\n__ggml_vocab_test__\n" // it ends the last text too
	texts = strings.Split(strings.TrimSuffix(string(readShared(t, file+".inp")), separator), separator)
	for _, line := range strings.Split(strings.TrimSuffix(string(readShared(t, file+".out")), "\n"), "\n") {
		var list []int32
		for _, field := range strings.Fields(line) {
			id, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, int32(id))
		}
		ids = append(ids, list)
	}
	return texts, ids
}

func TestReferenceGGUF(t *testing.T) {
	for _, name := range []string{"bert-bge", "deepseek-coder", "falcon", "gpt-2", "llama-spm", "phi-3", "refact"} {
		t.Run(name, func(t *testing.T) {
			tok, _ := fromSharedGGUF(t, "reference/tokenizers/gguf/ggml-vocab-"+name+".gguf")
			texts, want := vocabCases(t, name)
			checkCases(t, tok, texts, want)
		})
	}
}

// TestReferenceCasesWithoutVocab runs the cases that come without a vocabulary on the same vocabulary from elsewhere.
func TestReferenceCasesWithoutVocab(t *testing.T) {
	for name, json := range map[string]string{"llama-bpe": "llama3", "qwen2": "qwen2"} {
		tok := fromShared(t, "reference/tokenizers/"+json+"/tokenizer.json")
		texts, want := vocabCases(t, name)
		checkCases(t, tok, texts, want)
	}
}

func checkCases(t *testing.T, tok *Tokenizer, texts []string, want [][]int32) {
	t.Helper()
	if len(texts) != len(want) {
		t.Fatalf("%d texts, %d lists of ids", len(texts), len(want))
	}
	for i, text := range texts {
		if got := mustEncode(t, tok, text, Options{}); !slices.Equal(got, want[i]) {
			t.Errorf("text %d %q:\n got %v\nwant %v", i, text, got, want[i])
		}
		checkStream(t, tok, want[i])
	}
}

// TestPreKinds holds that every pattern compiles, that cutting loses nothing, and that no name has two meanings.
func TestPreKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range preKinds {
		pre, err := k.splitters()
		if err != nil {
			t.Errorf("%s: %v", k.names[0], err)
			continue
		}
		for _, s := range splitSeeds {
			var words strings.Builder
			if err := pre.cut(piece{s, true}, func(p piece) bool { words.WriteString(p.text); return true }); err != nil || words.String() != s {
				t.Errorf("%s: %q became %q (%v)", k.names[0], s, words.String(), err)
			}
		}
		for _, name := range k.names {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
	}
}
