package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/internal/cgroup"
)

// Memory implements backend.MemoryInfo: what can be allocated without swapping, page cache included, and what the system
// has in all; less where a control group of the process, one above it, or ulimit allows less.
func (d *Device) Memory() (free, total int64, err error) {
	free, total, err = availableMemory("/")
	if err != nil {
		return 0, 0, fmt.Errorf("cpu: asking for the free memory: %w", err)
	}
	for resource, used := range map[int]string{unix.RLIMIT_AS: "VmSize:", unix.RLIMIT_DATA: "VmData:"} {
		var limit unix.Rlimit
		taken, err := field("/proc/self/status", used)
		if err == nil && unix.Getrlimit(resource, &limit) == nil && limit.Cur <= uint64(total) {
			total, free = int64(limit.Cur), min(free, int64(limit.Cur)-taken<<10)
		}
	}
	return max(free, 0), total, nil
}

// availableMemory is what the system and the control groups below root leave, in bytes.
func availableMemory(root string) (free, total int64, err error) {
	const meminfo = "proc/meminfo"
	if free, err = field(filepath.Join(root, meminfo), "MemAvailable:"); err != nil {
		return 0, 0, err
	}
	if total, err = field(filepath.Join(root, meminfo), "MemTotal:"); err != nil {
		return 0, 0, err
	}
	free, total = free<<10, total<<10 // from KiB
	for _, g := range cgroup.Groups(root, "memory") {
		if limit, used, ok := groupMemory(g); ok {
			total, free = min(total, limit), min(free, limit-used)
		}
	}
	return max(free, 0), total, nil
}

// groupMemory is the limit of a control group, and what it uses without the page cache, which it gives up when there is need. ok is
// false when it has none: version 1 then shows a limit larger than any memory.
func groupMemory(g cgroup.Group) (limit, used int64, ok bool) {
	limits, current, cache, shared := []string{"memory.max", "memory.high"}, "memory.current", "file", "shmem"
	if !g.Unified {
		limits, current, cache, shared = []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_cache", "total_shmem"
	}
	for _, file := range limits {
		if n, err := field(filepath.Join(g.Dir, file), ""); err == nil && (!ok || n < limit) {
			limit, ok = n, true
		}
	}
	used, _ = field(filepath.Join(g.Dir, current), "")
	cached, _ := field(filepath.Join(g.Dir, "memory.stat"), cache)
	tmpfs, _ := field(filepath.Join(g.Dir, "memory.stat"), shared) // which counts as cache and cannot be given up
	return limit, max(0, used-max(0, cached-tmpfs)), ok
}

// field is the number after a word in a file of lines "word number …"; after an empty word, the first number.
func field(path, word string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if word == "" && len(words) > 0 {
			return strconv.ParseInt(words[0], 10, 64)
		}
		if len(words) > 1 && words[0] == word {
			return strconv.ParseInt(words[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %q", path, word)
}
