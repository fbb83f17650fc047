package neon

// k4 is Q4_K and Q5_K: d, dmin, and twelve bytes that hold eight six-bit scales and eight six-bit minima.
func (s *scaler) k4() {
	s.function("scaleK4", "expands the scales and minima of Q4_K and Q5_K: scale × mul, scale × off - minimum.", true)
	s.Copy(biasA, biasB)
	s.sixteen(2, func() {
		s.rowScales()
		for j := range 8 {
			const t = 4
			if j < 4 {
				s.bytes(j, t)
				s.bits(t, codeA, 0, 0, 6)
				s.bytes(j+4, t)
				s.bits(t, codeB, 0, 0, 6)
			} else {
				s.bytes(j+4, t)
				s.bits(t, codeA, 0, 0, 4)
				s.Shift(codeB, t, -4)
				s.bytes(j-4, t)
				s.bits(t, t, 6, 4, 2)
				s.Or(codeA, codeA, t)
				s.bytes(j, t)
				s.bits(t, t, 6, 4, 2)
				s.Or(codeB, codeB, t)
			}
			s.subScale(j)
		}
	})
	s.finish(8*128, 128+12*32)
}

// k6 is Q6_K: d and sixteen signed bytes, which are made unsigned by adding 128.
func (s *scaler) k6() {
	s.function("scaleK6", "expands the scales of Q6_K, times mul.", false)
	s.Load(s.Floats(1<<23+128), biasA)
	s.sixteen(1, func() {
		s.rowScales()
		s.Load(s.Bytes(0x80), 4)
		for j := range 16 {
			s.bytes(j, codeA)
			s.Xor(codeA, codeA, 4)
			s.subScale(j)
		}
	})
	s.finish(16*128, 64+16*32)
}

// k3 is Q3_K: d and twelve bytes that hold sixteen six-bit scales, less 32.
func (s *scaler) k3() {
	s.function("scaleK3", "expands the scales of Q3_K, times mul.", false)
	s.Load(s.Floats(1<<23+32), biasA)
	s.sixteen(1, func() {
		s.rowScales()
		for j := range 16 {
			const t = 4
			s.bytes(j%8, codeA)
			s.bits(codeA, codeA, j/8*4, 0, 4)
			s.bytes(8+j%4, t)
			s.bits(t, t, j/4*2, 4, 2)
			s.Or(codeA, codeA, t)
			s.subScale(j)
		}
	})
	s.finish(16*128, 64+12*32)
}

// k2 is Q2_K: d, dmin, and sixteen bytes with a four-bit scale below a four-bit minimum.
func (s *scaler) k2() {
	s.function("scaleK2", "expands the scales and minima of Q2_K: scale × mul, scale × off - minimum.", true)
	s.Copy(biasA, biasB)
	s.sixteen(2, func() {
		s.rowScales()
		for j := range 16 {
			s.bytes(j, codeB)
			s.bits(codeB, codeA, 0, 0, 4)
			s.Shift(codeB, codeB, -4)
			s.subScale(j)
		}
	})
	s.finish(16*128, 128+16*32)
}

// xs is IQ4_XS: d and six bytes that hold eight six-bit scales, less 32.
func (s *scaler) xs() {
	s.function("scaleXS", "expands the scales of IQ4_XS, times mul.", false)
	s.Load(s.Floats(1<<23+32), biasA)
	s.sixteen(1, func() {
		s.rowScales()
		for j := range 8 {
			const t = 4
			s.bytes(2+j/2, codeA)
			s.bits(codeA, codeA, j%2*4, 0, 4)
			s.bytes(j/4, t)
			s.bits(t, t, j%4*2, 4, 2)
			s.Or(codeA, codeA, t)
			s.subScale(j)
		}
	})
	s.finish(8*128, 64+6*32)
}
