package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// A group of activations: six rows of some blocks of 32 numbers with a scale for each row; see gemm.GroupedActs.
const (
	groupBias   = 4 * tileRows // int32 each, behind as many float32 scales
	groupHeader = 64
	groupBlock  = 32 * tileRows
)

// grouped writes the kernels of grouped matmuls: weights are requantized to bytes with one scale for each row and group of 64 numbers or
// more, and then as many products follow one another without a float operation.
func grouped(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		requantScales(w)
		for _, f := range layouts {
			if f.planes < 8 {
				requant(w, f, consts)
			}
		}
		if w.AVX512() {
			quantizeGrouped(w)
			groupedTiles(w, consts)
			return
		}
		quantizeSums(w)
		t := groupedTile{block256{codes: &codes{Width: w, magic: consts.magic}, rows: tileRows, vectors: 2}}
		t.kernel()
	}
}

// requantScales turns expanded scales and minima into what requant multiplies and adds. A weight is scale·c + minimum, c from -128 to 127,
// so that none in a group is larger than 127 times the group's own scale, the largest of |scale|·128 + |minimum| in 127ths.
// In 256ths of that scale, c·256 becomes c·256·ratio + offset: ratio in 15 bits behind the point, for VPMULHRSW, the offset such that
// the upper byte is the rounded weight plus 128. Both are written twice, for both words of four k, in place of the scales and minima.
func requantScales(w emit.Width) {
	name := "requantScales" + w.Suffix()
	w.Func(name, "func(scales, mins, groupScales *float32, subBlocks, groups int)",
		name+" turns groups of so many sub-blocks of 32 scales and minima into ratios and offsets, and one scale for each row and group.")
	scales, mins, groupScales := w.Arg("scales", RDI), w.Arg("mins", RSI), w.Arg("groupScales", RDX)
	subBlocks, groups := w.Arg("subBlocks", RCX), w.Arg("groups", R8)
	largest, scale, t, u, ratio, offset := w.Reg(0), w.Reg(1), w.Reg(2), w.Reg(3), w.Reg(4), w.Reg(5)
	positive, words, bias, zero := w.Reg(6), w.Reg(7), w.Reg(8), w.Reg(9)
	w.Move(w.RepeatBits("groupPositive", 0x7fffffff), positive)
	w.Move(w.RepeatBits("groupWord", 0xffff), words)
	w.Move(w.RepeatBits("groupOffset", 0x8080), bias)
	w.Zero(zero)
	w.Label("loop")
	for v := 0; v < 128; v += w.Bytes {
		label := fmt.Sprint(v)
		w.LEAQ(emit.At(scales, v), R9)
		w.LEAQ(emit.At(mins, v), R10)
		w.MOVQ(subBlocks, R11)
		w.Zero(largest)
		w.Label("largest" + label)
		w.And(emit.At(R9, 0), positive, t)
		w.And(emit.At(R10, 0), positive, u)
		w.VFMADD132PS(w.Repeat("group128", 128), u, t)
		w.VPMAXSD(t, largest, largest) // as integers, so that a NaN wins
		w.Advance(R9, 128)
		w.Advance(R10, 128)
		w.DECQ(R11)
		w.JNZ(LabelRef("largest" + label))

		w.VMULPS(w.Repeat("group127th", 1./127), largest, scale)
		w.VPADDD(w.RepeatBits("groupUp", 0xff), scale, scale) // up to 16 significant bits, see dot.scaled
		w.And(w.RepeatBits("groupBits", 0xffffff00), scale, scale)
		w.VMOVUPS(scale, emit.At(groupScales, v))
		w.Move(w.Repeat("groupSteps", 256), t)
		w.VDIVPS(scale, t, offset)
		if w.AVX512() { // a group of zeros must not divide by zero
			w.VCMPPS(Imm(4), zero, scale, K1)
			w.VMOVAPS_Z(offset, K1, offset)
		} else {
			w.VCMPPS(Imm(4), zero, scale, t)
			w.And(t, offset, offset)
		}
		w.VMULPS(w.Repeat("group128", 128), offset, ratio)

		w.LEAQ(emit.At(scales, v), R9)
		w.LEAQ(emit.At(mins, v), R10)
		w.MOVQ(subBlocks, R11)
		w.Label("each" + label)
		for i, from := range []GPPhysical{R9, R10} {
			by := []VecPhysical{ratio, offset}[i]
			w.VMULPS(emit.At(from, 0), by, t)
			w.VCVTPS2DQ(t, t)
			if from == R10 {
				w.VPADDD(bias, t, t)
			}
			w.VPSLLD(Imm(16), t, u)
			w.And(words, t, t)
			w.Or(t, u, u)
			w.Move(u, emit.At(from, 0))
			w.Advance(from, 128)
		}
		w.DECQ(R11)
		w.JNZ(LabelRef("each" + label))
	}
	w.MOVQ(R9, scales)
	w.MOVQ(R10, mins)
	w.SUBQ(U32(uint32(128-w.Bytes)), scales) // the last vector began so far into its row
	w.SUBQ(U32(uint32(128-w.Bytes)), mins)
	w.Advance(groupScales, 128)
	w.DECQ(groups)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// requant writes the kernel that requantizes codes of a layout to bytes with group scales and an offset of 128.
func requant(w emit.Width, f layout, consts constants) {
	name := fmt.Sprintf("requant%s%s", f.name, w.Suffix())
	w.Func(name, "func(panel, w *byte, ratios, offsets *float32, blocks int)",
		fmt.Sprintf("%s turns blocks of %s codes of 32 rows into bytes with group scales, see requantScales%s.", name, f.name, w.Suffix()))
	panel, weights, blocks := w.Arg("panel", RDI), w.Arg("w", RAX), w.Arg("blocks", RCX)
	from := [2]GPPhysical{w.Arg("ratios", RBX), w.Arg("offsets", RDX)}
	flip, upper, ratio, offset := w.Reg(12), w.Reg(13), w.Reg(14), w.Reg(15)
	c := consts.codes(w, f, 9, 12)
	if f.name == "M4" { // its values are 12 at most, and are made ten times as large
		table := w.Constant("tableGrouped" + w.Suffix())
		for i := range w.Bytes {
			w.AddDatum(i, U8(128+10*(f.table[i%16]-128)))
		}
		w.Move(table, c.table.(VecPhysical))
	}
	w.Move(c.flip, flip)
	w.Move(w.RepeatBits("groupUpper", 0xff00ff00), upper)
	subs := 1
	if f.sub16 {
		subs = 2
	}
	w.Label("loop")
	for v := 0; v < 128; v += w.Bytes {
		for j := range 8 {
			if j%(8/subs) == 0 {
				at := 128*(j*subs/8) + v
				w.Move(emit.At(from[0], at), ratio)
				w.Move(emit.At(from[1], at), offset)
			}
			odd, even := w.Reg(j%3), w.Reg(3+j%3)
			f.group(c, j, emit.At(weights, v), odd, w.Reg(6+j%3))
			w.Xor(odd, flip, odd) // signed
			w.VPSLLW(Imm(8), odd, even)
			w.And(odd, upper, odd)
			for _, r := range []VecPhysical{odd, even} {
				w.VPMULHRSW(r, ratio, r)
				w.VPADDW(r, offset, r)
			}
			w.VPSRLW(Imm(8), even, even)
			if w.AVX512() {
				w.VPTERNLOGD(U8(0xea), even, upper, odd) // odd & upper | even
			} else {
				w.And(odd, upper, odd)
				w.Or(even, odd, odd)
			}
			w.Move(odd, emit.At(panel, 128*j+v))
		}
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(panel, 1024)
	for _, r := range from {
		w.Advance(r, 128*subs)
	}
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// quantizeGrouped writes the quantization of a row of activations with per-group scales.
func quantizeGrouped(w emit.Width) {
	name := "quantizeGrouped" + w.Suffix()
	w.Func(name, "func(head, codes *byte, src *float32, blocks, groups int)",
		name+" rounds groups of so many blocks of 32 activations of a row: head is where the row's scale lies, codes where its first block.")
	head, to, src := w.Arg("head", RDI), w.Arg("codes", RDX), w.Arg("src", RSI)
	blocks, groups := w.Arg("blocks", RCX), w.Arg("groups", R8)
	w.IMUL3Q(U32(groupBlock), blocks, R10) // bytes of a group
	w.ADDQ(Imm(groupHeader), R10)
	positive, largest, sum, by := w.Reg(8), w.Reg(0), w.Reg(2), w.Reg(4)
	w.Move(w.RepeatBits("groupPositive", 0x7fffffff), positive)
	w.Label("loop")
	w.MOVQ(src, R9)
	w.MOVQ(blocks, R11)
	w.Zero(largest)
	w.Label("largest")
	for v := range 2 {
		w.And(emit.At(R9, w.Bytes*v), positive, w.Reg(6+v))
		w.VPMAXSD(w.Reg(6+v), largest, largest) // as integers, so that a NaN wins and shows in the scale
	}
	w.Advance(R9, 128)
	w.DECQ(R11)
	w.JNZ(LabelRef("largest"))
	w.ReduceLanes(func(o ...Op) { w.VPMAXSD(o[0], o[1], o[2]) }, 0, 1)
	w.VMULSS(w.Repeat("group127th", 1./127), X0, X1)
	w.VMOVSS(X1, emit.At(head, 0))
	w.VMOVSS(w.Repeat("groupMost", 127), X4)
	w.VDIVSS(X0, X4, X4)
	w.VXORPS(X5, X5, X5)
	w.VCMPPS(Imm(4), X5, X0, X5) // a group of zeros must not divide by zero
	w.VANDPS(X5, X4, X4)
	w.VBROADCASTSS(X4, by)
	w.Zero(sum)
	w.MOVQ(to, R12)
	w.MOVQ(blocks, R11)
	w.Label("round")
	for v := range 2 {
		r := w.Reg(6 + v)
		w.VMULPS(emit.At(src, w.Bytes*v), by, r)
		w.VCVTPS2DQ(r, r)
		w.VPADDD(r, sum, sum)
		w.VPMOVSDB(r, emit.At(R12, 16*v))
	}
	w.Advance(src, 128)
	w.Advance(R12, groupBlock)
	w.DECQ(R11)
	w.JNZ(LabelRef("round"))
	w.ReduceLanes(func(o ...Op) { w.VPADDD(o[0], o[1], o[2]) }, 2, 3)
	w.VPSLLD(Imm(7), X2, X3)
	w.VMOVDQU(w.RepeatBits("groupMagic", 0x4b400000), X5)
	w.VPSUBD(X3, X5, X5)
	w.VMOVD(X5, emit.At(head, groupBias))
	w.ADDQ(R10, head)
	w.ADDQ(R10, to)
	w.DECQ(groups)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// groupedTiles writes the tile kernel: registers as those of tile, and R13 the header of the current group.
func groupedTiles(w emit.Width, consts constants) {
	t := tile{codes: &codes{Width: w, magic: consts.magic}}
	name := "tilesGrouped" + w.Suffix()
	w.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, blocks, groups, tiles int, codes, codesEnd, scales, scalesEnd uintptr)",
		fmt.Sprintf("%s adds the products of tiles of %d rows of grouped activations with 32 rows of weights to out, or sets out to them.", name, tileRows))
	out, ld, act := w.Arg("out", RDI), w.Arg("ld", RSI), w.Arg("act", RDX)
	blocks, ahead := w.Arg("blocks", R10), [2]GPPhysical{w.Arg("codes", R11), w.Arg("scales", R12)}
	w.Label("tile")
	weights, scale, groups := w.Arg("w", RAX), w.Arg("scale", RBX), w.Arg("groups", R8)
	for i, end := range []string{"codesEnd", "scalesEnd"} {
		w.CMPQ(ahead[i], w.Slot(end))
		w.CMOVQCC(weights, ahead[i]) // the panel, which is in the cache: there is nothing left to prefetch
	}
	t.start(out, ld)
	w.Label("group")
	w.MOVQ(act, R13)
	w.MOVQ(blocks, R9)
	for r := range tileRows {
		w.VPBROADCASTD(emit.At(R13, groupBias+4*r), t.int(r, 0))
		w.Move(t.int(r, 0), t.int(r, 1))
	}
	w.Advance(act, groupHeader)
	w.Label("block")
	for _, at := range ahead {
		w.PREFETCHT1(emit.At(at, 0))
		w.Advance(at, 64)
	}
	for j := range 8 {
		for v := range 2 {
			w.Move(emit.At(weights, 128*j+v*w.Bytes), w.Reg(tileWeight+v))
		}
		for r := range tileRows {
			cast := w.Reg(tileCast + r)
			w.VPBROADCASTD(emit.At(act, 32*r+4*j), cast)
			for v := range 2 {
				w.Dot(cast, w.Reg(tileWeight+v), t.int(r, v))
			}
		}
	}
	w.Advance(weights, 128*8)
	w.Advance(act, groupBlock)
	w.DECQ(R9)
	w.JNZ(LabelRef("block"))
	for v := range 2 {
		w.VMOVUPS(emit.At(scale, v*w.Bytes), w.Reg(tileWeight+v))
		w.VMULPS(t.magic, w.Reg(tileWeight+v), w.Reg(tileOffset+v))
	}
	for r := range tileRows {
		w.VBROADCASTSS(emit.At(R13, 4*r), w.Reg(tileCast))
		for v := range 2 {
			w.VFMSUB132PS(w.Reg(tileWeight+v), w.Reg(tileOffset+v), t.int(r, v))
			w.VFMADD231PS(w.Reg(tileCast), t.int(r, v), t.float(r, v))
		}
	}
	w.Advance(scale, 128)
	w.DECQ(groups)
	w.JNZ(LabelRef("group"))
	for r := range tileRows {
		for v := range 2 {
			w.VMOVUPS(t.float(r, v), emit.At(out, v*w.Bytes))
		}
		w.ADDQ(ld, out)
	}
	w.SUBQ(Imm(1), w.Slot("tiles"))
	w.JNZ(LabelRef("tile"))
	w.VZEROUPPER()
	w.RET()
}

// groupedTile is that kernel with 16 registers of 256 bits, and the float sums in memory; it is called for either half of 32 rows of weights.
type groupedTile struct{ block256 }

// kernel writes it. R13 is the header of the current group, R14 the float sums.
func (t *groupedTile) kernel() {
	name := "tilesGrouped" + t.Suffix()
	t.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, blocks, groups, tiles int, codes, codesEnd, scales, scalesEnd uintptr)",
		fmt.Sprintf("%s adds the products of tiles of %d rows of grouped activations with 16 rows of weights to out, or sets out to them.", name, tileRows))
	t.Attributes(0) // its frame is too large for NOSPLIT
	frame := t.AllocLocal(2*floatBytes + 64)
	out, ld, act := t.Arg("out", RDI), t.Arg("ld", RSI), t.Arg("act", RDX)
	blocks, ahead := t.Arg("blocks", R10), [2]GPPhysical{t.Arg("codes", R11), t.Arg("scales", R12)}
	for r := range t.rows {
		t.act[r] = emit.At(R13, 4*r-q8Scale)
	}
	t.Label("tile")
	weights, scale, groups := t.Arg("w", RAX), t.Arg("scale", RBX), t.Arg("groups", R8)
	for i, end := range []string{"codesEnd", "scalesEnd"} {
		t.CMPQ(ahead[i], t.Slot(end))
		t.CMOVQCC(weights, ahead[i]) // the panel, which is in the cache: there is nothing left to prefetch
	}
	(&tile256{t.block256}).start(frame, out, ld)
	t.Label("group")
	t.MOVQ(act, R13)
	t.MOVQ(blocks, R9)
	for r := range t.rows {
		for v := range t.vectors {
			t.VPBROADCASTD(emit.At(R13, groupBias+4*r), t.int(r, v))
		}
	}
	t.Advance(act, groupHeader)
	t.Label("block")
	for i, lines := range aheadLines {
		for l := range lines {
			t.PREFETCHT1(emit.At(ahead[i], 64*l))
		}
		t.Advance(ahead[i], 64*lines)
	}
	for j := range 8 {
		for v := range t.vectors {
			t.Move(emit.At(weights, 128*j+32*v), t.Reg(12+v))
		}
		for r := range t.rows {
			t.VPBROADCASTD(emit.At(act, 32*r+4*j), Y14)
			for v := range t.vectors {
				t.Dot(Y14, t.Reg(12+v), t.int(r, v))
			}
		}
	}
	t.Advance(weights, 128*8)
	t.Advance(act, groupBlock)
	t.DECQ(R9)
	t.JNZ(LabelRef("block"))
	for v := range t.vectors {
		t.scaled(scale, 0, v, func(r int) VecPhysical { return t.int(r, v) })
	}
	t.Advance(scale, 128)
	t.DECQ(groups)
	t.JNZ(LabelRef("group"))
	t.store(out, ld)
	t.SUBQ(Imm(1), t.Slot("tiles"))
	t.JNZ(LabelRef("tile"))
	t.VZEROUPPER()
	t.RET()
}
