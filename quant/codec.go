package quant

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Decode writes the numbers of src, len(dst) of them, to dst. len(dst) is a multiple of f.Block (of FP8 and INT8 it is a whole row) and src holds
// f.RowBytes(len(dst)) bytes; anything else is the caller's bug and panics. The result is exact in float32, bit for
// bit what ggml's reference dequantisation gives (products are rounded before sums, on every architecture). Every byte
// string decodes to something: NaN and Inf come out where a float, or the scale of a block, says so.
func Decode(f Format, dst []float32, src []byte) {
	if err := checkLengths(f, len(dst), len(src)); err != nil {
		panic(err)
	}
	descriptors[f].decode(dst, src)
}

// Encode writes src, whole rows (of FP8 and INT8 one row), to dst in format f; the lengths are as for Decode, and anything else panics likewise.
// Rows are independent of each other: a caller with several cores gives each its own. Codes are rounded to nearest,
// ties to even. An error names the first number that f cannot hold: one beyond its range, or NaN or Inf where f is
// neither F32, F16 nor BF16, which keep those. How far the result may be off is in bound.go. A format that
// is only read is an error.
func Encode(f Format, dst []byte, src []float32) error {
	if err := checkLengths(f, len(src), len(dst)); err != nil {
		panic(err)
	}
	if descriptors[f].encode == nil {
		return fmt.Errorf("quant: numbers in %s can be read but not written", f)
	}
	if err := checkNumbers(f, src); err != nil {
		return err
	}
	descriptors[f].encode(dst, src)
	return nil
}

// EncodeWeighted is Encode of one row, or the beginning of one, for which it is known how much a squared error in each number counts: importance,
// as long as src. Formats whose scales are not searched for take no notice of it.
func EncodeWeighted(f Format, dst []byte, src, importance []float32) error {
	if !f.Valid() || descriptors[f].weighted == nil || importance == nil {
		return Encode(f, dst, src)
	}
	if err := checkLengths(f, len(src), len(dst)); err != nil {
		panic(err)
	}
	if len(importance) != len(src) {
		panic(fmt.Sprintf("quant: importances of %d numbers for %d", len(importance), len(src)))
	}
	if err := checkNumbers(f, src); err != nil {
		return err
	}
	if importance = floored(importance); importance == nil {
		descriptors[f].encode(dst, src)
		return nil
	}
	descriptors[f].weighted(dst, src, importance)
	return nil
}

// leastImportance is the least that a number's error counts, of the mean of its row.
const leastImportance = 1e-6

// floored is importances of which none is zero: where no number of a block counted, its scale would be any, such as zero, and what the text of the importances did
// not use would be lost for others. nil: all are.
func floored(importance []float32) []float32 {
	sum := 0.0
	for _, v := range importance {
		sum += float64(v)
	}
	if sum == 0 {
		return nil
	}
	least := float32(leastImportance * sum / float64(len(importance)))
	if slices.Min(importance) >= least {
		return importance
	}
	own := slices.Clone(importance)
	for i, v := range own {
		own[i] = max(v, least)
	}
	return own
}

// part is importances [from, from+n), if there are any.
func part(importance []float32, from, n int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[from : from+n]
}

// rest is importances from n on, if there are any.
func rest(importance []float32, n int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[n:]
}

func checkLengths(f Format, n, bytes int) error {
	switch {
	case !f.Valid():
		return fmt.Errorf("quant: unknown number format %d", uint8(f))
	case n%f.Block() != 0:
		return fmt.Errorf("quant: %d numbers do not divide into %s blocks of %d", n, f, f.Block())
	case int64(bytes) != f.RowBytes(n):
		return fmt.Errorf("quant: %d numbers in %s are %d bytes, not %d", n, f, f.RowBytes(n), bytes)
	}
	return nil
}

// order is the byte order of every format.
var order = binary.LittleEndian

// f16at reads the little-endian binary16 number at b[0:2]: the scale of most blocks.
func f16at(b []byte) float32 { return F16ToF32(order.Uint16(b)) }
