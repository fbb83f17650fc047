package mmap

import "runtime/debug"

// Reading runs f, which reads mapped files, on this goroutine. A fault, where a file was cut meanwhile or lies on a disk that fails, is the
// error that it returns.
func Reading(f func()) (fault error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		at, ok := p.(interface {
			error
			Addr() uintptr
		})
		switch {
		case p == nil:
		case !ok:
			panic(p)
		default:
			fault = at
		}
	}()
	f()
	return nil
}
