package jinja

import "context"

// Limits bound what one Render may do, so that a hostile template can neither run for ever nor eat memory. A zero field
// stands for the default. A long, ordinary conversation stays a hundred times below them.
type Limits struct {
	Steps  int // statements, calls and items handled; default 20 million, about two seconds
	Memory int // bytes of text and of list slots made in all, whether or not they are still in use; default 512 MiB
	Output int // bytes of the rendered text; default 64 MiB
	Depth  int // macros, recursive loops and filters inside one another; default 200
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.Steps, 20_000_000)
	set(&l.Memory, 512<<20)
	set(&l.Output, 64<<20)
	set(&l.Depth, 200)
	return l
}

// Limits on the source, which are upstream's own in effect: CPython compiles what Jinja generates, and refuses more than
// 200 parentheses or 100 indentations inside one another.
const (
	maxSource  = 1 << 20 // bytes
	maxNesting = 200     // tags, brackets and operators inside one another
	maxData    = 500     // lists and dicts inside one another, in JSON given and in values printed
	maxRange   = 100_000 // numbers in a range(), the sandbox's limit
	maxIntBits = 1 << 16 // bits of an integer
)

// budget is what is left of the Limits while a template renders.
type budget struct {
	ctx    context.Context
	limits Limits
	steps  int
	memory int
	depth  int
}

const stepsBetweenChecks = 1024 // how often the context is looked at

// step counts n units of work.
func (b *budget) step(n int) error {
	before := b.steps / stepsBetweenChecks
	b.steps += n
	if b.steps > b.limits.Steps {
		return failKind(Limit, "the template takes more than %d steps; it may loop without end", b.limits.Steps)
	}
	if b.steps/stepsBetweenChecks != before {
		return b.cancelled()
	}
	return nil
}

func (b *budget) cancelled() error {
	if err := b.ctx.Err(); err != nil {
		return &Error{Kind: Limit, Message: "rendering was stopped: " + err.Error(), cause: err}
	}
	return nil
}

const slotBytes = 16 // of a value in a list

// grow counts n bytes about to be made. Call it before making them.
func (b *budget) grow(n int) error {
	if n < 0 || n > b.limits.Memory-b.memory {
		return failKind(Limit, "the template makes more than %d bytes of text and lists", b.limits.Memory)
	}
	b.memory += n
	return b.step(n >> 12)
}

// growTimes is grow(n × times) without overflow.
func (b *budget) growTimes(n, times int) error {
	if times > 0 && n > b.limits.Memory/times {
		n, times = b.limits.Memory+1, 1
	}
	return b.grow(n * max(times, 0))
}

// enter counts one more level of nesting; leave undoes it.
func (b *budget) enter() error {
	if b.depth++; b.depth > b.limits.Depth {
		return failKind(Limit, "macros, recursive loops or filters nest more than %d deep", b.limits.Depth)
	}
	return nil
}

func (b *budget) leave() { b.depth-- }
