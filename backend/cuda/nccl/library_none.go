//go:build !linux || nocuda || !(amd64 || arm64)

package nccl

import "errors"

var errNone = errors.New("this build of Ridge cannot load libraries")

func load(*[numCalls]uintptr) error { return errNone }

func syscall(uintptr, ...uintptr) int32 { return -1 }

func text(uintptr, uintptr) string { return "" }
