package sampling

import (
	"unsafe"

	"github.com/ridge-llm/ridge/backend/sampling"
)

// Places is the offsets of the parts of packed samples, in bytes.
type Places struct{ Rows, Edits, Masks int }

// Bytes is the size that Pack needs for samples of rows of vocab logits, and the offsets of its parts.
func Bytes(samples []sampling.Sample, vocab int) (n int, at Places) {
	edits, masks := 0, 0
	for i := range samples {
		edits += len(samples[i].Edits)
		if samples[i].Mask != nil {
			masks++
		}
	}
	return bytesOf(len(samples), edits, masks, vocab)
}

// Room is the size that Pack needs for so many samples, each with a mask, with so many edits in all.
func Room(samples, edits, vocab int) int {
	n, _ := bytesOf(samples, edits, samples, vocab)
	return n
}

func bytesOf(samples, edits, masks, vocab int) (n int, at Places) {
	at.Edits = samples * int(unsafe.Sizeof(Row{}))
	at.Masks = at.Edits + (edits+samples)*int(unsafe.Sizeof(Edit{}))
	return at.Masks + 4*masks*words(vocab), at
}

func words(vocab int) int { return (vocab + 31) / 32 }

// Pack writes samples as the kernel reads them. dst is aligned to 16 bytes and as long as Bytes says.
func Pack(dst []byte, samples []sampling.Sample, vocab int) {
	n, at := Bytes(samples, vocab)
	rows := part[Row](dst[at.Rows:at.Edits])
	edits := part[Edit](dst[at.Edits:at.Masks])
	masks := part[uint32](dst[at.Masks:n])
	edit, word := 0, 0
	for i := range samples {
		d, mask := &samples[i], int32(-1)
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

// part returns memory as a slice of T.
func part[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// Results returns memory that the kernel wrote as its results.
func Results(b []byte) []Result { return part[Result](b) }

// ResultBytes is the size of a result.
const ResultBytes = int(unsafe.Sizeof(Result{}))
