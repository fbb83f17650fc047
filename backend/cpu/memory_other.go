//go:build !linux

package cpu

func adviseLargePages([]byte) {}

func placeMemory([]byte) {}

func mapAhead([]byte) {}
