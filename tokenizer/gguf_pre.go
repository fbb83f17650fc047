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
	{names: []string{"deepseek-llm"}, patterns: []string{`[\r\n]`, patternDeepSeekLetters, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`,
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

// patternDeepSeekLetters is \s?[letters]+ with the letters spelled out: those with case.
const patternDeepSeekLetters = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`

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
