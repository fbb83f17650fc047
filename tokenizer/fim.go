package tokenizer

import (
	"slices"
	"strings"
)

// FIM are the tokens with which a model fills in the middle of a text; an id is -1 where the vocabulary has no such token.
type FIM struct {
	Prefix, Suffix, Middle int32 // each stands before its part of the prompt
	Repo                   int32 // before the name of a repository
	File                   int32 // before the name of a file, whose text follows
	// SuffixFirst: the prompt is the suffix and then the prefix, with no token behind it (Codestral).
	SuffixFirst bool
	Ends        []int32 // tokens that end the middle, beside the model's own
}

// fimFamily are the names of a family of models for the tokens of FIM.
type fimFamily struct{ prefix, suffix, middle, repo, file string }

// fimFamilies: Qwen's coders; StarCoder 2 and Granite; StarCoder and SantaCoder; CodeLlama, as its vocabulary spells them and plainly; DeepSeek;
// GLM; Codestral. Sources: their model cards and tokenizers, and llama.cpp's src/llama-vocab.cpp.
var fimFamilies = []fimFamily{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"},
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"},
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "<filename>"},
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},
	{"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},
	{"<PRE>", "<SUF>", "<MID>", "", ""},
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", ""},
	{"[PREFIX]", "[SUFFIX]", "", "", ""},
}

// fimEnds are further tokens after which the middle has ended.
var fimEnds = []string{"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<EOT>", "▁<EOT>", "<|endoftext|>"}

// findFIM finds the tokens by their names. given are ids that a GGUF file names, -1 where it names none: they come first.
func (t *Tokenizer) findFIM(given FIM) {
	f := given
	if f.Prefix < 0 || f.Suffix < 0 || f.Middle < 0 {
		i := slices.IndexFunc(fimFamilies, func(n fimFamily) bool {
			return t.idNamed(n.prefix) >= 0 && t.idNamed(n.suffix) >= 0 && (n.middle == "" || t.idNamed(n.middle) >= 0)
		})
		if i < 0 {
			return
		}
		n := fimFamilies[i]
		f.Prefix, f.Suffix, f.Middle, f.SuffixFirst = t.idNamed(n.prefix), t.idNamed(n.suffix), t.idNamed(n.middle), n.middle == ""
	}
	for _, n := range fimFamilies {
		if f.File < 0 && n.file != "" && t.idNamed(n.prefix) == f.Prefix {
			f.Repo, f.File = max(f.Repo, t.idNamed(n.repo)), t.idNamed(n.file)
		}
	}
	f.Ends = slices.Clone(f.Ends)
	for _, name := range fimEnds {
		f.Ends = append(f.Ends, t.idNamed(name))
	}
	f.Ends = append(f.Ends, f.Repo, f.File)
	slices.Sort(f.Ends)
	f.Ends = slices.DeleteFunc(slices.Compact(f.Ends), func(id int32) bool { return id < 0 })
	t.fim = &f
}

// FIM gives the tokens with which the model fills in the middle; ok is false where it has none.
func (t *Tokenizer) FIM() (f FIM, ok bool) {
	if t.fim == nil {
		return FIM{}, false
	}
	return *t.fim, true
}

// inside is what stands before a text that is not the beginning of one: the character that CodeLlama's and Mistral's own programs take.
const inside = "☺"

// EncodeInside is Encode for a text that follows other text, without the space that some tokenizers put before the beginning of one.
func (t *Tokenizer) EncodeInside(text string, o Options) ([]int32, error) {
	front, err := t.Encode(inside, Options{})
	if err != nil || len(front) == 0 {
		return t.Encode(text, o)
	}
	if first, _ := t.vocab.text(front[0]); !strings.HasPrefix(first, metaspace) {
		return t.Encode(text, o)
	}
	o.Special = false
	if o.Most > 0 {
		o.Most += len(front)
	}
	ids, err := t.Encode(inside+text, o)
	if len(ids) < len(front) || !slices.Equal(ids[:len(front)], front) {
		return t.Encode(text, o) // the vocabulary has a word that begins with it
	}
	return ids[len(front):], err
}
