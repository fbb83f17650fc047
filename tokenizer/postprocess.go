package tokenizer

// A template is a post-processor for one text: the ids that go around it. A nil part stands for the ids of the text.
type template [][]int32

// wrapped is the template of BERT and RoBERTa.
func wrapped(first, last int32) template { return template{{first}, nil, {last}} }

// around puts t around what inner makes, as upstream's Sequence of post-processors does.
func (t template) around(inner template) template {
	if t == nil {
		return inner
	}
	if inner == nil {
		return t
	}
	var out template
	for _, part := range t {
		if part == nil {
			out = append(out, inner...)
		} else {
			out = append(out, part)
		}
	}
	return out
}

// prefix and suffix are the ids before the first and after the last text.
func (t template) prefix() (ids []int32) {
	for _, part := range t {
		if part == nil {
			break
		}
		ids = append(ids, part...)
	}
	return ids
}

func (t template) suffix() (ids []int32) {
	for _, part := range t {
		if part == nil {
			ids = ids[:0]
		} else {
			ids = append(ids, part...)
		}
	}
	return ids
}
