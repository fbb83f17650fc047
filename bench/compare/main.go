// Compare runs ridge bench and the llama-bench of other engines on one file, alternating, and prints medians and ratios. Memory
// bandwidth on shared machines varies two-fold over minutes; alternating runs see the same variation.
//
//	go run ./bench/compare -m model.gguf -rounds 3 -p 512 -n 128 -t 2 ridge=./ridge llama.cpp=/path/llama-bench ik=/path/llama-bench
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// engine is a program to measure: ridge, or one that takes llama-bench's flags.
type engine struct {
	name, path string
	extra      []string
}

func main() {
	model := flag.String("m", "", "GGUF file")
	rounds := flag.Int("rounds", 3, "runs of every engine; the median counts")
	prompt := flag.Int("p", 512, "prompt length to measure; 0: none")
	decode := flag.Int("n", 128, "tokens to decode; 0: none")
	threads := flag.Int("t", 2, "threads")
	flag.Parse()
	var engines []engine
	for _, a := range flag.Args() {
		name, path, ok := strings.Cut(a, "=")
		if !ok {
			fail("engine %q should be written name=program", a)
		}
		words := strings.Fields(path)
		if len(words) == 0 {
			fail("engine %q names no program", a)
		}
		engines = append(engines, engine{name, words[0], words[1:]})
	}
	if *model == "" || len(engines) == 0 || *rounds < 1 {
		fail("give -m FILE and at least one engine as name=program")
	}
	rates := map[string]map[string][]float64{} // test → engine → tokens/s
	for range *rounds {
		for _, e := range engines {
			rows, err := e.run(*model, *prompt, *decode, *threads)
			if err != nil {
				fail("%s: %v", e.name, err)
			}
			for test, rate := range rows {
				if rates[test] == nil {
					rates[test] = map[string][]float64{}
				}
				rates[test][e.name] = append(rates[test][e.name], rate)
			}
		}
	}
	print(engines, rates)
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "compare: "+format+"\n", args...)
	os.Exit(1)
}

// run measures once and returns tokens per second by test name.
func (e engine) run(model string, prompt, decode, threads int) (map[string]float64, error) {
	args := []string{"-m", model, "-p", strconv.Itoa(prompt), "-n", strconv.Itoa(decode), "-t", strconv.Itoa(threads), "-r", "1"}
	if e.name == "ridge" {
		args = append(append([]string{"bench", "--json"}, e.extra...), args...)
	} else {
		args = append(append([]string{"-o", "json"}, e.extra...), args...)
	}
	out, err := exec.Command(e.path, args...).Output()
	if err != nil {
		return nil, err
	}
	if e.name == "ridge" {
		return ridgeRows(out)
	}
	return llamaRows(out)
}

// ridgeRows reads what ridge bench --json prints.
func ridgeRows(out []byte) (map[string]float64, error) {
	var reports []struct {
		Rows []struct {
			Prompt int     `json:"prompt"`
			Decode int     `json:"decode"`
			Rate   float64 `json:"tokens_per_second"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(out, &reports); err != nil {
		return nil, err
	}
	rows := map[string]float64{}
	for _, r := range reports {
		for _, row := range r.Rows {
			rows[testName(row.Prompt, row.Decode)] = row.Rate
		}
	}
	return rows, nil
}

// llamaRows reads what llama-bench -o json prints.
func llamaRows(out []byte) (map[string]float64, error) {
	if i := strings.IndexByte(string(out), '['); i > 0 { // some print their devices before
		out = out[i:]
	}
	var list []struct {
		Prompt int     `json:"n_prompt"`
		Decode int     `json:"n_gen"`
		Rate   float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	rows := map[string]float64{}
	for _, r := range list {
		rows[testName(r.Prompt, r.Decode)] = r.Rate
	}
	return rows, nil
}

func testName(prompt, decode int) string {
	if decode > 0 {
		return fmt.Sprintf("tg%d", decode)
	}
	return fmt.Sprintf("pp%d", prompt)
}

// print prints a line for every test: medians, and the first engine's over each other's.
func print(engines []engine, rates map[string]map[string][]float64) {
	var tests []string
	for test := range rates {
		tests = append(tests, test)
	}
	slices.Sort(tests)
	for _, test := range tests {
		line := fmt.Sprintf("%-8s", test)
		var first float64
		for i, e := range engines {
			list := rates[test][e.name]
			if len(list) == 0 {
				continue
			}
			slices.Sort(list)
			median := list[len(list)/2]
			line += fmt.Sprintf("  %s %.1f", e.name, median)
			if i == 0 {
				first = median
			} else {
				line += fmt.Sprintf(" (×%.2f)", first/median)
			}
		}
		fmt.Println(line)
	}
}
