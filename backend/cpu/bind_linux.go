package cpu

import "golang.org/x/sys/unix"

// processors are those of the thread's affinity mask, which cpusets and taskset set.
func processors() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var all []int
	for i, left := 0, set.Count(); left > 0; i++ {
		if set.IsSet(i) {
			all = append(all, i)
			left--
		}
	}
	return all
}

// bindThread keeps the calling thread on some processors.
func bindThread(on []int) {
	var set unix.CPUSet
	for _, p := range on {
		set.Set(p)
	}
	_ = unix.SchedSetaffinity(0, &set) // a thread that moves about is slower, and right
}

// threadID tells threads apart.
func threadID() int { return unix.Gettid() }
