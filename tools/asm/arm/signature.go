package arm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"strings"
)

// slot is where an argument lies.
type slot struct {
	offset int
	kind   string // the Go type
}

var sizes = map[string]int{"int": 8, "uint64": 8, "uintptr": 8, "float32": 4, "bool": 1}

// Func starts a function without a stack frame; signature is Go's, as in "func(n int) int". Arguments may be pointers,
// int, uintptr, float32 and bool; a result is a float32 or uint64.
func (a *Asm) Func(name, signature, doc string) {
	expr, err := parser.ParseExpr(signature)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err)) // a mistake in the generator
	}
	f := expr.(*ast.FuncType)
	a.end()
	a.at = map[string]slot{}
	offset := a.fields(f.Params, 0)
	if f.Results != nil {
		offset = (offset + 7) &^ 7
		kind := f.Results.List[0].Type.(*ast.Ident).Name
		a.at["ret"] = slot{offset, kind}
		offset += sizes[kind]
	}
	a.head = fmt.Sprintf("\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, signature[len("func"):], name, offset)
	fmt.Fprintf(&a.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s%s\n", name, strings.TrimPrefix(doc, name+" "), name, signature[len("func"):])
}

// fields lays arguments out as Go's ABI0 does: each aligned to its size.
func (a *Asm) fields(list *ast.FieldList, offset int) int {
	for _, field := range list.List {
		kind, size := "pointer", 8
		if id, ok := field.Type.(*ast.Ident); ok {
			kind, size = id.Name, sizes[id.Name]
		}
		for _, name := range field.Names {
			offset = (offset + size - 1) / size * size
			a.at[name.Name] = slot{offset, kind}
			offset += size
		}
	}
	return offset
}

// Arg loads the named argument into a register.
func (a *Asm) Arg(name string, r R) R {
	s, ok := a.at[name]
	if !ok {
		panic("no argument is called " + name)
	}
	load := "MOVD"
	if s.kind == "bool" {
		load = "MOVBU"
	}
	a.Op("%s %s+%d(FP), %v", load, name, s.offset, r)
	return r
}

// ArgFloat repeats a float32 argument in every lane of v.
func (a *Asm) ArgFloat(name string, v V) {
	a.Op("FMOVS %s+%d(FP), F%d", name, a.at[name].offset, int(v))
	a.DupLane(v, v, 0)
}

// Return stores the lowest lane of v as the function's result, and returns.
func (a *Asm) Return(v V) {
	a.Op("FMOVS F%d, ret+%d(FP)", int(v), a.at["ret"].offset)
	a.Ret()
}

// ReturnBits does so with the lowest 64 bits, as a uint64.
func (a *Asm) ReturnBits(v V) {
	a.Op("FMOVD F%d, ret+%d(FP)", int(v), a.at["ret"].offset)
	a.Ret()
}
