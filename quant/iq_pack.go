package quant

// How the encoder's choices are laid out in blocks; see iq2.go and iq3.go.

// halfUnits are scales of (scale + 1/2)·factor.
func halfUnits(factor float64) func(int) float64 {
	return func(scale int) float64 { return (float64(scale) + 0.5) * factor }
}

var (
	gridIQ2_XXS = pointGrid{sub: 32, size: 8, even: true, points: iq2xxsGrid, unit: halfUnits(0.25), pack: packIQ2_XXS}
	gridIQ2_XS  = pointGrid{sub: 16, size: 8, even: true, points: iq2xsGrid, unit: halfUnits(0.25), pack: packIQ2_XS}
	gridIQ2_S   = pointGrid{sub: 16, size: 8, points: iq2sGrid, unit: halfUnits(0.25), pack: packIQ2_S}
	gridIQ3_XXS = pointGrid{sub: 32, size: 4, even: true, points: iq3xxsGrid, unit: halfUnits(0.5), pack: packIQ3_XXS}
	gridIQ3_S   = pointGrid{sub: 32, size: 4, points: iq3sGrid, unit: func(scale int) float64 { return float64(1 + 2*scale) }, pack: packIQ3_S}
)

// evenPart is the signs of 32 numbers, seven bits of each eight, with a scale above.
func (p *pointBlock) evenPart(i int) uint32 {
	v := uint32(p.scales[i]) << 28
	for l := range 4 {
		v |= uint32(p.signs[4*i+l]&127) << (7 * l)
	}
	return v
}

// putScales puts n scales of four bits, two to a byte.
func (p *pointBlock) putScales(b []byte, n int) {
	for i, s := range p.scales[:n] {
		b[i/2] |= s << (i % 2 * 4)
	}
}

func packIQ2_XXS(b []byte, p *pointBlock) {
	for i := range 8 {
		for l := range 4 {
			b[2+8*i+l] = byte(p.index[4*i+l])
		}
		order.PutUint32(b[6+8*i:], p.evenPart(i))
	}
}

func packIQ2_XS(b []byte, p *pointBlock) {
	for i := range 32 {
		order.PutUint16(b[2+2*i:], p.index[i]|uint16(p.signs[i]&127)<<9)
	}
	p.putScales(b[66:], 16)
}

func packIQ2_S(b []byte, p *pointBlock) {
	for i := range 32 {
		b[2+i] = byte(p.index[i])
		b[66+i/4] |= byte(p.index[i]>>8) << (2 * (i % 4))
	}
	copy(b[34:], p.signs[:])
	p.putScales(b[74:], 16)
}

func packIQ3_XXS(b []byte, p *pointBlock) {
	for i := range 64 {
		b[2+i] = byte(p.index[i])
	}
	for i := range 8 {
		order.PutUint32(b[66+4*i:], p.evenPart(i))
	}
}

func packIQ3_S(b []byte, p *pointBlock) {
	for i := range 64 {
		b[2+i] = byte(p.index[i])
		b[66+i/8] |= byte(p.index[i]>>8) << (i % 8)
	}
	copy(b[74:], p.signs[:])
	p.putScales(b[106:], 8)
}
