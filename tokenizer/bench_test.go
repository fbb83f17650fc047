package tokenizer

import (
	"strings"
	"testing"
)

// BenchmarkEncodeEnglish is the speed goal of the package: 20 MB/s of English with the Llama 3 vocabulary on one core.
// "cold" starts with an empty word cache every time.
func BenchmarkEncodeEnglish(b *testing.B) {
	text := string(readShared(b, "eval/wikitext2/wiki.test.raw"))
	for _, name := range []string{"llama3", "qwen2", "phi-3-mini", "trained-unigram-2k"} {
		tok := fromShared(b, "reference/tokenizers/"+name+"/tokenizer.json")
		ids := make([]int32, 0, len(text))
		for _, cold := range []bool{false, true} {
			b.Run(name+map[bool]string{true: "/cold"}[cold], func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if cold {
						tok.words = newWordCache()
					}
					var err error
					if ids, err = tok.AppendEncode(ids[:0], text, Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkLoad reads the tokenizer.json of Llama 3: 128k tokens, 280k merges, 7 MB.
func BenchmarkLoad(b *testing.B) {
	file := readShared(b, "reference/tokenizers/llama3/tokenizer.json")
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := FromJSON(file, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadGGUF makes the same tokenizer from the arrays of a GGUF file.
func BenchmarkLoadGGUF(b *testing.B) {
	tok := fromShared(b, "reference/tokenizers/llama3/tokenizer.json")
	meta, err := tok.GGUF(tok.VocabSize())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := FromGGUF(meta); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := fromShared(b, "reference/tokenizers/llama3/tokenizer.json")
	ids := mustEncode(b, tok, strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100), Options{})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			tok.Decode(ids, true)
		}
	})
	b.Run("stream", func(b *testing.B) {
		for b.Loop() {
			s := tok.NewStream(true)
			for _, id := range ids {
				s.Push(id)
			}
		}
	})
}

// BenchmarkLongWord is a megabyte without a place to cut it.
func BenchmarkLongWord(b *testing.B) {
	for _, name := range []string{"llama3", "phi-3-mini", "trained-unigram-2k"} {
		tok := fromShared(b, "reference/tokenizers/"+name+"/tokenizer.json")
		for what, text := range map[string]string{"letter": strings.Repeat("a", 1<<20), "mixed": strings.Repeat("abcdefghijklmnopqrstuvwxyz", 1<<20/26)} {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := tok.Encode(text, Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
