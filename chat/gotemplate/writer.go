package gotemplate

import (
	"fmt"
	"strconv"
	"strings"
	"text/template/parse"
)

// writer writes nodes in Jinja.
type writer struct {
	out          strings.Builder
	err          error
	dot          string // what the dot is; "": the root
	depth        int    // of loops and withs, each of which has a name of its own
	messages     bool   // the template has the whole conversation, else one turn
	upToResponse bool   // nothing is written from .Response on, but the ends of what is open
	response     bool   // .Response was there
	copied       int    // bytes of expressions
}

// fail notes the first thing that cannot be said in Jinja.
func (w *writer) fail(n parse.Node, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("{{%.200s}}: %s", strings.Trim(n.String(), "{}"), fmt.Sprintf(format, args...))
	}
}

// put writes Jinja, unless the answer has begun.
func (w *writer) put(format string, args ...any) {
	if !w.upToResponse || !w.response {
		fmt.Fprintf(&w.out, format, args...)
	}
}

// end closes what is open, in any case.
func (w *writer) end(what string) { w.out.WriteString("{%- end" + what + " -%}") }

func (w *writer) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		w.node(n)
	}
}

func (w *writer) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.TextNode:
		w.put("{{ %s }}", quoted(string(n.Text)))
	case *parse.CommentNode:
	case *parse.ActionNode:
		w.action(n)
	case *parse.IfNode:
		if w.upToResponse && w.response {
			return
		}
		x := w.pipe(n.Pipe)
		if w.declare(n.Pipe, x); len(n.Pipe.Decl) > 0 {
			x = w.variable(n.Pipe.Decl[0].Ident)
		}
		w.put("{%%- if %s -%%}", x)
		w.branches(&n.BranchNode, w.dot)
		w.end("if")
	case *parse.WithNode:
		if w.upToResponse && w.response {
			return
		}
		w.with(n)
	case *parse.RangeNode:
		if w.upToResponse && w.response {
			return
		}
		w.loop(n)
	case *parse.BreakNode:
		w.put("{%%- break -%%}")
	case *parse.ContinueNode:
		w.put("{%%- continue -%%}")
	default:
		w.fail(n, "it is not done here")
	}
}

// branches writes both ways of a condition, and has the dot be outer from the second on. Where the answer begins in the first, it may begin in the second too.
func (w *writer) branches(n *parse.BranchNode, outer string) {
	before := w.response
	w.list(n.List)
	begun := w.response
	if w.dot = outer; n.ElseList != nil {
		w.response = before
		w.out.WriteString("{%- else -%}")
		w.list(n.ElseList)
	}
	w.response = w.response || begun
}

// with writes {{with x}}: a condition, in which the dot is x.
func (w *writer) with(n *parse.WithNode) {
	x := w.pipe(n.Pipe)
	outer := w.dot
	w.depth++
	name := "x" + strconv.Itoa(w.depth)
	w.put("{%%- set %s = %s -%%}", name, x)
	w.declare(n.Pipe, name)
	w.put("{%%- if %s -%%}", name)
	w.dot = name
	w.branches(&n.BranchNode, outer)
	w.end("if")
	w.depth--
}

// loop writes {{range x}}: a loop, in which the dot is an element.
func (w *writer) loop(n *parse.RangeNode) {
	x := w.pipe(n.Pipe)
	outer := w.dot
	w.depth++
	name := "x" + strconv.Itoa(w.depth)
	w.put("{%%- for %s in (%s or []) -%%}", name, x)
	switch decl := n.Pipe.Decl; len(decl) {
	case 2:
		w.put("{%%- set %s = loop.index0 -%%}{%%- set %s = %s -%%}", w.variable(decl[0].Ident), w.variable(decl[1].Ident), name)
	case 1:
		w.put("{%%- set %s = %s -%%}", w.variable(decl[0].Ident), name)
	}
	w.dot = name
	w.branches(&n.BranchNode, outer)
	w.end("for")
	w.depth--
}

// declare writes the variable that a condition's pipe names.
func (w *writer) declare(p *parse.PipeNode, value string) {
	for _, d := range p.Decl {
		w.put("{%%- set %s = %s -%%}", w.variable(d.Ident), value)
	}
}

// variable is a variable of the template: one of the namespace, so that what is set in a loop is known behind it.
func (w *writer) variable(ident []string) string {
	return "v.var_" + strings.TrimPrefix(ident[0], "$")
}

// action writes {{x}} or {{$name := x}}.
func (w *writer) action(n *parse.ActionNode) {
	x := w.pipe(n.Pipe)
	if len(n.Pipe.Decl) > 0 {
		w.declare(n.Pipe, x)
		return
	}
	if x == responseOfTurn {
		if w.response = true; w.upToResponse {
			return
		}
	}
	w.put("{{ %s }}", printed(x))
}

// printed is a value as Go prints it: objects as JSON.
func printed(x string) string {
	return fmt.Sprintf("(%s) | tojson(separators=(',', ':')) if (%s) is mapping or (%s) is sequence and (%s) is not string else (%s)", x, x, x, x, x)
}

// responseOfTurn is .Response in Jinja.
const responseOfTurn = "v.Response"

// quoted is a text as a literal of Jinja.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}
