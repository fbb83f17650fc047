package model

// Diffusion is what a model that fills masked tokens in (masked diffusion, arXiv:2502.09992) needs to be asked for text. It looks both ways.
type Diffusion struct {
	Mask  int32 // the token that stands where one is still to be found
	Shift bool  // a row says which token comes after its own, as in models that were trained left to right first
	Block int   // tokens that the model was made to find side by side (block_length); 0: it does not say
}

// GGUF's keys for it, which have no architecture's prefix: llama.cpp's, but for the length of blocks.
const (
	ggufMask        = "tokenizer.ggml.mask_token_id"
	ggufShift       = "diffusion.shift_logits"
	ggufBlockLength = "diffusion.block_length"
)

// diffusion reads what is to be known of a model that fills masked tokens in. GGUF files may say whether rows are shifted; shift is how it is otherwise.
func (f *fields) diffusion(c *Config, shift bool) {
	d := &Diffusion{Shift: shift}
	mask := f.everywhere("mask_token_id", ggufMask)
	if mask < 0 {
		f.fail("field mask_token_id is missing; the model fills in what is masked and needs to know how")
	} else if mask >= c.Vocab {
		f.fail("field mask_token_id is %d and the vocabulary has %d tokens", mask, c.Vocab)
	}
	d.Mask, d.Block = int32(mask), max(0, f.everywhere("block_length", ggufBlockLength))
	if v, ok := f.gguf[ggufShift].(bool); ok {
		d.Shift = v
	}
	f.note("/"+ggufMask, uint32(mask))
	f.note("/"+ggufShift, d.Shift)
	if d.Block > 0 {
		f.note("/"+ggufBlockLength, uint32(d.Block))
	}
	c.Diffusion = d
}

// everywhere is a whole number of config.json, or of a key of GGUF that has no architecture's prefix; -1: it is not there.
func (f *fields) everywhere(hf, gguf string) int {
	v := f.gguf[gguf]
	if f.isHF() {
		v = f.value(hf)
	}
	if v == nil {
		return -1
	}
	n, ok := number(v)
	if i := int(n); ok && n >= 0 && n <= maxTokens && float64(i) == n {
		return i
	}
	f.fail("field %s is %v and a whole number is wanted", hf, v)
	return -1
}
