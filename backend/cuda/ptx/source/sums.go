package source

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sums says what an archive was made from, by module: a small text beside it, which a change of a kernel can be seen in.
type Sums map[string]Sum

// Sum is of one module.
type Sum struct {
	Source string   // Module.Hash
	PTX    []string // TextSum for each of Targets
}

// TextSum is the hash of a module's PTX for one target.
func TextSum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

const sumsHeader = "# What kernels.ptx.zst was made from, by make ptx: module, hash of its source and headers, hashes of its PTX for "

// String is the text, a line for each module.
func (s Sums) String() string {
	text := sumsHeader + strings.Join(Targets, ", ") + "\n"
	for _, name := range slices.Sorted(maps.Keys(s)) {
		text += fmt.Sprintln(name, s[name].Source, strings.Join(s[name].PTX, " "))
	}
	return text
}

// ParseSums reads the text.
func ParseSums(text string) (Sums, error) {
	s := Sums{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		words := strings.Fields(lines.Text())
		if len(words) != 2+len(Targets) {
			return nil, fmt.Errorf("kernels.txt: line %d has %d words, not %d; run make ptx", n, len(words), 2+len(Targets))
		}
		s[words[0]] = Sum{Source: words[1], PTX: words[2:]}
	}
	return s, lines.Err()
}

// Stale lists the modules whose source is not what the archive was made from, and those that it has without a source.
func (s Sums) Stale(modules []Module) (stale, gone []string) {
	there := map[string]bool{}
	for _, m := range modules {
		there[m.Name] = true
		if s[m.Name].Source != m.Hash {
			stale = append(stale, m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !there[name] {
			gone = append(gone, name)
		}
	}
	return stale, gone
}
