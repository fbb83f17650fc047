package calibrate

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// tick is the unit of /proc/stat, which Linux shows to programs as hundredths of a second on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// processors is the CPU usage so far; false if it is not known.
func processors() (u usage, known bool) {
	line, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, false
	}
	if u, err = parseStat(line); err != nil {
		return u, false
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return u, false
	}
	u.at, u.own = time.Now(), time.Duration(own.Utime.Nano()+own.Stime.Nano())
	return u, true
}

// parseStat reads the first line of /proc/stat, the sum over all processors (proc_stat(5)).
func parseStat(text []byte) (u usage, err error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var user, nice, system, idle, waiting, interrupts, soft, stolen int64
	if _, err := fmt.Sscanf(string(line), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &waiting, &interrupts, &soft, &stolen); err != nil {
		return u, fmt.Errorf("calibrate: /proc/stat begins with %.80q: %w", line, err)
	}
	u.all = time.Duration(user+nice+system+interrupts+soft) * tick
	u.stolen = time.Duration(stolen) * tick
	return u, nil
}
