//go:build !linux

package calibrate

// processors is not implemented on this system.
func processors() (usage, bool) { return usage{}, false }
