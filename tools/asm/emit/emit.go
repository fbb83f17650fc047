// Package emit is the thin layer between Ridge's assembly generators and avo: a file of functions in, a .s file and
// its Go declarations out, and byte encodings for the instructions that the Go assembler does not know.
package emit

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// Asm is one assembly file being written. All of avo's instructions are its methods; registers are named outright,
// since the kernels are laid out by hand to fill the register file exactly.
type Asm struct {
	*build.Context
	constants map[string]operand.Mem // the file's, by name
}

// File names a generated pair NAME_amd64.s and NAME_stubs_amd64.go and the function that writes its contents.
type File struct {
	Name  string
	Build func(*Asm)
}

// Write makes every file in dir, as part of the Go package pkg; generator is named in their first lines.
func Write(dir, pkg, generator string, files []File) error {
	for _, f := range files {
		if err := write(dir, pkg, generator, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func write(dir, pkg, generator string, f File) error {
	a := &Asm{build.NewContext(), map[string]operand.Mem{}}
	a.Constraint(buildtags.Term("amd64"))
	f.Build(a)
	file, err := a.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: generator, Pkg: pkg}
	for suffix, p := range map[string]printer.Printer{
		"_amd64.s":        printer.NewGoAsm(cfg),
		"_stubs_amd64.go": printer.NewStubs(cfg),
	} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name+suffix), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Func starts a function without a stack frame; signature is Go's, as in "func(n int) int".
func (a *Asm) Func(name, signature, doc string) {
	a.Function(name)
	a.Attributes(attr.NOSPLIT)
	a.SignatureExpr(signature)
	a.Doc(doc)
	// Slices and pointers are only read and written during the call.
	a.Pragma("noescape")
}

// Arg loads the named argument into a register chosen by the caller.
func (a *Asm) Arg(name string, r reg.GPPhysical) reg.GPPhysical {
	a.Load(a.Param(name), r)
	return r
}

// At is the memory at base + disp bytes.
func At(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

// Indexed is the memory at base + index × scale + disp bytes.
func Indexed(base, index reg.Register, scale uint8, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: scale, Disp: disp}
}

// Advance adds n bytes to a pointer register; avo's own constants choose widths that ADDQ does not take.
func (a *Asm) Advance(r reg.GPPhysical, n int) { a.ADDQ(operand.U32(uint32(int32(n))), r) }

// Constant starts a read-only global of the file; AddDatum fills it.
func (a *Asm) Constant(name string) operand.Mem {
	m := a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	return m
}
