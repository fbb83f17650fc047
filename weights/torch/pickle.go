package torch

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// What a pickle's values are read as.
type (
	tuple      []any
	persistent []any  // the name of something that lies beside the pickle
	global     string // module and name
	call       struct {
		of   global
		args tuple
	}
	mark struct{}
)

// maxValues bounds the values of a pickle: a tensor's has about thirty.
const maxValues = 256

// reader runs the opcodes of a pickle that only make values.
type reader struct {
	left  []byte
	stack []any
	memo  map[uint32]any
}

// run reads a pickle of protocol 2 and gives its value. (The opcodes: Lib/pickletools.py of CPython.)
func run(program []byte) (any, error) {
	r := &reader{left: program, memo: map[uint32]any{}}
	for len(r.left) > 0 {
		op := r.left[0]
		r.left = r.left[1:]
		if op == '.' {
			if len(r.stack) != 1 || len(r.left) > 0 {
				return nil, errShape
			}
			return r.stack[0], nil
		}
		if !r.step(op) || len(r.stack) > maxValues || len(r.memo) > maxValues {
			return nil, fmt.Errorf("torch: the pickle has the opcode %q in a place where a tensor has none: only torch.save of a tensor is read, and nothing of a pickle is run", op)
		}
	}
	return nil, errShape
}

// take is the next n bytes; nil: there are fewer.
func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.left)) {
		return nil
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

// line is what comes before the next line's end.
func (r *reader) line() (string, bool) {
	b, rest, ok := bytes.Cut(r.left, []byte("\n"))
	r.left = rest
	return string(b), ok
}

func (r *reader) push(v any) bool {
	r.stack = append(r.stack, v)
	return true
}

// pop is the last n values, without them on the stack; nil: there are fewer.
func (r *reader) pop(n int) tuple {
	if n > len(r.stack) {
		return nil
	}
	at := len(r.stack) - n
	all := append(tuple{}, r.stack[at:]...)
	r.stack = r.stack[:at]
	return all
}

// number is the next n bytes as an unsigned number.
func (r *reader) number(n uint32) (v uint32, ok bool) {
	b := r.take(n)
	if b == nil {
		return 0, false
	}
	var full [4]byte
	copy(full[:], b)
	return binary.LittleEndian.Uint32(full[:]), true
}

// step carries an opcode out. It reports whether that is one of those that are known, and may come here.
func (r *reader) step(op byte) bool {
	switch op {
	case 0x80: // protocol
		n, ok := r.number(1)
		return ok && n == 2
	case 'c':
		module, ok1 := r.line()
		name, ok2 := r.line()
		return ok1 && ok2 && r.push(global(module+" "+name))
	case '(':
		return r.push(mark{})
	case ')':
		return r.push(tuple{})
	case 't':
		for n := range r.stack {
			if _, ok := r.stack[len(r.stack)-1-n].(mark); ok {
				all := r.pop(n + 1)
				return r.push(all[1:])
			}
		}
		return false
	case 0x85, 0x86, 0x87: // tuples of one, two and three
		all := r.pop(int(op) - 0x84)
		return all != nil && r.push(all)
	case 0x88, 0x89:
		return r.push(op == 0x88)
	case 'R':
		two := r.pop(2)
		if two == nil {
			return false
		}
		of, ok1 := two[0].(global)
		args, ok2 := two[1].(tuple)
		return ok1 && ok2 && r.push(call{of, args})
	case 'Q':
		one := r.pop(1)
		if one == nil {
			return false
		}
		id, ok := one[0].(tuple)
		return ok && r.push(persistent(id))
	}
	return r.leaf(op)
}

// leaf is step of numbers, texts, and what is remembered.
func (r *reader) leaf(op byte) bool {
	switch op {
	case 'X':
		n, ok := r.number(4)
		b := r.take(n)
		return ok && b != nil && r.push(string(b))
	case 'K', 'M':
		n, ok := r.number(uint32(1 + (op-'K')/2))
		return ok && r.push(int64(n))
	case 'J':
		n, ok := r.number(4)
		return ok && r.push(int64(int32(n)))
	case 0x8a: // a number of up to eight bytes
		n, ok := r.number(1)
		b := r.take(n)
		if !ok || b == nil || n > 8 {
			return false
		}
		var full [8]byte
		copy(full[:], b)
		v := int64(binary.LittleEndian.Uint64(full[:]))
		if shift := 64 - 8*n; n > 0 {
			v = v << shift >> shift
		}
		return r.push(v)
	case 'q', 'r':
		n, ok := r.number(map[byte]uint32{'q': 1, 'r': 4}[op])
		if !ok || len(r.stack) == 0 {
			return false
		}
		r.memo[n] = r.stack[len(r.stack)-1]
		return true
	case 'h', 'j':
		n, ok := r.number(map[byte]uint32{'h': 1, 'j': 4}[op])
		v, known := r.memo[n]
		return ok && known && r.push(v)
	}
	return false
}
