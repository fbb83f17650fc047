//go:build unix && !linux

package cpu

func adviseLargePages([]byte) {}
