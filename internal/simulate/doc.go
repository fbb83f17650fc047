// Package simulate runs the engine in virtual time: its own scheduler, page pool, prefix index and admission, on a device
// that computes nothing and says how long a step would take. A trace of hours is through in seconds, and the report is the
// one that `ridge bench serve` prints of a real run.
//
//	trace ─► workload (workload.go) ─► engine.Engine ─► device (device.go) ─► clock (clock.go)
//	trace ─► router's policy ─► several engines, each with its device and clock (replicas.go)
package simulate
