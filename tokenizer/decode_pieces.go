package tokenizer

// pieceDecoder is a decoder whose text is the concatenation of what single tokens give, which is what streaming and
// grammar masks need. The decoders of all language models are of this form.
type pieceDecoder struct {
	each    []eachToken // applied to every token, in order
	reading byteReading // of what they give
	front   stripDecoder
}

// byteReading says how the bytes of a token are spelled.
type byteReading int

const (
	plainBytes    byteReading = iota // as they are
	spelledBytes                     // in GPT-2's alphabet
	fallbackBytes                    // as they are, but <0xNN> is one byte
)

// compilePieces returns d as a pieceDecoder, or nil when it is none.
func compilePieces(d decoder) *pieceDecoder {
	if d == nil {
		return &pieceDecoder{each: []eachToken{spaced}}
	}
	p := &pieceDecoder{}
	const perToken, inBytes, whole, closed = 0, 1, 2, 3
	state := perToken
	for _, d := range flattenDecoders(d) {
		switch d := d.(type) {
		case eachToken:
			if state != perToken {
				return nil
			}
			p.each = append(p.each, d)
		case byteLevelDecoder:
			if state != perToken {
				return nil
			}
			p.reading, state = spelledBytes, whole
		case byteFallbackDecoder:
			if state != perToken {
				return nil
			}
			p.reading, state = fallbackBytes, inBytes
		case fuse:
			state = max(state, whole)
		case stripDecoder:
			switch {
			case state == perToken:
				p.each = append(p.each, func(t string, _ bool) string { return d.strip(t) })
			case state == whole && d.stop == 0:
				p.front, state = d, closed
			default:
				return nil
			}
		default:
			return nil
		}
	}
	return p
}

// spaced is what no decoder means: tokens joined with spaces.
func spaced(t string, first bool) string {
	if first {
		return t
	}
	return " " + t
}

func flattenDecoders(d decoder) []decoder {
	list, ok := d.(decoders)
	if !ok {
		return []decoder{d}
	}
	var flat []decoder
	for _, d := range list {
		flat = append(flat, flattenDecoders(d)...)
	}
	return flat
}

// bytes appends the bytes of a token to dst. The front strip is not applied: it concerns the text, not the token.
func (p *pieceDecoder) bytes(dst []byte, token string, first bool) []byte {
	for _, f := range p.each {
		token = f(token, first)
	}
	switch p.reading {
	case spelledBytes:
		return appendSpelled(dst, token)
	case fallbackBytes:
		if b, ok := byteToken(token); ok {
			return append(dst, b)
		}
	}
	return append(dst, token...)
}
