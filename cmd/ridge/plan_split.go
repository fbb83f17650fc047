package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
)

// splitReport is a model with layers on a CPU and on a GPU, by how many are on the GPU.
type splitReport struct {
	Model    string            `json:"model"`
	CPU      string            `json:"cpu"`
	GPU      string            `json:"gpu"`
	Layers   int               `json:"layers"`
	Workload capacity.Workload `json:"workload"`
	Rows     []splitRow        `json:"rows"`
	Reason   string            `json:"why_not_more,omitempty"` // of --gpu-layers auto
}

// splitRow is one number of layers, with one sequence. Bytes are weights, activations and workspace, and the cache of the sequence at its longest.
type splitRow struct {
	Last    int     `json:"gpu_layers"`
	Experts int     `json:"n_cpu_moe"` // of how many first layers of the model the experts are on the CPU
	Chosen  bool    `json:"chosen"`    // it was asked for, or is auto's
	OnGPU   int64   `json:"gpu_bytes"`
	GPUKV   int64   `json:"gpu_cache_bytes"`
	OnCPU   int64   `json:"cpu_bytes"`
	CPUKV   int64   `json:"cpu_cache_bytes"`
	TTFT    float64 `json:"ttft_seconds"`
	ITL     float64 `json:"itl_seconds"`
	Decode  float64 `json:"decode_tokens_per_s"`
	Prefill float64 `json:"prompt_tokens_per_s"`
	Why     string  `json:"why_not,omitempty"` // it does not fit, or misses --slo
}

// sides are the CPU and the GPU of --device.
func (f *planFlags) sides(ctx context.Context, m *model.Model) (cpu, gpu capacity.Side, err error) {
	wrong := errors.New("plan: --gpu-layers, --cpu-moe and --n-cpu-moe divide a model between a GPU and a CPU: give both as --device, as in --device rtx4090,zen5, and leave --tp, --pp, --ep, --sp, --dp, --loras, --train, --quant, --disaggregate, --batch and --plot out")
	if len(f.devices) != 2 || len(f.quant) > 0 || f.apart > 0 || f.train || f.loras.Slots > 0 || f.data > 1 || len(f.batch) > 0 || f.plot != "" {
		return cpu, gpu, wrong
	}
	for _, list := range [][]int{f.tensor, f.pipeline, f.expert, f.sequence} {
		if !slices.Equal(list, []int{1}) {
			return cpu, gpu, wrong
		}
	}
	all, err := f.profiles(ctx)
	if err != nil {
		return cpu, gpu, err
	}
	side := func(p *price.Profile) (capacity.Side, error) {
		g, err := f.shape.graph(m, p.ActType())
		if err != nil {
			return capacity.Side{}, err
		}
		o, err := f.shape.passes(p)
		return capacity.Side{Device: p, Graph: g, Passes: o}, err
	}
	i := slices.IndexFunc(all, func(p *price.Profile) bool { return p.Link == 0 })
	if i < 0 || all[1-i].Link == 0 {
		return cpu, gpu, wrong
	}
	if cpu, err = side(all[i]); err != nil {
		return cpu, gpu, err
	}
	gpu, err = side(all[1-i])
	return cpu, gpu, err
}

// planSplit estimates a model with the layers that --gpu-layers asks for on the GPU, and beside it with none and all there.
func (f *planFlags) planSplit(ctx context.Context, name string, m *model.Model) (*splitReport, error) {
	cpu, gpu, err := f.sides(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.Config.Encoder {
		return nil, fmt.Errorf("plan: %s is an encoder and generates no tokens: ridge roofline prices its steps", m.Arch.Name)
	}
	if f.limits.Context == 0 {
		f.limits.Context = m.Config.Context
	}
	r := &splitReport{Model: name, CPU: cpu.Device.Name, GPU: gpu.Device.Name, Layers: gpu.Graph.Layers(), Workload: f.load}
	experts := ridge.CPUExperts(f.experts).Of(r.Layers)
	chosen := division{experts: experts}
	switch n := ridge.GPULayers(f.split); {
	case n == ridge.AutoGPULayers:
		s, reason, err := capacity.CheapestSplit(cpu, gpu, experts, f.load, f.limits, pass.All)
		if err != nil {
			return nil, err
		}
		if chosen = (division{last: s.Last, experts: s.Experts}); reason != nil {
			r.Reason = reason.Error()
		}
	case n == ridge.NoGPULayers:
		chosen.experts = 0
	case n == 0 || int(n) >= r.Layers:
		chosen.last = r.Layers
	default:
		chosen.last = int(n)
	}
	shown := []division{{}, chosen, {last: r.Layers}}
	if ridge.GPULayers(f.split) == ridge.AutoGPULayers {
		shown = append(shown, division{last: r.Layers / 4}, division{last: r.Layers / 2}, division{last: 3 * r.Layers / 4})
	}
	if chosen.experts > 0 {
		shown = append(shown, division{last: chosen.last}, division{last: chosen.last, experts: r.Layers})
	}
	slices.SortFunc(shown, func(a, b division) int { return cmp.Or(a.last-b.last, b.experts-a.experts) })
	for _, d := range slices.Compact(shown) {
		s, err := capacity.NewSplit(cpu, gpu, d.last, d.experts, f.limits, pass.All)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, f.splitRow(s, d == chosen))
	}
	return r, nil
}

func (f *planFlags) splitRow(s *capacity.Split, chosen bool) splitRow {
	row := splitRow{Last: s.Last, Experts: s.Experts, Chosen: chosen}
	if s.GPU != nil {
		row.OnGPU, row.GPUKV = s.GPU.Memory.Fixed(), s.GPU.CacheBytes(1, f.load.Input+f.load.Output)
	}
	if s.CPU != nil {
		row.OnCPU, row.CPUKV = s.CPU.Memory.Fixed(), s.CPU.CacheBytes(1, f.load.Input+f.load.Output)
	}
	if err := s.Fits(1, f.load.Input+f.load.Output); err != nil {
		row.Why = err.Error()
		return row
	}
	row.TTFT, row.ITL = s.First(f.load), s.Token(f.load)
	row.Decode, row.Prefill = 1/row.ITL, float64(f.load.Input)/row.TTFT
	if e := (capacity.Estimate{Batch: 1, TTFT: row.TTFT, ITL: row.ITL}); !f.promise.Meets(e) {
		row.Why = f.promise.Missed(e)
	}
	return row
}

// where is the number of layers on the GPU, and of those whose experts are not.
func (row *splitRow) where() string {
	if row.Experts == 0 {
		return strconv.Itoa(row.Last)
	}
	return fmt.Sprintf("%d (--n-cpu-moe %d)", row.Last, row.Experts)
}

// print writes the report as a table.
func (r *splitReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d layers, the last of them on %s and the others on %s; one sequence of %d prompt and %d output tokens\n", r.Model, r.Layers, r.GPU, r.CPU, r.Workload.Input, r.Workload.Output)
	w := tabwriter.NewWriter(heading(out), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "on the GPU\tGPU memory\tcache there\tCPU memory\tcache there\tTTFT ms\tITL ms\tdecode tok/s\tprompt tok/s\t\n")
	for _, row := range r.Rows {
		mark := ""
		if row.Chosen {
			mark = "*"
		}
		times := "-\t-\t-\t-"
		if row.ITL > 0 {
			times = fmt.Sprintf("%s\t%s\t%.4g\t%.4g", inMillis(row.TTFT), inMillis(row.ITL), row.Decode, row.Prefill)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.where(), size.Text(row.OnGPU), size.Text(row.GPUKV), size.Text(row.OnCPU), size.Text(row.CPUKV), times, mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Why != "" {
			fmt.Fprintf(out, "not %s: %s\n", row.where(), row.Why)
		}
	}
	return nil
}

// write writes the report. It is an error if the number that was asked for does not fit, or misses --slo.
func (r *splitReport) write(out io.Writer, asJSON bool) error {
	var err error
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.print(out)
	}
	for _, row := range r.Rows {
		if row.Chosen && row.Why != "" {
			err = errors.Join(err, fmt.Errorf("plan: %s with %s of %d layers on %s: %s", r.Model, row.where(), r.Layers, r.GPU, row.Why))
		}
	}
	return err
}
