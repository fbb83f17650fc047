//go:build !linux

package cpu

func adviseLargePages([]byte) {}

func mapAhead([]byte) {}
