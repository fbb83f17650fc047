package tokenizer

import (
	"errors"
	"slices"
)

// joint is what stands around two texts that are read together, as by an encoder that compares them.
type joint struct{ before, between, after []int32 }

// ErrNoPairs is returned for tokenizers that do not say how two texts are put together.
var ErrNoPairs = errors.New("tokenizer: the model's files do not say how two texts are put together")

// Pair is two texts as one sequence, [CLS] a [SEP] b [SEP] for BERT.
type Pair struct {
	IDs        []int32
	Begin, End int // of the second text in IDs
}

// EncodePair puts two texts together as the model expects it, of each the first most tokens (0: all). Special tokens written in them are text.
func (t *Tokenizer) EncodePair(a, b string, most int) (p Pair, err error) {
	if t.joint == nil {
		return p, ErrNoPairs
	}
	o := Options{Most: most}
	if p.IDs, err = t.AppendEncode(slices.Clone(t.joint.before), a, o); err != nil && err != ErrMore {
		return p, err
	}
	p.IDs = append(p.IDs, t.joint.between...)
	p.Begin = len(p.IDs)
	if p.IDs, err = t.AppendEncode(p.IDs, b, o); err != nil && err != ErrMore {
		return p, err
	}
	p.End = len(p.IDs)
	p.IDs = append(p.IDs, t.joint.after...)
	return p, nil
}

// joint reads what a post-processor does with two texts; of several the last that says something counts. nil: none does.
func (c *component) joint() (j *joint) {
	for _, part := range c.list(func(c *component) []*component { return c.Processors }) {
		switch part.Type {
		case "BertProcessing":
			j = &joint{[]int32{part.Cls.id}, []int32{part.Sep.id}, []int32{part.Sep.id}}
		case "RobertaProcessing":
			j = &joint{[]int32{part.Cls.id}, []int32{part.Sep.id, part.Sep.id}, []int32{part.Sep.id}}
		case "TemplateProcessing":
			if found := part.templateJoint(); found != nil {
				j = found
			}
		}
	}
	return j
}

// templateJoint reads a template's pair: special tokens around $A and $B. nil when it is no such thing.
func (c *component) templateJoint() *joint {
	var parts [3][]int32
	at := 0
	for _, p := range c.Pair {
		switch {
		case p.Sequence != nil && p.Sequence.ID == []string{"A", "B", ""}[at]:
			at++
		case p.Sequence != nil:
			return nil
		case p.SpecialToken != nil:
			parts[at] = append(parts[at], c.SpecialTokens[p.SpecialToken.ID].IDs...)
		}
	}
	if at != 2 {
		return nil
	}
	return &joint{parts[0], parts[1], parts[2]}
}
