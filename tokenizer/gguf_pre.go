package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// A gguf file of kind "gpt2" does not hold its split patterns; it names them by tokenizer.ggml.pre. A preKind is what a
// name stands for: the patterns, applied one after the other, and what else the tokenizers of that name have in common.
// The patterns are those of the original tokenizer.json files where these are known, else llama.cpp's.
type preKind struct {
	names        []string // the first is the one we write
	patterns     []string
	nfc          bool // the original tokenizers normalise to NFC
	ignoreMerges bool
	addBOS       bool // unless the file says otherwise
	runes        bool // merges work on runes with ▁ for spaces, as in SentencePiece, not on bytes
}

const (
	patternNumber     = `\p{N}`
	patternNumbers3   = `\p{N}{1,3}`
	patternNumbers    = `\p{N}+`
	patternSpaceAtEnd = `\s+$`
	patternThree      = `[0-9][0-9][0-9]`
	patternCJKv3      = `[一-龥぀-ゟ゠-ヿ]+`
	patternDeepSeekV3 = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternBloom      = ` ?[^(\s|.,!?…。，、।۔،)]+`
	patternLines      = `[^\n]+|[\n]+`
	patternKimiK2     = `[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// preKinds lists the kinds; within equal kinds the first is the one we write.
var preKinds = []preKind{
	{names: []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
		patterns: []string{patternLlama3}, ignoreMerges: true, addBOS: true},
	{names: []string{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, patterns: []string{patternLlama3}},
	{names: []string{"qwen2", "stablelm2"}, patterns: []string{patternQwen2}, nfc: true},
	{names: []string{"deepseek-r1-qwen", "kormo", "f2llmv2", "hunyuan", "solar-open", "megrez", "grok-2"}, patterns: []string{patternQwen2}},
	{names: []string{"qwen35"}, patterns: []string{patternQwen35}, nfc: true},
	{names: []string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, patterns: []string{patternO200k}},
	{names: []string{"granite-embed-multi-97m"}, patterns: []string{patternO200k}, ignoreMerges: true},
	{names: []string{"tekken"}, patterns: []string{patternTekken}, ignoreMerges: true, addBOS: true},
	{names: []string{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code",
		"roberta-bpe", "a.x-4.0", "mellum", "jais", "exaone4", "trillion", "granite-docling"}, patterns: []string{patternGPT2}},
	{names: []string{"olmo", "mpt", "modern-bert"}, patterns: []string{patternGPT2}, nfc: true},
	{names: []string{"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
		patterns: []string{patternNumber, patternGPT2}},
	{names: []string{"command-r"}, patterns: []string{patternNumber, patternGPT2}, nfc: true},
	{names: []string{"falcon"}, patterns: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", patternGPT2, patternThree}},
	{names: []string{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, patterns: []string{patternNumbers3, patternCJKv3, patternDeepSeekV3}},
	{names: []string{"deepseek-coder"}, patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, patternNumber}},
	{names: []string{"deepseek-llm"}, patterns: []string{`[\r\n]`, patternDeepSeekLetters, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, patternSpaceAtEnd,
		`[一-龥ࠀ-一가-퟿]+`, patternNumbers}},
	{names: []string{"bloom", "poro-chat", "gpt3-finnish"}, patterns: []string{patternBloom}},
	{names: []string{"viking"}, patterns: []string{patternBloom, patternNumber}},
	{names: []string{"tiny_aya", "cohere2moe"}, patterns: []string{`\d{1,3}(?=(?:\d{3})*\b)`, patternO200k}},
	{names: []string{"superbpe"}, patterns: []string{patternNumbers, `(?=(\d{3})+(?!\d))`}},
	{names: []string{"kimi-k2"}, patterns: []string{patternKimiK2}},
	{names: []string{"bailingmoe", "bailingmoe2", "llada-moe"}, patterns: []string{
		`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`}},
	{names: []string{"seed-coder"}, patterns: []string{
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`}},
	{names: []string{"ufakzeka"}, patterns: []string{
		`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}},
	{names: []string{"exaone-moe"}, patterns: []string{
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`}},
	{names: []string{"minicpm5"}, patterns: []string{patternNumbers3,
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}, ignoreMerges: true},
	{names: []string{"laguna"}, patterns: []string{patternLines, patternQwen2}},
	{names: []string{"gemma4", "granite-embed-multi-311m"}, patterns: []string{patternLines}, addBOS: true, runes: true},
	{names: []string{"sarvam-moe"}, patterns: []string{patternLines}, runes: true},
	{names: []string{"default"}, patterns: []string{`[\p{P}\$\+<=>\^~\|]+`, patternGPT2, patternNumbers, patternThree}},
}

// patternDeepSeekLetters is \s?[letters]+ with the letters spelled out: those with case, as of some version of Unicode. It
// is written in escapes because some of them, U+1F7D say, turn into others when an editor normalises the file.
const patternDeepSeekLetters = "\\s?[" +
	"A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373" +
	"\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-" +
	"\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-" +
	"\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D" +
	"\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-" +
	"\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-" +
	"\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-" +
	"\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-" +
	"\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-" +
	"\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943" + "]+"

// findPre returns the kind of a name; no name means default, as in llama.cpp.
func findPre(name string) (preKind, error) {
	if name == "" {
		name = "default"
	}
	for _, k := range preKinds {
		if slices.Contains(k.names, name) {
			return k, nil
		}
	}
	var known []string
	for _, k := range preKinds {
		known = append(known, k.names...)
	}
	slices.Sort(known)
	return preKind{}, fmt.Errorf("tokenizer: unknown pre-tokenizer %q in %s; known are %s", name, keyPre, strings.Join(known, ", "))
}

// splitters compiles the patterns of a kind.
func (k preKind) splitters() (all preTokenizers, err error) {
	for _, p := range k.patterns {
		m, err := compilePattern(p)
		if err != nil {
			return nil, err
		}
		all = append(all, split{matcher: m, behavior: isolated})
	}
	return all, nil
}
