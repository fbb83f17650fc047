// Package shelf is models by short names, llama3.2:1b, and what each needs. It says where they are on the Hugging Face hub and fetches nothing.
package shelf

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed models.txt
var table string

// Model is a row of the shelf.
type Model struct {
	Family      string `json:"family"` // what the models of several sizes are called: llama3.2
	Tag         string `json:"tag"`    // which of them: 1b
	Repo        string `json:"repository"`
	Quant       string `json:"quantization"` // of the file in it
	Bytes       int64  `json:"bytes"`        // of the file
	Recommended bool   `json:"recommended"`
	About       string `json:"about"`
}

// Name is what the model is called: llama3.2:1b.
func (m Model) Name() string { return m.Family + ":" + m.Tag }

// Ref is the model on the hub, as internal/hub reads it.
func (m Model) Ref() string { return m.Repo + ":" + m.Quant }

// beside is what a model takes beside its weights, in bytes, whatever its size: the program, a step's activations, a cache of some thousand tokens.
const beside = 512 << 20

// Needs is the memory to run the model in: its weights, an eighth more for the cache, and what is beside. It is an estimate: what a cache takes is known
// when the model is loaded, which takes as much of it as there is room for.
func (m Model) Needs() int64 { return m.Bytes + m.Bytes/8 + beside }

// The parts of a memory that a model may need: other programs have the rest.
const (
	mainPart = 0.75
	gpuPart  = 0.92
)

// Fits reports whether a memory of so many bytes in all has room for the model.
func (m Model) Fits(memory int64, gpu bool) bool {
	part := mainPart
	if gpu {
		part = gpuPart
	}
	return float64(m.Needs()) <= part*float64(memory)
}

// All is every model, those of a family together, the one that its name alone means first.
func All() []Model {
	var all []Model
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			bytes, err := strconv.ParseInt(f[4], 10, 64)
			if err != nil {
				panic("shelf: models.txt: " + err.Error()) // it is a part of the program, and a test reads it
			}
			all = append(all, Model{Family: f[0], Tag: f[1], Repo: f[2], Quant: f[3], Bytes: bytes, Recommended: f[5] == "yes", About: strings.Join(f[6:], " ")})
		}
	}
	return all
}

var quantTag = regexp.MustCompile(`(?i)^(.+)-((?:i?q[1-8]_[a-z0-9_]+)|mxfp4|bf16|f16)$`)

// Find is the model of a name: llama3.2:1b, llama3.2:1b-q8_0 (another quantisation, whose size is not known: Bytes is 0), or llama3.2, which is the first of the family
// that a memory has room for, of those that are not larger than the usual one; latest is the same. With 0 bytes of memory it is the usual one.
func Find(name string, memory int64, gpu bool) (Model, bool) {
	name = strings.ToLower(name)
	family, tag, tagged := strings.Cut(name, ":")
	all := slices.DeleteFunc(All(), func(m Model) bool { return m.Family != family })
	if len(all) == 0 {
		return Model{}, false
	}
	if !tagged || tag == "latest" {
		return usual(all, memory, gpu), true
	}
	quant := ""
	if m := quantTag.FindStringSubmatch(tag); m != nil {
		tag, quant = m[1], strings.ToUpper(m[2])
	}
	for _, m := range all {
		if m.Tag != tag {
			continue
		}
		if quant != "" && quant != m.Quant {
			m.Quant, m.Bytes = quant, 0
		}
		return m, true
	}
	return Model{}, false
}

// usual is the first of a family if it fits, or else the largest smaller one that does, or else the smallest.
func usual(all []Model, memory int64, gpu bool) Model {
	if memory == 0 || all[0].Fits(memory, gpu) {
		return all[0]
	}
	first := all[0]
	slices.SortFunc(all, func(a, b Model) int { return int(b.Bytes - a.Bytes) })
	for _, m := range all {
		if m.Bytes < first.Bytes && m.Fits(memory, gpu) {
			return m
		}
	}
	return all[len(all)-1]
}

// Recommend is the largest of the recommended models that a memory of so many bytes has room for.
func Recommend(memory int64, gpu bool) (best Model, ok bool) {
	for _, m := range All() {
		if m.Recommended && m.Fits(memory, gpu) && m.Bytes > best.Bytes {
			best, ok = m, true
		}
	}
	return best, ok
}

// Search is the models that all words are in: in a name, a repository, or what is said about it.
func Search(words []string) []Model {
	return slices.DeleteFunc(All(), func(m Model) bool {
		text := strings.ToLower(fmt.Sprint(m.Name(), " ", m.Ref(), " ", m.About))
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
	})
}

// Like are the names of models that begin as a word does, up to its first digit or sign: what may have been meant.
func Like(word string) (names []string) {
	stem := stemOf(word)
	for _, m := range All() {
		if stem != "" && stemOf(m.Family) == stem {
			names = append(names, m.Name())
		}
	}
	return names
}

func stemOf(word string) string {
	word = strings.ToLower(word)
	if i := strings.IndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		word = word[:i]
	}
	return word
}
