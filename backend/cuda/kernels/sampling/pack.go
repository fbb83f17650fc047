package sampling

import (
	"unsafe"

	"github.com/ridge-llm/ridge/backend/sampling"
)

// Places is where the parts of packed draws begin, in bytes.
type Places struct{ Rows, Edits, Masks int }

// Bytes is what Pack needs for these draws from rows of vocab logits, and where it puts things.
func Bytes(draws []sampling.Sample, vocab int) (n int, at Places) {
	edits, masks := 0, 0
	for i := range draws {
		edits += len(draws[i].Edits)
		if draws[i].Mask != nil {
			masks++
		}
	}
	return bytesOf(len(draws), edits, masks, vocab)
}

// Room is what Pack needs for so many draws, each with a mask, that have so many edits together.
func Room(draws, edits, vocab int) int {
	n, _ := bytesOf(draws, edits, draws, vocab)
	return n
}

func bytesOf(draws, edits, masks, vocab int) (n int, at Places) {
	at.Edits = draws * int(unsafe.Sizeof(Row{}))
	at.Masks = at.Edits + (edits+draws)*int(unsafe.Sizeof(Edit{}))
	return at.Masks + 4*masks*words(vocab), at
}

func words(vocab int) int { return (vocab + 31) / 32 }

// Pack writes draws as the kernel reads them. dst is aligned to 16 bytes and as long as Bytes says.
func Pack(dst []byte, draws []sampling.Sample, vocab int) {
	n, at := Bytes(draws, vocab)
	rows := part[Row](dst[at.Rows:at.Edits])
	edits := part[Edit](dst[at.Edits:at.Masks])
	masks := part[uint32](dst[at.Masks:n])
	edit, word := 0, 0
	for i := range draws {
		d, mask := &draws[i], int32(-1)
		if d.Mask != nil {
			mask = int32(word)
			copy(masks[word:word+words(vocab)], d.Mask)
			word += words(vocab)
		}
		rows[i] = rowOf(d, mask, int32(edit))
		for _, e := range d.Edits {
			edits[edit] = Edit{ID: e.ID, Value: e.Add, Seen: e.Seen, Counted: e.Counted}
			edit++
		}
		edit++ // room for one more
	}
}

// part is memory as a slice of T.
func part[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// Results is memory that the kernel wrote.
func Results(b []byte) []Result { return part[Result](b) }

// ResultBytes is what a result takes.
const ResultBytes = int(unsafe.Sizeof(Result{}))
