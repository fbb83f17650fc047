package gemm

// The functions of this file copy the scales of one row's block to where scaleID says they lie; nothing is computed,
// so packed weights are as large as the file's.

func copyHalf(dst, src []byte, row int) { dst[2*row], dst[2*row+1] = src[0], src[1] }

func scalesHalf(dst, b []byte, row int) { copyHalf(dst, b, row) }

func scalesHalfMin(dst, b []byte, row int) {
	copyHalf(dst, b, row)
	copyHalf(dst[64:], b[2:], row)
}

func scalesMXFP4(dst, b []byte, row int) { dst[row] = b[0] }

// lines puts byte i of src into line i of 32 rows.
func lines(dst, src []byte, row int) {
	for i, v := range src {
		dst[Granule*i+row] = v
	}
}

func scalesK4(dst, b []byte, row int) {
	copyHalf(dst, b, row)
	copyHalf(dst[64:], b[2:], row)
	lines(dst[128:], b[4:16], row)
}

func scalesQ6_K(dst, b []byte, row int) {
	copyHalf(dst, b[208:], row)
	lines(dst[64:], b[192:208], row)
}

func scalesQ3_K(dst, b []byte, row int) {
	copyHalf(dst, b[108:], row)
	lines(dst[64:], b[96:108], row)
}

func scalesQ2_K(dst, b []byte, row int) {
	copyHalf(dst, b[80:], row)
	copyHalf(dst[64:], b[82:], row)
	lines(dst[128:], b[:16], row)
}
