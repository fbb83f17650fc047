package calibrate

import (
	"fmt"
	"runtime"
	"time"
)

// Other programs, and other machines on the same host, make everything look slower than it is, and prices with it.

// usage is what processors have done, in seconds of one.
type usage struct {
	at     time.Time
	all    time.Duration // of all processes on the machine
	stolen time.Duration // that the host gave to other machines
	own    time.Duration // of this process
}

// Bounds of what others may take beside a measurement, as parts of the threads that it was made with.
const (
	mostOthers = 0.05
	mostStolen = 0.02
)

// disturbedBy says who else was at work between two looks, where a device computed with so many threads on so many processors; "" if
// nobody was to speak of. Processors that the device leaves are others' for nothing.
func disturbedBy(from, to usage, threads, processors int) string {
	took := to.at.Sub(from.at).Seconds()
	if took <= 0 {
		return ""
	}
	each := took * float64(max(threads, 1)) // s that the threads could have had
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

// alone measures, and says who disturbed it; where the system does not tell, nobody.
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
