package quant

import "testing"

// TestPutCodes: codes in blocks decode to scale·(code − zero), for every format that takes them.
func TestPutCodes(t *testing.T) {
	const scale = 0.25
	for f := range Format(len(descriptors)) {
		if descriptors[f].put == nil {
			continue
		}
		codes, block, got := make([]byte, f.Block()), make([]byte, f.BlockBytes()), make([]float32, f.Block())
		bits := map[Format]int{Q5_0: 5, Q5_1: 5, Q8_0: 8, UINT8: 8}[f]
		if bits == 0 {
			bits = 4
		}
		zero := 1 << (bits - 1) // formats without a zero point have the middle
		for i := range codes {
			codes[i] = byte(i * 37 % (1 << bits))
		}
		PutCodes(f, block, codes, scale, zero)
		Decode(f, got, block)
		for i, c := range codes {
			if want := scale * float32(int(c)-zero); got[i] != want {
				t.Errorf("%s: number %d, of code %d, is %g, want %g", f, i, c, got[i], want)
			}
		}
	}
}
