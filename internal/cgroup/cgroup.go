// Package cgroup finds the control groups of this process, of both versions, with all groups above them: each can limit it. See
// cgroups(7) and mountinfo in proc(5).
package cgroup

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Group is a control group.
type Group struct {
	Dir     string // its folder
	Unified bool   // version 2
}

// Groups are this process's groups that have a controller ("cpu", "memory"), each followed by those above it, as far as they can be
// seen; none where there are no control groups. root is "/", and in tests a folder that stands for it.
func Groups(root, controller string) (all []Group) {
	mounts, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	groups, err2 := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil || err2 != nil {
		return nil
	}
	for line := range strings.Lines(string(mounts)) {
		m, ok := parseMount(line, controller)
		if !ok {
			continue
		}
		for dir := m.dirOf(string(groups), controller); dir != ""; dir = parent(dir) {
			all = append(all, Group{filepath.Join(root, m.at, dir), m.unified})
		}
	}
	return all
}

// Words are the words of a file of the group; none when it does not exist.
func (g Group) Words(file string) []string {
	text, _ := os.ReadFile(filepath.Join(g.Dir, file))
	return strings.Fields(string(text))
}

// mount is where a hierarchy of groups is mounted.
type mount struct {
	root, at string // the group that is mounted, and where
	unified  bool
}

// parseMount reads a line of mountinfo: "id parent device root mount-point options … - type source super-options".
func parseMount(line, controller string) (m mount, ok bool) {
	before, after, _ := strings.Cut(line, " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if len(f) < 5 || len(g) < 3 {
		return m, false
	}
	m = mount{root: f[3], at: f[4], unified: g[0] == "cgroup2"}
	return m, m.unified || g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), controller)
}

// dirOf is the process's group below the mount, by its lines of /proc/self/cgroup: "0::/a" (version 2), "4:cpu,cpuacct:/a";
// "" when it has none there.
func (m mount) dirOf(groups, controller string) string {
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		mine := slices.Contains(strings.Split(part[1], ","), controller)
		if m.unified {
			mine = part[0] == "0" && part[1] == ""
		}
		if !mine {
			continue
		}
		if m.root == "/" {
			return path.Clean("/" + part[2])
		}
		if below, ok := strings.CutPrefix(part[2], m.root); ok && (below == "" || below[0] == '/') {
			return path.Clean("/" + below) // a container without a namespace of its own sees its group as the mount's root
		}
		return "/"
	}
	return ""
}

// parent is the folder above an absolute one, "" above the root.
func parent(dir string) string {
	if dir == "/" {
		return ""
	}
	return path.Dir(dir)
}
