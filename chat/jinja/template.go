package jinja

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Template is a parsed template. It does not change: any number of goroutines may render it.
type Template struct {
	name  string
	body  body
	fn    *function
	scope scope
}

// Options are what a rendering may depend on besides its variables.
type Options struct {
	Now    time.Time // what strftime_now formats; the zero time stands for the time of the call
	Limits Limits
}

// Parse parses a template. The name is for error sentences. Every error is an *Error.
func Parse(name, source string) (*Template, error) {
	t := &Template{name: name}
	if err := t.parse(source); err != nil {
		return nil, t.named(at(1, err))
	}
	return t, nil
}

func (t *Template) parse(source string) error {
	if len(source) > maxSource {
		return failKind(Syntax, "the template has %d bytes; %d is the limit", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return failKind(Syntax, "the template is not valid UTF-8")
	}
	tokens, err := lex(source)
	if err != nil {
		return err
	}
	p := &parser{tokens: tokens}
	if t.body, err = p.template(); err != nil {
		return err
	}
	return resolve(t)
}

func (t *Template) named(err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Template = t.name
	}
	return err
}

// Render renders the template with the variables in vars, which it does not change. Every error is an *Error; its Line
// is where in the template it happened.
func (t *Template) Render(ctx context.Context, vars *Map, opts Options) (string, error) {
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	r := &render{
		budget: budget{ctx: ctx, limits: opts.Limits.withDefaults()},
		t:      t,
		now:    opts.Now,
		out:    new(strings.Builder),
	}
	r.page = r.out
	if err := r.cancelled(); err != nil {
		return "", t.named(at(1, err))
	}
	f := newFrame(t.fn, nil)
	f.context = vars
	t.scope.enter(f)
	if _, err := r.exec(t.body, f); err != nil {
		return "", t.named(at(1, err))
	}
	return r.out.String(), nil
}

// render is the state of one rendering.
type render struct {
	budget
	t    *Template
	now  time.Time
	out  *strings.Builder // what is printed goes here: the page, or what a macro or set block captures
	page *strings.Builder
}

// write prints text.
func (r *render) write(s string) error {
	if err := r.grow(len(s)); err != nil {
		return err
	}
	if r.out == r.page && r.out.Len()+len(s) > r.limits.Output {
		return failKind(Limit, "the template prints more than %d bytes", r.limits.Output)
	}
	r.out.WriteString(s)
	return nil
}

// capture runs a body and gives what it prints.
func (r *render) capture(b body, f *frame) (text string, c control, err error) {
	text, err = r.captured(func() error {
		c, err = r.exec(b, f)
		return err
	})
	return text, c, err
}

// captured runs something that prints and gives what it printed.
func (r *render) captured(run func() error) (string, error) {
	outer := r.out
	r.out = new(strings.Builder)
	err := run()
	text := r.out.String()
	r.out = outer
	return text, err
}

// lookup finds a name among the variables a template is given, or else among the globals, or gives missing.
func lookup(given *Map, name string) any {
	if v, ok := given.Get(name); ok {
		return v
	}
	return globalNamed(name)
}
