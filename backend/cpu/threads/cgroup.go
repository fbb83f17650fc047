package threads

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// groupMount is where a hierarchy of control groups that can limit processors is mounted; see proc(5), mountinfo, and
// cgroups(7).
type groupMount struct {
	root, at string // the group that is mounted, and where
	unified  bool   // version 2
}

// parseMount reads a line of mountinfo: "id parent device root mount-point options … - type source super-options".
func parseMount(line string) (m groupMount, ok bool) {
	before, after, _ := strings.Cut(line, " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if len(f) < 5 || len(g) < 3 {
		return m, false
	}
	m = groupMount{root: f[3], at: f[4], unified: g[0] == "cgroup2"}
	return m, m.unified || g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), "cpu")
}

// dirOf is the process's group below the mount, by its lines of /proc/self/cgroup: "0::/a" (version 2), "4:cpu,cpuacct:/a";
// "" when it has none there.
func (m groupMount) dirOf(groups string) string {
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		mine := slices.Contains(strings.Split(part[1], ","), "cpu")
		if m.unified {
			mine = part[0] == "0" && part[1] == ""
		}
		if !mine {
			continue
		}
		if m.root == "/" {
			return path.Clean("/" + part[2])
		}
		if below, ok := strings.CutPrefix(part[2], m.root); ok { // a container sees its own group as the mount's root
			return path.Clean("/" + below)
		}
		return "/"
	}
	return ""
}

// quota is the CPU quota of the group in a folder, in processors; 0 when it sets no limit.
func (m groupMount) quota(dir string) float64 {
	if m.unified {
		return ratio(fields(filepath.Join(dir, "cpu.max")))
	}
	return ratio(append(fields(filepath.Join(dir, "cpu.cfs_quota_us")), fields(filepath.Join(dir, "cpu.cfs_period_us"))...))
}

// fields are the words of a small file; none when it does not exist.
func fields(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

// ratio is a quota over a period, both in µs; 0 for "max", -1 and anything else that is not a limit.
func ratio(of []string) float64 {
	if len(of) != 2 {
		return 0
	}
	quota, err := strconv.ParseInt(of[0], 10, 64)
	period, err2 := strconv.ParseInt(of[1], 10, 64)
	if err != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0
	}
	return float64(quota) / float64(period)
}
