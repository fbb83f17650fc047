package price

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
)

// Profile is what a device can do. As JSON it is the file that --device takes.
type Profile struct {
	Name   string `json:"name"`            // for --device, "h200"
	Title  string `json:"title,omitempty"` // for people, "NVIDIA H200 SXM"
	Source string `json:"source"`          // the document that the figures are from, or how they were measured

	// FLOPs is the peak rate of dense arithmetic by number format, FLOP/s; a fused multiply-add is two.
	FLOPs map[Number]float64 `json:"flops_per_second"`
	// Levels is the memory, nearest first; the last is the main memory, whose size is the device's capacity.
	Levels []Level `json:"levels"`

	Launch  float64 `json:"launch_seconds"`            // to start a launch
	Barrier float64 `json:"barrier_seconds,omitempty"` // for its threads to wait for one another
	Host    float64 `json:"host_bytes_per_second,omitempty"`
	Link    float64 `json:"link_bytes_per_second,omitempty"` // of one device to its peers, in one direction
	LinkLag float64 `json:"link_seconds,omitempty"`          // before the first byte of a message arrives
	Dollars float64 `json:"dollars_per_hour,omitempty"`

	// How graphs are built for the device; see backend.Info.
	Act       string `json:"act,omitempty"`              // element type of activations, "f32" or "bf16"; "" is f32
	Q8        bool   `json:"q8,omitempty"`               // block formats are multiplied with Q8 inputs, in integers
	RoundBF16 bool   `json:"round_bf16,omitempty"`       // BF16 weights are multiplied with inputs rounded to BF16
	RowTiles  []int  `json:"row_tiles,omitempty"`        // row tiles of product kernels: rows are rounded up to the next one, beyond the last to a multiple of it
	Kernels   string `json:"kernels,omitempty"`          // see backend.Info
	Replays   bool   `json:"replays,omitempty"`          // steps that only decode run from a recording, without a call for each launch
	Attention Number `json:"attention_number,omitempty"` // that attention computes in; "" is f32

	Fit *Fit `json:"fit,omitempty"` // nil: the typical one
}

// Level is a level of memory as all of the device sees it together.
type Level struct {
	Name  string  `json:"name"` // "L2", "HBM3e"
	Bytes int64   `json:"bytes"`
	Rate  float64 `json:"bytes_per_second,omitempty"` // to read; 0, of a cache only: not known, taken to be that of the level behind it
}

// MaxLevels is how many levels of memory a Profile may have.
const MaxLevels = 4

// ActType is the element type of activations.
func (p *Profile) ActType() graph.Type {
	if p.Act == "bf16" {
		return graph.BF16
	}
	return graph.F32
}

// Memory is the main memory.
func (p *Profile) Memory() Level { return p.Levels[len(p.Levels)-1] }

// bounds of valid figures, far outside of existing devices.
const (
	minFLOPs, maxFLOPs     = 1e6, 1e18     // FLOP/s
	minRate, maxRate       = 1e6, 1e16     // bytes/s
	maxOverhead            = 1.0           // seconds
	minCapacity, maxMemory = 1024, 1 << 50 // bytes
	maxTile                = 1 << 16       // rows
)

// Validate returns a sentence that names the first field that is wrong and says what is accepted.
func (p *Profile) Validate() error {
	bad := func(field string, got any, want string) error {
		return fmt.Errorf("price: profile %q: %s is %v; it must be %s", p.Name, field, got, want)
	}
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, " /\\\t\n"):
		return bad("name", fmt.Sprintf("%q", p.Name), "a word without spaces or slashes")
	case p.Source == "":
		return bad("source", `""`, "the document that the figures are from, or how they were measured")
	case len(p.FLOPs) == 0 || p.FLOPs[F32] == 0:
		return bad("flops_per_second.f32", "missing", "the peak rate of f32 arithmetic, FLOP/s")
	case len(p.Levels) == 0 || len(p.Levels) > MaxLevels:
		return bad("levels", fmt.Sprintf("%d levels", len(p.Levels)), fmt.Sprintf("1 to %d of them, nearest first and the main memory last", MaxLevels))
	case p.Act != "" && p.Act != "f32" && p.Act != "bf16":
		return bad("act", fmt.Sprintf("%q", p.Act), `"f32" or "bf16"`)
	case p.Attention != "" && p.FLOPs[p.Attention] == 0:
		return bad("attention_number", fmt.Sprintf("%q", p.Attention), "one of the formats in flops_per_second")
	}
	for i, tile := range p.RowTiles {
		if tile < 1 || tile > maxTile || i > 0 && tile <= p.RowTiles[i-1] {
			return bad("row_tiles", p.RowTiles, fmt.Sprintf("ascending, from 1 to %d", maxTile))
		}
	}
	for n, rate := range p.FLOPs {
		if !slices.Contains(Numbers, n) {
			return bad("flops_per_second", fmt.Sprintf("given for %q", n), fmt.Sprintf("for some of %v", Numbers))
		}
		if !within(rate, minFLOPs, maxFLOPs) {
			return bad(fmt.Sprintf("flops_per_second.%s", n), rate, fmt.Sprintf("%g to %g FLOP/s", minFLOPs, maxFLOPs))
		}
	}
	if err := p.validateLevels(bad); err != nil {
		return err
	}
	for _, f := range []struct {
		name     string
		value    float64
		lo, hi   float64
		optional bool
	}{
		{"launch_seconds", p.Launch, 0, maxOverhead, false}, {"barrier_seconds", p.Barrier, 0, maxOverhead, false},
		{"link_seconds", p.LinkLag, 0, maxOverhead, false}, {"host_bytes_per_second", p.Host, minRate, maxRate, true},
		{"link_bytes_per_second", p.Link, minRate, maxRate, true}, {"dollars_per_hour", p.Dollars, 0, 1e6, false},
	} {
		if !within(f.value, f.lo, f.hi) && !(f.optional && f.value == 0) {
			return bad(f.name, f.value, fmt.Sprintf("%g to %g", f.lo, f.hi))
		}
	}
	if p.Fit != nil {
		return p.Fit.validate(bad)
	}
	return nil
}

func (p *Profile) validateLevels(bad func(string, any, string) error) error {
	for i, l := range p.Levels {
		at := fmt.Sprintf("levels[%d]", i)
		last := i == len(p.Levels)-1
		switch {
		case l.Name == "":
			return bad(at+".name", `""`, "given")
		case l.Bytes < minCapacity || l.Bytes > maxMemory:
			return bad(at+".bytes", l.Bytes, fmt.Sprintf("%d to %d bytes", minCapacity, int64(maxMemory)))
		case i > 0 && l.Bytes <= p.Levels[i-1].Bytes:
			return bad(at+".bytes", l.Bytes, fmt.Sprintf("more than the %d of the level before it", p.Levels[i-1].Bytes))
		case !within(l.Rate, minRate, maxRate) && (last || l.Rate != 0):
			return bad(at+".bytes_per_second", l.Rate, fmt.Sprintf("%g to %g bytes/s", minRate, maxRate))
		}
	}
	return nil
}

// within is false for NaN.
func within(x, lo, hi float64) bool { return x >= lo && x <= hi && !math.IsInf(x, 0) }

// ReadProfile reads a profile from a JSON file.
func ReadProfile(path string) (*Profile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("price: %w", err)
	}
	p, err := ParseProfile(data)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return p, nil
}

// ParseProfile reads a profile from JSON. Unknown fields are refused, since they are misspelt ones.
func ParseProfile(data []byte) (*Profile, error) {
	var p Profile
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("price: a profile is a JSON object such as `ridge calibrate --json` prints: %w", plainly(err))
	}
	return &p, p.Validate()
}

// plainly is an error of encoding/json without the names of Go's types.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("this one is empty")
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return fmt.Errorf("this one is a JSON %s", wrong.Value)
	}
	want := "a number"
	switch wrong.Type.Kind() {
	case reflect.Int64, reflect.Int:
		want = "a whole number"
	case reflect.String:
		want = "a text"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		want = "an object"
	}
	return fmt.Errorf("%s is a JSON %s; it must be %s", wrong.Field, wrong.Value, want)
}

// Greedy is the profile for steps whose requests all take the most likely token, which needs less than sampling does.
func (p *Profile) Greedy() *Profile {
	if p.Fit == nil {
		return p
	}
	greedy, fit := *p, *p.Fit
	fit.Logit = fit.Greedy
	greedy.Fit = &fit
	return &greedy
}

// complete is the profile with defaults filled in.
func (p *Profile) complete() *Profile {
	full := *p
	full.Levels = slices.Clone(p.Levels)
	for i := len(full.Levels) - 2; i >= 0; i-- {
		if full.Levels[i].Rate == 0 {
			full.Levels[i].Rate = full.Levels[i+1].Rate
		}
	}
	if full.Fit == nil {
		full.Fit = Typical(p)
	}
	return &full
}
