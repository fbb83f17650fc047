package ridge

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/tokenizer"
)

// Infill is a text with a gap that a model is to fill.
type Infill struct {
	Prefix string // before the gap
	Suffix string // behind it
	Files  []InfillFile
}

// InfillFile is another text of the same project, for the model to know.
type InfillFile struct{ Name, Text string }

// projectName and fileName stand where a model expects the names of the project and of the file with the gap, which are not known: those of llama.cpp.
const projectName, fileName = "myproject\n", "filename\n"

// snippet stands before the text of another file where a model has no token for that: as llama.cpp has it.
const snippet = "\n\n--- snippet ---\n\n"

// CanInfill reports whether the model's vocabulary has tokens for filling in the middle.
func (m *Model) CanInfill() bool {
	_, ok := m.tokenizer.FIM()
	return ok
}

// EncodeInfill is the prompt with which a model fills in the middle, and the tokens that end it beside the model's own, for Params.StopIDs. Special
// tokens that the texts spell are only text. Models without tokens for it, and prompts many times too long, are refused.
//
// The prompt is, by the tokens that the model has: BOS, [repo] project, {[file] name text}, [file] name, [prefix] … [suffix] … [middle], or
// [suffix] … [prefix] … (Codestral).
func (m *Model) EncodeInfill(f Infill) (prompt, ends []int32, err error) {
	fim, ok := m.tokenizer.FIM()
	if !ok {
		return nil, nil, &Error{Kind: ErrInvalidRequest, Reason: fmt.Sprintf("the vocabulary of %s has no tokens for filling in the middle; take a model made for it, such as Qwen2.5-Coder", m.name)}
	}
	b := infillPrompt{model: m, fim: fim}
	if bos, ok := m.tokenizer.BOS(); ok && m.startsWith(bos) {
		b.ids = append(b.ids, bos)
	}
	b.files(f.Files)
	switch {
	case fim.SuffixFirst:
		b.token(fim.Suffix)
		b.inside(f.Suffix)
		b.token(fim.Prefix)
		b.text(f.Prefix)
	default:
		b.token(fim.Prefix)
		b.text(f.Prefix)
		b.token(fim.Suffix)
		b.inside(f.Suffix)
		b.token(fim.Middle)
	}
	return b.ids, slices.Clone(fim.Ends), b.err
}

// startsWith reports whether the model expects a token at the beginning of every text.
func (m *Model) startsWith(bos int32) bool {
	ids, err := m.tokenizer.Encode("", tokenizer.Options{Special: true})
	return err == nil && len(ids) > 0 && ids[0] == bos
}

// infillPrompt is a prompt under construction; once a text was refused nothing is added.
type infillPrompt struct {
	model *Model
	fim   tokenizer.FIM
	ids   []int32
	err   error
}

// token adds a token, if the model has it.
func (b *infillPrompt) token(id int32) {
	if id >= 0 {
		b.ids = append(b.ids, id)
	}
}

// text adds a text that begins as one does.
func (b *infillPrompt) text(s string) { b.add(s, b.model.tokenizer.Encode) }

// inside adds a text that goes on where another was.
func (b *infillPrompt) inside(s string) { b.add(s, b.model.tokenizer.EncodeInside) }

func (b *infillPrompt) add(s string, encode func(string, tokenizer.Options) ([]int32, error)) {
	if b.err != nil || s == "" {
		return
	}
	var ids []int32
	ids, b.err = b.model.encodeUpTo(s, tokenizer.Options{}, encode)
	b.ids = append(b.ids, ids...)
}

// files adds other files, each behind the token for it, and begins the file with the gap.
func (b *infillPrompt) files(all []InfillFile) {
	if len(all) == 0 {
		return
	}
	if b.fim.Repo >= 0 {
		b.token(b.fim.Repo)
		b.inside(projectName)
	}
	for _, f := range all {
		if b.fim.File < 0 {
			b.inside(snippet + f.Text)
			continue
		}
		b.token(b.fim.File)
		b.inside(f.Name + "\n" + f.Text)
	}
	if b.fim.File >= 0 {
		b.token(b.fim.File)
		b.inside(fileName)
	}
}
