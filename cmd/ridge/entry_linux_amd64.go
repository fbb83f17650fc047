package main

// entry is where the system starts a program that was linked with -E main.entry, as make build does: before the Go runtime, which ends with a stack trace
// where it gets no memory for its own tables. Limits below those of checkLimits end there, with a sentence.
//
//lint:ignore U1000 the system calls it
func entry()

// What entry says.
//
//lint:ignore U1000 entry, in assembly, reads them
var (
	tooLittleAddressSpace = "ridge: this process may use less memory (ulimit -v) than the 2.00 GiB that it needs beside the model; raise the limit: ulimit -v 2097152\n"
	tooLittleData         = "ridge: this process may use less memory (ulimit -d) than the 256.0 MiB that it needs beside the model; raise the limit: ulimit -d 262144\n"
)
