// Command mca prints how many cycles LLVM's models of processors say that the inner loops of kernels take, for those that there is no machine of:
//
//	GOARCH=arm64 go test -c -o gemm.test ./backend/cpu/gemm
//	go run -C tools ./asm/mca -cpus neoverse-v2,cortex-x4,apple-m1 ../gemm.test dotI8x6D dotI8x6M
//
// It runs llvm-objdump and llvm-mca, takes all loads to hit the first cache, and leaves out what only formats with minima run.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	cpus := flag.String("cpus", "neoverse-v2,cortex-x4,apple-m1", "processors, as llvm-mca calls them")
	version := flag.String("llvm", "-22", "what follows the names of LLVM's programs")
	pkg := flag.String("package", "github.com/ridge-llm/ridge/backend/cpu/gemm", "package of the functions")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: mca [flags] BINARY FUNCTION…")
		os.Exit(2)
	}
	models := strings.Split(*cpus, ",")
	fmt.Printf("| loop | instructions | %s |\n|---|---|%s\n", strings.Join(models, " | "), strings.Repeat("---|", len(models)))
	for _, function := range flag.Args()[1:] {
		row, err := simulate(flag.Arg(0), *pkg+"."+function, *version, models)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mca: %s: %v\n", function, err)
			os.Exit(1)
		}
		fmt.Printf("| %s | %s |\n", function, row)
	}
}

// simulate is a row of the table.
func simulate(binary, symbol, version string, models []string) (string, error) {
	dump, err := output(nil, "llvm-objdump"+version, "-d", "--no-show-raw-insn", "--disassemble-symbols="+symbol+","+symbol+".abi0", binary)
	if err != nil {
		return "", err
	}
	loop := innerLoop(parse(dump))
	if len(loop) == 0 {
		return "", fmt.Errorf("%s has no loop in %s", symbol, binary)
	}
	triple, attributes := "x86_64", ""
	if strings.Contains(string(dump), "aarch64") {
		triple, attributes = "aarch64", "+dotprod,+i8mm,+bf16,+fullfp16"
	}
	cells := []string{strconv.Itoa(len(loop))}
	for _, cpu := range models {
		const iterations = 200
		report, err := output([]byte(strings.Join(loop, "\n")+"\n"), "llvm-mca"+version, "-mtriple="+triple, "-mcpu="+cpu, "-mattr="+attributes,
			"-iterations="+strconv.Itoa(iterations), "-instruction-info=false", "-resource-pressure=false")
		if err != nil {
			return "", err
		}
		found := regexp.MustCompile(`Total Cycles: +(\d+)`).FindSubmatch(report)
		if found == nil {
			return "", fmt.Errorf("llvm-mca printed no cycles for %s", cpu)
		}
		cycles, err := strconv.Atoi(string(found[1]))
		if err != nil {
			return "", err
		}
		cells = append(cells, fmt.Sprintf("%.0f", float64(cycles)/iterations))
	}
	return strings.Join(cells, " | "), nil
}

func output(input []byte, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Stdin, c.Stderr = bytes.NewReader(input), os.Stderr
	return c.Output()
}

// instruction is one line of llvm-objdump's.
type instruction struct {
	at     uint64
	text   string
	target uint64 // of a branch; 0 if it is none
}

// hints are encodings that LLVM takes for data in Go's programs, or that models do not know; they take no time that counts.
var line = regexp.MustCompile(`(?m)^ *([0-9a-f]+): +\t?(.*)$`)
var target = regexp.MustCompile(`^(b[a-z.]*|cbn?z|tbn?z|j[a-z]+)\s.*?0x([0-9a-f]+) <`)

func parse(dump []byte) (all []instruction) {
	for _, m := range line.FindAllSubmatch(dump, -1) {
		at, _ := strconv.ParseUint(string(m[1]), 16, 64)
		i := instruction{at: at, text: string(m[2])}
		if t := target.FindStringSubmatch(i.text); t != nil {
			i.target, _ = strconv.ParseUint(t[2], 16, 64)
		}
		all = append(all, i)
	}
	return all
}

// innerLoop is the longest loop that has no other in it, without what a branch on an argument that may be nil skips.
func innerLoop(all []instruction) (longest []string) {
	start := 0 // no loop may begin before: another one ends there
	for end, branch := range all {
		if branch.target == 0 || branch.target > branch.at {
			continue
		}
		from := end
		for from > start && all[from].at > branch.target {
			from--
		}
		if all[from].at != branch.target {
			continue
		}
		if loop := withoutSkipped(all[from : end+1]); len(loop) > len(longest) {
			longest = loop
		}
		start = end + 1
	}
	return longest
}

func withoutSkipped(loop []instruction) (text []string) {
	skip := uint64(0)
	for i, in := range loop {
		if in.at < skip {
			continue
		}
		if in.target > in.at {
			skip = in.target
		}
		if in.target == 0 || i == len(loop)-1 {
			text = append(text, strings.SplitN(regexp.MustCompile(`0x[0-9a-f]+ <.*>`).ReplaceAllString(in.text, "."), " //", 2)[0])
		}
	}
	return text
}
