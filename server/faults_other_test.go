//go:build !unix

package server_test

// openFiles is how many files a process may have open; enough, where nothing limits them.
func openFiles() int { return 1 << 20 }
