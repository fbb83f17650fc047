package tokenizer

import "unicode/utf8"

// spm is SentencePiece's own byte pair encoding, as a GGUF file of kind "llama" describes it: there is no list of merges;
// two neighbours merge when their text together is a token, the token of highest score first, then the leftmost.
type spm struct {
	vocab  *vocab
	rank   []uint32 // id → place of its score among all scores, the highest first; or noRank for tokens text never makes
	byteID [256]int32
	unk    int32
	cut    wordCut
}

const noRank = ^uint32(0)

// appendIDs merges runes by score. A rune without a token becomes bytes, or unk where byte tokens are missing.
func (m *spm) appendIDs(dst []int32, word string, sc *scratch) ([]int32, error) {
	w := spmWord{spm: m, text: word, heap: sc.merge.heap[:0]}
	w.split(&sc.merge)
	w.run()
	sc.merge.heap = w.heap
	for i := int32(0); int(i) < len(word); i = w.end[i] {
		piece := word[i:w.end[i]]
		if id := m.vocab.lookup(piece); id >= 0 && m.rank[id] != noRank {
			dst = append(dst, id)
			continue
		}
		for j := range len(piece) {
			id := m.byteID[piece[j]]
			if id < 0 {
				dst = append(dst, m.unk)
				break
			}
			dst = append(dst, id)
		}
	}
	return dst, nil
}

// spmWord is a word while its symbols merge. A symbol is known by the byte it starts at.
type spmWord struct {
	*spm
	text string
	end  []int32 // start of a symbol → its end
	prev []int32 // start of a symbol → start of the one before, or -1; also set at len(text)
	heap mergeHeap
	best []merge // start of a symbol → its merge with the next one, or noMerge
}

func (w *spmWord) split(sc *mergeScratch) {
	n := len(w.text)
	sc.size(n + 1)
	w.end, w.prev, w.best = sc.next, sc.prev, sc.merges
	last := int32(-1)
	for i := 0; i < n; {
		_, size := utf8.DecodeRuneInString(w.text[i:])
		w.end[i], w.prev[i], w.best[i] = int32(i+size), last, noMerge
		last = int32(i)
		i += size
	}
	w.prev[n] = last
}

func (w *spmWord) run() {
	for i := int32(0); int(i) < len(w.text); i = w.end[i] {
		w.offer(i)
	}
	for len(w.heap) > 0 {
		top := w.heap.pop()
		i := top.at
		if w.best[i] != top.merge {
			continue
		}
		j := w.end[i]
		w.best[j] = noMerge
		w.end[i] = w.end[j]
		w.prev[w.end[i]] = i
		w.offer(i)
		if p := w.prev[i]; p >= 0 {
			w.offer(p)
		}
	}
}

// offer works out the merge of the symbol at i with the next one.
func (w *spmWord) offer(i int32) {
	w.best[i] = noMerge
	j := w.end[i]
	if int(j) >= len(w.text) {
		return
	}
	if id := w.vocab.lookup(w.text[i:w.end[j]]); id >= 0 && w.rank[id] != noRank {
		// The end of the pair tells an outdated entry of the heap from a current one.
		w.best[i] = newMerge(w.rank[id], w.end[j])
		w.heap.push(mergeAt{w.best[i], i})
	}
}
