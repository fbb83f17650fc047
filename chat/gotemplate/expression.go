package gotemplate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// rootFields are what a template is given, in Jinja.
var rootFields = map[string]string{
	"System": "v.System", "Messages": "messages", "Tools": "(tools if tools is defined and tools else [])", "Suffix": "''",
	"Think": "(enable_thinking is defined and enable_thinking)", "IsThinkSet": "(enable_thinking is defined)", "ThinkLevel": "(reasoning_effort if reasoning_effort is defined else '')",
}

// turnFields are what that of a turn is given beside them.
var turnFields = map[string]string{"Prompt": "v.Prompt", "Response": responseOfTurn}

// fields are those of messages, calls and tools.
var fields = map[string]string{
	"Role": "role", "Content": "content", "Thinking": "reasoning_content", "ToolCalls": "tool_calls", "ToolName": "name", "ToolCallID": "tool_call_id", "ID": "id",
	"Function": "function", "Name": "name", "Arguments": "arguments", "Type": "type", "Description": "description", "Parameters": "parameters",
	"Properties": "properties", "Required": "required", "Enum": "enum",
}

// made is an expression, which the text of what lies in it has been copied for: calls in one another would otherwise take the square of a template's length.
func (w *writer) made(n parse.Node, x string) string {
	if w.copied += len(x); w.copied > maxCopied {
		w.fail(n, "there are too many calls, fields or pipes in one another")
	}
	if w.err != nil {
		return "''" // nothing is made of it
	}
	return x
}

// pipe is an expression: {{a | b}} is b(a).
func (w *writer) pipe(p *parse.PipeNode) string {
	value := ""
	for i, c := range p.Cmds {
		var more []string
		if i > 0 {
			more = []string{value}
		}
		value = w.made(p, w.command(c, more))
	}
	return value
}

// command is a call, or a value alone. more are arguments behind those written.
func (w *writer) command(c *parse.CommandNode, more []string) string {
	name, ok := c.Args[0].(*parse.IdentifierNode)
	if !ok {
		if len(c.Args)+len(more) > 1 {
			w.fail(c, "values are no functions here")
		}
		return w.value(c.Args[0])
	}
	var args []string
	for _, a := range c.Args[1:] {
		args = append(args, w.value(a))
	}
	return w.made(c, w.call(c, name.Ident, append(args, more...)))
}

// operators are functions of two arguments and more.
var operators = map[string]string{"ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

// call is the call of a function.
func (w *writer) call(n parse.Node, name string, args []string) string {
	wanted := func(least, most int) bool {
		if len(args) < least || most > 0 && len(args) > most {
			w.fail(n, "%s has %d arguments", name, len(args))
			return false
		}
		return true
	}
	switch name {
	case "and", "or":
		if wanted(1, 0) {
			return "(" + strings.Join(args, " "+name+" ") + ")"
		}
	case "not":
		if wanted(1, 1) {
			return "(not " + args[0] + ")"
		}
	case "eq":
		if wanted(2, 0) {
			if len(args) == 2 {
				return "(" + args[0] + " == " + args[1] + ")"
			}
			return "(" + args[0] + " in [" + strings.Join(args[1:], ", ") + "])" // written once: it may be as long as the template
		}
	case "ne", "lt", "le", "gt", "ge":
		if wanted(2, 2) {
			return "(" + args[0] + " " + operators[name] + " " + args[1] + ")"
		}
	case "len":
		if wanted(1, 1) {
			return "((" + args[0] + " or []) | length)"
		}
	case "index":
		if wanted(2, 2) {
			return args[0] + "[" + args[1] + "]"
		}
	case "slice":
		if wanted(1, 3) {
			return args[0] + "[" + strings.Join(append(slices.Clone(args[1:]), make([]string, max(0, 2-len(args[1:])))...), ":") + "]"
		}
	case "json":
		if wanted(1, 1) {
			return "(" + args[0] + " | tojson(separators=(',', ':')))"
		}
	case "print":
		if wanted(1, 1) {
			return args[0]
		}
	case "currentDate":
		return "strftime_now('%Y-%m-%d')"
	}
	if w.err == nil {
		w.fail(n, "there is no function %s", name)
	}
	return "''"
}

// value is a value.
func (w *writer) value(n parse.Node) string {
	switch n := n.(type) {
	case *parse.DotNode:
		if w.dot == "" {
			w.fail(n, "the dot alone is all that the template is given")
		}
		return w.dot
	case *parse.FieldNode:
		if w.dot == "" {
			return w.root(n, n.Ident)
		}
		return w.path(n, w.dot, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return w.root(n, n.Ident[1:])
		}
		return w.path(n, w.variable(n.Ident), n.Ident[1:])
	case *parse.ChainNode:
		return w.path(n, "("+w.value(n.Node)+")", n.Field)
	case *parse.PipeNode:
		return "(" + w.pipe(n) + ")"
	case *parse.StringNode:
		return quoted(n.Text)
	case *parse.NumberNode:
		switch {
		case n.IsInt:
			return strconv.FormatInt(n.Int64, 10)
		case n.IsFloat:
			return strconv.FormatFloat(n.Float64, 'f', -1, 64)
		}
		w.fail(n, "it is no number of Jinja's")
		return "0"
	case *parse.BoolNode:
		return fmt.Sprint(n.True)
	case *parse.NilNode:
		return "none"
	case *parse.IdentifierNode:
		return w.call(n, n.Ident, nil)
	}
	w.fail(n, "it is not done here")
	return "''"
}

// root is a field of what the template is given.
func (w *writer) root(n parse.Node, ident []string) string {
	if len(ident) == 0 {
		w.fail(n, "the dollar sign alone is all that the template is given")
		return "''"
	}
	x, ok := rootFields[ident[0]]
	if !ok {
		if x, ok = turnFields[ident[0]]; ok && w.messages {
			x = "''" // there are no turns beside .Messages
		}
	}
	if !ok {
		w.fail(n, "there is no .%s; .System, .Prompt, .Response, .Messages and .Tools are given", ident[0])
	}
	return w.path(n, x, ident[1:])
}

// path is a field of a field.
func (w *writer) path(n parse.Node, x string, ident []string) string {
	for _, name := range ident {
		field, ok := fields[name]
		if !ok {
			w.fail(n, "there is no .%s", name)
		}
		x = w.made(n, x+"."+field)
	}
	return x
}
