package cpu

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	wordLine = regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)`)
	dumpLine = regexp.MustCompile(`^\s*[0-9a-f]+:\s+([0-9a-f]{8})\s+(.*)`)
)

// TestWords has GNU objdump read every instruction of the arm64 assembly that is written as a number, and compares with
// what the comment beside it says.
func TestWords(t *testing.T) {
	const objdump = "aarch64-linux-gnu-objdump"
	if _, err := exec.LookPath(objdump); err != nil {
		t.Skipf("%s is not installed; Debian's binutils-aarch64-linux-gnu has it", objdump)
	}
	says := map[string]string{}
	var code []byte
	files, err := filepath.Glob("*/*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of arm64 assembly: %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range wordLine.FindAllStringSubmatch(string(text), -1) {
			before, seen := says[m[1]]
			if seen && before != m[2] {
				t.Errorf("%s: %s is called %q here and %q elsewhere", name, m[1], m[2], before)
			}
			if says[m[1]] = m[2]; seen {
				continue
			}
			v, err := strconv.ParseUint(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			code = binary.LittleEndian.AppendUint32(code, uint32(v))
		}
	}
	raw := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(raw, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-z", "-b", "binary", "-m", "aarch64", raw).Output()
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for line := range strings.Lines(string(out)) {
		m := dumpLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		read++
		if is := strings.Join(strings.Fields(m[2]), " "); is != says[m[1]] {
			t.Errorf("%s is %q, not %q", m[1], is, says[m[1]])
		}
	}
	if read != len(says) {
		t.Errorf("%d words were read, of %d", read, len(says))
	}
}
