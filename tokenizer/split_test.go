package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var knownPatterns = map[string]string{
	"gpt2": patternGPT2, "llama3": patternLlama3, "qwen2": patternQwen2,
	"qwen35": patternQwen35, "o200k": patternO200k, "tekken": patternTekken,
}

// oracle compiles a pattern for regexp2, with the one rune that Oniguruma folds to s and regexp2 does not spelled out.
func oracle(t testing.TB, pattern string) *regexpMatcher {
	t.Helper()
	m, err := compileRegexp(strings.ReplaceAll(pattern, "(?i:'s", "(?i:'[sſ]"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tile(tl tiler, s string) (cuts []int) {
	for i := 0; i < len(s); {
		i = tl.next(s, i)
		cuts = append(cuts, i)
	}
	return cuts
}

func sameCuts(tl tiler, m *regexpMatcher, s string) error {
	var want []int
	prev := 0
	err := m.matches(s, func(start, end int) bool {
		if start != prev {
			want = append(want, -start) // a gap: no tiler may ever agree
		}
		want, prev = append(want, end), end
		return true
	})
	if err != nil {
		return err
	}
	if got := tile(tl, s); fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%q: cut at %v, the pattern cuts at %v", s, got, want)
	}
	return nil
}

var splitSeeds = []string{
	"Hello, world! It's 12345 o'clock.", "  two  spaces\n\n\tand\r\n lines \n", "a'S b'LL c'Ve d'ſx 'ſ", "'", "''s", " 's",
	"CamelCase HTTPServer ÀÉîö ǅungla 日本語ABCabc ªº", "e\u0301\u0302A\u0301b\u0301", "\u0301\u0301x", " \u0301 X", "½ ⅓ Ⅻ 123 ٣٤٥٦",
	"a/b//c\r\n/d !!!/\n", "\u00a0nbsp\u3000\u2028x", "tail   ", "\t\t", "x\u200dy 👩‍👩‍👧", "\r\r \n x", "don't DON'T", "ʰʰABʰcʰ",
}

func TestTilersMatchTheirPatterns(t *testing.T) {
	for name, pattern := range knownPatterns {
		m, tl := oracle(t, pattern), knownTiler(pattern)
		for _, s := range splitSeeds {
			if err := sameCuts(tl, m, s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestTilersOnRandomText mixes the runes at which the alternatives of the patterns meet.
func TestTilersOnRandomText(t *testing.T) {
	runes := []rune("aBslLſ'  \n\r\t1½\u0301日ʰǅ!/éÉ\u00a0👩\u200d_")
	rng := rand.New(rand.NewPCG(1, 2))
	for name, pattern := range knownPatterns {
		m, tl := oracle(t, pattern), knownTiler(pattern)
		for range 3000 {
			text := make([]rune, rng.IntN(30))
			for i := range text {
				text[i] = runes[rng.IntN(len(runes))]
			}
			if err := sameCuts(tl, m, string(text)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestSmallMatchers(t *testing.T) {
	for _, pattern := range []string{patternNumber, patternNumbers3, patternNumbers, patternSpaceAtEnd} {
		m, err := compilePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range append(splitSeeds, "1234567 ½⅓a1", "", "a \n \n  b  \nc\t\u00a0", "\n\n x", " \r\nx") {
			var got, want []int
			if err := m.matches(s, func(start, end int) bool { got = append(got, start, end); return true }); err != nil {
				t.Fatal(err)
			}
			if err := oracle(t, pattern).matches(s, func(start, end int) bool { want = append(want, start, end); return true }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s on %q: matches at %v, want %v", pattern, s, got, want)
			}
		}
	}
}

func FuzzTilers(f *testing.F) {
	for _, s := range splitSeeds {
		f.Add(s)
	}
	type pair struct {
		tl tiler
		m  *regexpMatcher
	}
	pairs := map[string]pair{}
	for name, pattern := range knownPatterns {
		pairs[name] = pair{knownTiler(pattern), oracle(f, pattern)}
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			s = validText(s)
		}
		for name, p := range pairs {
			if err := sameCuts(p.tl, p.m, s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestTranslatePattern(t *testing.T) {
	for in, want := range map[string]string{
		`\p{L}++x`:                    `(?>\p{L}+)x`,
		`[^\r\n\p{L}]?+\p{L}+`:        `(?>[^\r\n\p{L}]?)\p{L}+`,
		`(?:ab|c)*+d`:                 `(?>(?:ab|c)*)d`,
		`[\p{Lu}\p{M}&&[^\p{Han}]]*x`: `[\p{Lu}\p{M}-[\p{Han}]]*x`,
		`\p{N}{1,3}+`:                 `(?:\p{N}{1,3})+`,
		`a+?b\+`:                      `a+?b\+`,
		` ?[^(\s|[.,!?…])]+`:          ` ?[^(\s|.,!?…)]+`,
		`[\[\]a]`:                     `[\[\]a]`,
		`[[:space:][:digit:]x]`:       `[\s\p{Nd}x]`,
		`[`:                           `[`,
	} {
		if got := translatePattern(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	text := strings.Repeat("The quick brown fox doesn't jump over 12345 lazy dogs, said the naïve café owner.\n", 200)
	for name, pattern := range knownPatterns {
		tl, m := knownTiler(pattern), oracle(b, pattern)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for i := 0; i < len(text); {
					i = tl.next(text, i)
				}
			}
		})
		b.Run(name+"-regexp2", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := m.matches(text, func(int, int) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
