package hub

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// preferred are quantisations in the order in which one is taken when none is named: the first is small and good.
var preferred = []string{"Q4_K_M", "Q8_0", "Q5_K_M", "Q6_K", "Q4_K_S", "Q4_0", "Q5_K_S", "Q5_0", "Q4_1", "Q3_K_M", "MXFP4", "BF16", "F16", "F32"}

// Model is the files of a repository that make one model.
type Model struct {
	Quant string // of GGUF: as its name has it, or the name; "": safetensors
	Files []File // GGUF: the file, or the parts of a split one in order; or else the weights and their sidecars
}

// Bytes is the size of all files.
func (m *Model) Bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// digest is the SHA-256 of the largest file, in hexadecimal; "" if the hub has only Git's hash of it, as of small ones.
func (m *Model) digest() string {
	largest := slices.MaxFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Size, b.Size) })
	if len(largest.Hash) != hex.EncodedLen(sha256.Size) {
		return ""
	}
	return largest.Hash
}

// open is the file to open, below the snapshot: the first GGUF part, or "." for the folder.
func (m *Model) open() string {
	if m.Quant == "" {
		return "."
	}
	return m.Files[0].Path
}

// choose picks the model that a reference means from the files of a repository.
func choose(r Ref, files []File) (*Model, error) {
	all, broken := ggufs(files)
	if len(all) == 0 && r.Quant == "" && broken == nil {
		return chooseSafetensors(r, files)
	}
	if len(all) == 0 {
		if broken != nil {
			return nil, fmt.Errorf("hub: %s: %w", r.Repo, broken)
		}
		return nil, fmt.Errorf("hub: %s has no GGUF files to choose %s from; leave it out to get the safetensors", r.Repo, r.Quant)
	}
	wanted := preferred
	if r.Quant != "" {
		wanted = []string{r.Quant}
	}
	for _, quant := range wanted {
		// A quantisation may be in the name of several, as Q4_K is in Q4_K_M: the one that is called so goes first, then the shortest name.
		fits := slices.DeleteFunc(slices.Clone(all), func(m *Model) bool { return !m.called(quant) })
		if len(fits) > 0 {
			return slices.MinFunc(fits, func(a, b *Model) int { return cmp.Compare(a.rank(quant), b.rank(quant)) }), nil
		}
	}
	if r.Quant == "" {
		return all[0], nil
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Quant)
	}
	slices.Sort(names)
	return nil, &refusal{fmt.Errorf("hub: %s has no GGUF file %s; it has %s", r.Repo, r.Quant, strings.Join(slices.Compact(names), ", ")), ErrUnknown}
}

// quantName finds a quantisation in a file's name, between its other parts.
var quantName = regexp.MustCompile(`(?i)(?:^|[-._/])((?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_MOE)?|BF16|F16|FP16|F32))(?:$|[-._/])`)

// splitName is how parts of a split GGUF file end.
var splitName = regexp.MustCompile(`-(\d{5})-of-(\d{5})$`)

// ggufs are the models in GGUF among files. What is made for another's use (projectors of vision models, importance
// matrices) is none. A split one lacks no part; broken tells of the first that does.
func ggufs(files []File) (all []*Model, broken error) {
	parts := map[string][]File{}
	var stems []string
	for _, f := range files {
		base := strings.ToLower(path.Base(f.Path))
		if !strings.HasSuffix(base, ".gguf") || strings.Contains(base, "mmproj") || strings.Contains(base, "imatrix") {
			continue
		}
		stem := f.Path[:len(f.Path)-len(".gguf")]
		if m := splitName.FindString(stem); m != "" {
			stem = strings.TrimSuffix(stem, m) + m[len(m)-len("-of-00000"):]
		}
		if parts[stem] == nil {
			stems = append(stems, stem)
		}
		parts[stem] = append(parts[stem], f)
	}
	slices.Sort(stems)
	for _, stem := range stems {
		list := parts[stem]
		slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		first := strings.TrimSuffix(list[0].Path, path.Ext(list[0].Path))
		if m := splitName.FindStringSubmatch(first); m != nil {
			if n, err := strconv.Atoi(m[2]); err != nil || n != len(list) {
				broken = fmt.Errorf("of the %s parts of %s there are %d", m[2], list[0].Path, len(list))
				continue
			}
			first = strings.TrimSuffix(first, m[0])
		}
		all = append(all, &Model{Quant: quantOf(first), Files: list})
	}
	return all, broken
}

// quantOf is the quantisation in a file's name without its ending, or in that of its folder, or else the file's name.
func quantOf(stem string) string {
	for _, name := range []string{path.Base(stem), path.Base(path.Dir(stem))} {
		if all := quantName.FindAllStringSubmatch(name, -1); len(all) > 0 {
			return strings.ToUpper(all[len(all)-1][1])
		}
	}
	return path.Base(stem)
}

// called reports whether a name means this model: its quantisation, its file, or a part of that between separators.
func (m *Model) called(name string) bool {
	if strings.EqualFold(m.Quant, name) || strings.EqualFold(path.Base(m.Files[0].Path), name) {
		return true
	}
	stem := splitName.ReplaceAllString(strings.TrimSuffix(path.Base(m.Files[0].Path), ".gguf"), "")
	return strings.HasSuffix(strings.ToLower(stem), strings.ToLower("-"+name)) || strings.EqualFold(stem, name)
}

// rank orders models that are called alike; lower is meant rather.
func (m *Model) rank(name string) int {
	n := len(m.Files[0].Path)
	if !strings.EqualFold(m.Quant, name) {
		n += 1 << 20
	}
	return n
}
