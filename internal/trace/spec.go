package trace

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRequests bounds what a spec can ask for.
const maxRequests = 10_000_000

// spec is what a line such as "gamma:rate=4,cv=2,n=200,in=512,out=50-200" says.
type spec struct {
	rate   float64 // requests a second, on average
	n      int
	in     lengths
	out    lengths
	shared int     // tokens that all prompts begin with
	cv     float64 // of a gamma process: standard deviation of the gaps, over their mean
	size   int     // of a burst, requests
	seed   uint64
}

// process draws the gap before request i, in units of the mean gap.
type process func(s *spec, rng *rand.Rand, i int) float64

// processes are the ways in which requests can come.
var processes = map[string]process{
	"constant": func(*spec, *rand.Rand, int) float64 { return 1 },
	"poisson":  func(_ *spec, rng *rand.Rand, _ int) float64 { return rng.ExpFloat64() },
	"gamma": func(s *spec, rng *rand.Rand, _ int) float64 {
		shape := 1 / (s.cv * s.cv)
		return gamma(rng, shape) / shape
	},
	"burst": func(s *spec, _ *rand.Rand, i int) float64 {
		if i%s.size != 0 {
			return 0
		}
		return float64(s.size)
	},
}

func processNames() string {
	return strings.Join(slices.Sorted(maps.Keys(processes)), ":, ") + ":"
}

// Spec makes the trace that a line describes: the name of a process (poisson; gamma, whose gaps have the coefficient of
// variation cv; burst, of size requests at once; constant), a colon, and settings: rate (requests a second), n
// (requests), in and out (tokens: 512; 100-800 evenly; 512/300 lognormal with mean and standard deviation), shared (tokens
// that all prompts begin with, part of in) and seed. The same line makes the same trace.
func Spec(line string) (*Trace, error) {
	name, settings, _ := strings.Cut(line, ":")
	gap := processes[name]
	if gap == nil {
		return nil, fmt.Errorf("trace: %q names no process; a spec begins with %s", line, processNames())
	}
	s := spec{rate: 1, n: 100, in: lengths{kind: fixed, a: 512}, out: lengths{kind: fixed, a: 128}, cv: 2, size: 8, seed: 1}
	for _, setting := range strings.Split(settings, ",") {
		if setting == "" {
			continue
		}
		if err := s.set(name, setting); err != nil {
			return nil, fmt.Errorf("trace: %q: %w", line, err)
		}
	}
	return s.make(line, gap), nil
}

// set takes over one setting, NAME=VALUE.
func (s *spec) set(process, setting string) error {
	name, value, _ := strings.Cut(setting, "=")
	var err error
	switch {
	case name == "rate":
		s.rate, err = number(name, value, 1e-6, 1e6)
	case name == "n":
		s.n, err = whole(name, value, 1, maxRequests)
	case name == "in":
		s.in, err = parseLengths(name, value)
	case name == "out":
		s.out, err = parseLengths(name, value)
	case name == "shared":
		s.shared, err = whole(name, value, 0, MaxTokens)
	case name == "cv" && process == "gamma":
		s.cv, err = number(name, value, 0.01, 100)
	case name == "size" && process == "burst":
		s.size, err = whole(name, value, 1, maxRequests)
	case name == "seed":
		if s.seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = fmt.Errorf("seed is %q; a whole number from 0 is possible", value)
		}
	default:
		err = fmt.Errorf("%s: has no setting %q; rate, n, in, out, shared, seed, and cv of gamma and size of burst are possible", process, name)
	}
	return err
}

func (s *spec) make(line string, gap process) *Trace {
	rng := rand.New(rand.NewPCG(s.seed, 0x7261636574))
	t := &Trace{Name: line, Requests: make([]Request, s.n), Shared: s.shared}
	var at float64 // seconds
	for i := range t.Requests {
		at = min(at+gap(s, rng, i)/s.rate, maxTime.Seconds())
		t.Requests[i] = Request{At: time.Duration(at * float64(time.Second)), Input: s.in.draw(rng), Output: s.out.draw(rng)}
	}
	t.arrange()
	return t
}

// number parses a setting between two bounds, both included.
func number(name, value string, low, high float64) (float64, error) {
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= low && x <= high) {
		return 0, fmt.Errorf("%s is %q; a number from %g to %g is possible", name, value, low, high)
	}
	return x, nil
}

func whole(name, value string, low, high int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s is %q; a whole number from %d to %d is possible", name, value, low, high)
	}
	return n, nil
}

// gamma draws from the gamma distribution of a shape, with scale 1 (Marsaglia and Tsang, "A Simple Method for Generating
// Gamma Variables", 2000; below shape 1 by their boost from shape + 1).
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rng, shape+1) * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
