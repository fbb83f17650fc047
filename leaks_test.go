package ridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// notChecked are the functions of tests that make a server and do not look for leaks, with the reason.
var notChecked = map[string]string{
	"server/batches_crash_test.go child": "a process that is killed",
	"simulation_test.go findAlone":       "TestSimulation, which calls it, does",
	"simulation_test.go load":            "TestSimulation does, and a bubble of synctest ends with all of its goroutines; run looks at the pages",
	"simulation_test.go run":             "as load",
	"server/listen_test.go listen":       "the tests that call it do, who make the server",
}

// TestServersAreCheckedForLeaks: a test that makes a server looks for goroutines, open files and pages of the cache that are left at its end, in the
// function that makes the server.
func TestServersAreCheckedForLeaks(t *testing.T) {
	checked, excused := 0, map[string]bool{}
	for _, file := range sourceFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			calls := callsOf(f.Body)
			inServer := path.Dir(file) == "server" && parsed.Name.Name == "server"
			if !calls["server.New"] && !calls["server.NewFront"] && !(inServer && (calls["New"] || calls["NewFront"])) {
				continue
			}
			name := file + " " + f.Name.Name
			if notChecked[name] != "" {
				excused[name] = true
				continue
			}
			checked++
			for _, call := range []string{"leaks.Check", "leaks.Pages"} {
				if !calls[call] {
					t.Errorf("%s makes a server and does not call %s", name, call)
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("%d functions make servers; there were 8", checked)
	}
	for name := range notChecked {
		if !excused[name] {
			t.Errorf("%s makes no server; remove it from the list", name)
		}
	}
}

// callsOf are the names of functions that a body calls, as they are written.
func callsOf(body *ast.BlockStmt) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			all[f.Name] = true
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok {
				all[x.Name+"."+f.Sel.Name] = true
			}
		}
		return true
	})
	return all
}
