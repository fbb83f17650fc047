package cpu

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory implements backend.MemoryInfo: what can be allocated without swapping, page cache included, and what the system
// has in all; less where the process's control group (version 2) allows less.
func (d *Device) Memory() (free, total int64, err error) {
	free, err = field("/proc/meminfo", "MemAvailable:")
	if err == nil {
		total, err = field("/proc/meminfo", "MemTotal:")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cpu: asking for the free memory: %w", err)
	}
	free, total = free<<10, total<<10 // from KiB
	const group = "/sys/fs/cgroup/memory."
	if limit, err := field(group+"max", ""); err == nil {
		used, _ := field(group+"current", "")
		cached, _ := field(group+"stat", "file") // counts as used, and is given up when there is need
		total, free = min(total, limit), min(free, limit-used+cached)
	}
	return max(free, 0), total, nil
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
