package threads

import "golang.org/x/sys/unix"

// processors are those of the calling thread's affinity mask, as set by cpusets and taskset.
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

// bindThread sets the calling thread's affinity mask.
func bindThread(on []int) {
	var set unix.CPUSet
	for _, p := range on {
		set.Set(p)
	}
	_ = unix.SchedSetaffinity(0, &set) // a thread that migrates is slower, but correct
}

// threadID is the id of the calling thread.
func threadID() int { return unix.Gettid() }
