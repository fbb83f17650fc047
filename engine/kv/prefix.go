package kv

// Open begins a sequence with the pages that the index has for the beginning of its tokens, and returns how many
// tokens those hold. One token at least is left to compute, since computing it is what gives the first logits. Only
// sequences of equal salt share: give every tenant and adapter a number of its own.
func (p *Pool) Open(s *Seq, salt uint64, tokens []int32) int {
	s.salt = salt
	p.stats.Queried += int64(len(tokens))
	return p.Extend(s, tokens)
}

// Extend is Open for a sequence that is under way: if it ends at the end of a page, and the index has come to have
// what follows, it takes that over. It returns how many tokens further that brings it. tokens are all it knows.
func (p *Pool) Extend(s *Seq, tokens []int32) int {
	before := s.length
	if before%p.pageSize != 0 || s.published < len(s.pages) {
		return 0
	}
	last := none
	if s.published > 0 {
		last = s.pages[s.published-1]
	}
	for s.length+p.pageSize < len(tokens) {
		page := p.index.Find(last, s.salt, tokens[s.length:s.length+p.pageSize])
		if page == none {
			break
		}
		p.hold(page)
		s.pages = append(s.pages, page)
		s.length += p.pageSize
		s.published++
		last = page
	}
	s.settled = s.length
	p.stats.Found += int64(s.length - before)
	return s.length - before
}

// Match is what Open would find, without taking it: the tokens, and how many of their pages are idle now. Those count
// in Available, and would not after Open.
func (p *Pool) Match(salt uint64, tokens []int32) (found, idle int) {
	last := none
	for found+p.pageSize < len(tokens) {
		last = p.index.Find(last, salt, tokens[found:found+p.pageSize])
		if last == none {
			break
		}
		found += p.pageSize
		if p.holders[last] == 0 {
			idle++
		}
	}
	return found, idle
}

// Publish enters the sequence's full pages into the index, as far as tokens are known. Where the index already has a
// page of the same tokens, because two requests computed them side by side, the sequence takes that one and gives up
// its own: what the index has stays a tree of which every sequence holds a whole branch. It waits with that while
// the step being planned writes the page, or a fork shares it.
func (p *Pool) Publish(s *Seq, tokens []int32) {
	full := min(s.length, len(tokens)) / p.pageSize
	for s.published < full {
		i := s.published
		last := none
		if i > 0 {
			last = s.pages[i-1]
		}
		own, words := s.pages[i], tokens[i*p.pageSize:(i+1)*p.pageSize]
		switch page := p.index.Find(last, s.salt, words); {
		case page == own: // a fork published it
		case page == none:
			if !p.index.Insert(last, s.salt, words, own) {
				return
			}
			p.indexed[own] = true
		case (i+1)*p.pageSize > s.settled || p.holders[own] > 1:
			return
		default:
			p.hold(page)
			s.pages[i] = page
			p.release(own)
		}
		s.published++
	}
}
