package calibrate

import (
	"fmt"
	"runtime"
	"time"
)

// Other programs, and other virtual machines on the host, make a device look slower than it is.

// usage is CPU time since boot.
type usage struct {
	at     time.Time
	all    time.Duration // of all processes on the machine
	stolen time.Duration // steal time: the hypervisor ran other machines
	own    time.Duration // of this process
}

// Largest CPU time of others during a measurement, as a fraction of that of its threads.
const (
	mostOthers = 0.05
	mostStolen = 0.02
)

// disturbedBy is a sentence about CPU time that others took between two readings, where the device used so many threads of so many
// CPUs; "" if it is below the bounds. CPUs that the device does not use are not counted.
func disturbedBy(from, to usage, threads, processors int) string {
	took := to.at.Sub(from.at).Seconds()
	if took <= 0 {
		return ""
	}
	each := took * float64(max(threads, 1)) // CPU time of the device's threads, s
	spare := took * float64(max(processors-threads, 0))
	others := ((to.all - from.all) - (to.own - from.own)).Seconds() - spare
	stolen := (to.stolen - from.stolen).Seconds()
	switch {
	case others > mostOthers*each:
		return fmt.Sprintf("other programs took %.0f %% of the processors", 100*others/each)
	case stolen > mostStolen*each:
		return fmt.Sprintf("the host gave %.0f %% of the processors to other machines", 100*stolen/each)
	}
	return ""
}

// alone measures, and reports what disturbed it; nothing where CPU usage is not known.
func alone(threads int, measure func() error) (by string, err error) {
	from, known := processors()
	if err := measure(); err != nil {
		return "", err
	}
	to, still := processors()
	if !known || !still {
		return "", nil
	}
	return disturbedBy(from, to, threads, runtime.NumCPU()), nil
}
