package ridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// internals are packages whose types must not show in the library's API: what runs a model may change from one version to the next.
var internals = map[string]bool{
	"backend": true, "graph": true, "engine": true, "sched": true, "kv": true, "grammar": true, "compile": true, "pass": true, "price": true, "model": true,
	"modeldir": true, "device": true, "simulate": true,
}

// TestAPI: no exported function, method, field or variable of the root package has a type of what is behind it.
func TestAPI(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(where string, expr ast.Node) {
		checked++
		ast.Inspect(expr, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && internals[pkg.Name] {
					t.Errorf("%s has the type %s.%s", where, pkg.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) {
					check(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					checkSpec(s, check)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d declarations were looked at", checked)
	}
}

// exportedReceiver reports whether a function is no method, or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && name.IsExported()
}

func checkSpec(s ast.Spec, check func(string, ast.Node)) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		fields, ok := s.Type.(*ast.StructType)
		if !s.Name.IsExported() {
			return
		}
		if !ok {
			check(s.Name.Name, s.Type)
			return
		}
		for _, f := range fields.Fields.List {
			if len(f.Names) == 0 || f.Names[0].IsExported() {
				check(s.Name.Name, f.Type)
			}
		}
	case *ast.ValueSpec:
		if s.Type != nil && s.Names[0].IsExported() {
			check(s.Names[0].Name, s.Type)
		}
	}
}
