package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile/ranks"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/check"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/weights/adapter"
)

func checkCommand() *cobra.Command {
	var o device.Options
	var chunk int
	var golden, base string
	var asJSON bool
	var layout ridge.Layout
	var onGPU gpuLayers
	var onCPU cpuExperts
	var cache expertCache
	var processes rankFlags
	cmd := &cobra.Command{
		Use:   "check MODEL|ADAPTER",
		Short: "Compare a model's results with those computed upstream",
		Long: `Check computes the prompts of golden.safetensors (or golden.json) in the model's directory and compares logits and
greedy tokens with what that file says upstream computed, in float32. It prints the worst relative error of a logit and
ends with exit code 1 if that is above 1e-4 or a greedy token differs. A checkpoint with quantised weights (GPTQ, AWQ, FP8 …) is computed
with inputs that stay in floats, as upstream does, and passes up to 1e-3.

With --tp, --pp, --ep, --sp and --dp the model runs on several devices of the backend, each with a part of it; on a CPU they share its threads. With --ranks process
each is of a process of its own, as ridge serve has them.

Of an adapter, a PEFT folder or a GGUF file, check computes the base model with it: the one that adapter_config.json names, relative to
the folder, or that of --base.

The file is looked for in the model's directory, or in that of --golden, which a GGUF file's results may lie in.

golden.safetensors holds input_ids [n, length] I32, logits [n, length, vocab] F32 and greedy_ids [k] I32, which continue
row 0. golden.json holds prompt_ids, last_prompt_logits and greedy_ids, or a list of such objects under "cases".`,
		Example: `  ridge check ../shared/reference/architectures/llama
  ridge check --backend ref --json ../shared/models/demo
  ridge check --backend ref --tp 2 --pp 2 ../shared/reference/architectures/llama
  ridge check --ep 2 --dp 2 --ranks process ../shared/reference/architectures/mixtral
  ridge check ../shared/reference/adapters/r8-attn
  ridge check model-f32.gguf --golden path/to/hf-model`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := ridge.Options{Backend: o.Backend, Threads: o.Threads, Layout: layout, GPULayers: ridge.GPULayers(onGPU), CPUExperts: ridge.CPUExperts(onCPU), ExpertCache: ridge.ExpertCache(cache)}
			if err := processes.prepare(cmd.Context(), &all); err != nil {
				return err
			}
			o.Transport = all.Ranks.GPUTransport()
			loads, err := expertLoads(layout)
			if err != nil {
				return err
			}
			how := check.Options{Layout: passLayout(layout), Loads: loads, Cache: graph.F32, Chunk: chunk}
			devices, err := checkDevices(o, all, args[0], &how)
			if err != nil {
				return err
			}
			defer closeDevices(devices)
			how.Devices = devices
			withAdapter := base != "" || adapter.Is(args[0])
			if withAdapter && how.Meet != nil {
				return errors.New("check: an adapter is compared in one process; leave out --ranks and --rendezvous")
			}
			if isRank(&all) {
				return check.Work(args[0], how)
			}
			dir := golden
			if dir == "" {
				dir = args[0]
				if info, err := os.Stat(dir); err == nil && !info.IsDir() {
					dir = filepath.Dir(dir)
				}
			}
			var res *check.Result
			if withAdapter {
				res, err = check.Adapter(args[0], base, dir, how)
			} else {
				res, err = check.Model(args[0], dir, how)
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(res)
			} else {
				verdict := "ok"
				if !res.OK {
					verdict = "MISMATCH"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  backend %s\n  logits  worst relative error %.2g (at most %.0e passes) over %d rows: case %d, row %d, token %d is %g and should be %g\n  greedy  %d of %d tokens the same\n",
					verdict, args[0], res.Backend, res.WorstError, res.Tolerance, res.Rows, res.WorstCase, res.WorstRow, res.WorstToken, res.Got, res.Want, res.GreedySame, res.Greedy)
			}
			if err == nil && !res.OK {
				return errFailed
			}
			return err
		},
	}
	addDevice(cmd, &o.Backend, &o.Threads, &o.Deterministic)
	addLayout(cmd.Flags(), &layout)
	onGPU.add(cmd.Flags())
	onCPU.add(cmd.Flags())
	cache.add(cmd.Flags())
	processes.add(cmd.Flags())
	cmd.Flags().StringVar(&base, "base", "", "the model that an adapter is for; default: what its configuration says")
	cmd.Flags().StringVar(&golden, "golden", "", "directory of golden.safetensors or golden.json; default: the model's")
	cmd.Flags().IntVar(&chunk, "chunk", 0, "compute prompts in chunks of this many tokens; 0: whole")
	addJSON(cmd.Flags(), &asJSON)
	return cmd
}

// checkDevices opens the devices of a layout or, where each is of a process of its own, this one's, and then says how the processes meet.
func checkDevices(o device.Options, all ridge.Options, path string, how *check.Options) (devices []backend.Device, err error) {
	r := all.Ranks
	onGPU, onCPU := gpuLayers(all.GPULayers), cpuExperts(all.CPUExperts)
	switch {
	case (onGPU != 0 || onCPU != 0) && r.Rendezvous != "":
		return nil, errors.New("check: --gpu-layers and --cpu-moe are of one process; leave out --ranks and --rendezvous")
	case onGPU != 0 || onCPU != 0:
		b, err := modeldir.Open(path)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		devices, d, err := onGPU.open(o, all.Layout, onCPU, expertCache(all.ExpertCache), b.Model)
		how.Last, how.Experts, how.Slots = d.last, d.experts, d.slots
		return devices, err
	case r.Rendezvous == "":
		return openDevices(o, all.Layout)
	}
	if err := all.Layout.Check(); err != nil {
		return nil, err
	}
	o.Number, o.Threads = r.Local, all.Threads
	how.Meet = func(facts []world.Fact, l pass.Layout) (*world.World, error) {
		facts = append(facts, world.Fact{Name: "version", Value: thisBuild().Version})
		return world.Meet(context.Background(), world.Options{Rank: r.Number, Size: l.Devices(), Address: r.Rendezvous, Listener: r.Listener, Secret: []byte(r.Secret), Facts: facts,
			Groups: ranks.Groups(l), Transport: r.HostTransport(), Meet: r.Meet, Noticed: r.Noticed, Ended: r.Ended,
			Note: func(text string) { fmt.Fprintf(os.Stderr, "ridge: rank %d: %s\n", r.Number, text) }})
	}
	d, err := device.Open(o)
	if err != nil {
		return nil, err
	}
	return []backend.Device{d}, nil
}
