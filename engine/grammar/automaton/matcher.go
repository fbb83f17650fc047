package automaton

import "fmt"

// Matcher follows one text through an automaton. It is used by one goroutine at a time.
type Matcher struct {
	a     *Automaton
	at    *position
	ended bool // by an end token
	keep  int  // tokens that can be taken back
	past  []past
}

// past is what a matcher was before a token.
type past struct {
	at    *position
	ended bool
}

// Start returns a matcher at the beginning of a text.
func (a *Automaton) Start() (*Matcher, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	p, err := a.start()
	if err != nil {
		return nil, err
	}
	return &Matcher{a: a, at: p}, nil
}

// Mask sets in dst the bits of the tokens that may come next, and clears the others: bit i%32 of dst[i/32] is token i.
// dst has Vocabulary.MaskWords words. At least one bit is set if the vocabulary can spell every byte and has an end
// token. An error means that the grammar is too ambiguous; the request should end with it.
func (m *Matcher) Mask(dst []uint32) error {
	if len(dst) != m.a.vocab.MaskWords() {
		return fmt.Errorf("grammar: a mask of %d words was given for a vocabulary of %d tokens; it takes %d", len(dst), m.a.vocab.size, m.a.vocab.MaskWords())
	}
	clear(dst)
	if m.ended {
		return nil
	}
	sets, err := m.allowed()
	if err != nil {
		return err
	}
	for _, s := range sets {
		s.into(dst)
	}
	if m.at.done {
		for _, e := range m.a.vocab.ends {
			setBit(dst, e)
		}
	}
	return nil
}

// allowed returns the sets of tokens that may come next, end tokens apart.
func (m *Matcher) allowed() ([]*tokenSet, error) {
	a := m.a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	m.at = a.adopt(m.at)
	if err := a.allow(m.at); err != nil {
		return nil, err
	}
	return m.at.allowed, nil
}

// Accept appends a token to the text. If the grammar does not allow it there, the error says so and nothing changes.
func (m *Matcher) Accept(token int32) error {
	v := m.a.vocab
	if token < 0 || int(token) >= v.size {
		return fmt.Errorf("grammar: token %d is not one of the vocabulary's %d tokens", token, v.size)
	}
	if m.ended {
		return fmt.Errorf("grammar: token %d comes after the end of the text", token)
	}
	next, ended := m.at, false
	switch {
	case v.isEnd(token):
		if !m.at.done {
			return fmt.Errorf("grammar: token %d ends the text where it is not complete", token)
		}
		ended = true
	case len(v.bytes[token]) == 0:
		return fmt.Errorf("grammar: token %d is a special token or no text, which no grammar allows", token)
	default:
		p, err := m.read(v.bytes[token])
		if err != nil {
			return err
		}
		if !p.lives() {
			return fmt.Errorf("grammar: token %d (%q) is not allowed by the grammar here", token, v.bytes[token])
		}
		next = p
	}
	m.remember()
	m.at, m.ended = next, ended
	return nil
}

// Keep has the matcher be ready to take back the last n tokens, of those that are accepted from now on.
func (m *Matcher) Keep(n int) { m.keep = n }

// remember keeps what the matcher is now. The list is cut to its end when it is twice as long as is needed.
func (m *Matcher) remember() {
	if m.keep == 0 {
		return
	}
	if len(m.past) >= 2*m.keep {
		kept := copy(m.past, m.past[len(m.past)-m.keep:])
		clear(m.past[kept:])
		m.past = m.past[:kept]
	}
	m.past = append(m.past, past{m.at, m.ended})
}

// Rollback takes back the last n tokens, as if they had never been accepted. Keep says how many it can at least.
func (m *Matcher) Rollback(n int) error {
	if most := min(len(m.past), m.keep); n < 0 || n > most {
		return fmt.Errorf("grammar: %d tokens cannot be taken back; %d can", n, most)
	}
	if n > 0 {
		at := len(m.past) - n
		m.at, m.ended = m.past[at].at, m.past[at].ended
		clear(m.past[at:])
		m.past = m.past[:at]
	}
	return nil
}

// read returns the position after some bytes.
func (m *Matcher) read(text []byte) (*position, error) {
	a := m.a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	m.at = a.adopt(m.at)
	p := m.at
	for _, b := range text {
		i, err := a.step(p, a.prog.class[b])
		if err != nil {
			return nil, err
		}
		p = a.positions[i]
	}
	return p, nil
}

// Done reports whether the text is complete: an end token may come next, or has come.
func (m *Matcher) Done() bool { return m.at.done || m.ended }

// Closed reports whether the text is complete and nothing but its end may follow.
func (m *Matcher) Closed() bool { return m.ended || m.at.done && len(m.at.items) == 0 }
