package ridge_test

import (
	"bufio"
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ridge-llm/ridge"

// policy says which packages of ours a package may import, itself and what lies below it apart. A pattern ending in
// "/..." covers a tree. The first pattern that matches a package decides. Tests may import what they
// need to run a model.
var policy = []struct {
	pkg  string
	may  []string
	note string
}{
	{"quant/...", []string{"quant/..."}, "number formats stand on nothing"},
	{"tokenizer/...", []string{"tokenizer/..."}, "text to ids stands on nothing"},
	{"chat/gotemplate", nil, "Go's templates into Jinja"},
	{"chat/reply", []string{"chat", "engine/grammar", "engine/grammar/language"}, "what a model may write, in its own style"},
	{"chat/...", []string{"chat/..."}, "templates stand on nothing"},
	{"weights/recipe", []string{"quant"}, "how weights are made of tensors, as data that graphs hold"},
	{"graph", []string{"quant", "weights/recipe"}, ""},
	{"pass/...", []string{"graph", "quant", "weights/recipe", "pass/..."}, ""},
	{"model", []string{"graph", "quant", "weights", "weights/adapter", "weights/recipe"}, "a model is a graph and nothing else; adapters are fitted to it"},
	{"weights/...", []string{"quant", "weights/...", "internal/regular", "internal/size"}, "files hold numbers; they know no models"},
	{"backend/sampling", nil, "ints and slices only"},
	{"backend", []string{"graph", "quant", "backend/sampling"}, ""},
	{"backend/ref", []string{"graph", "quant", "backend", "backend/sampling"}, ""},
	{"backend/cpu/...", []string{"graph", "quant", "backend", "backend/cpu/...", "internal/background", "internal/cgroup", "internal/hostmem", "internal/size"}, "the machine's limits, and what gives way to workers"},
	{"backend/cuda/...", []string{"graph", "quant", "backend", "backend/sampling", "backend/cuda/...", "weights/mmap", "internal/size"}, "faults of mapped files on their way to a GPU"},
	{"comm/shm", []string{"comm", "backend/cpu/gemm", "backend/cpu/vec"}, "numbers between processes, added by the vector kernels"},
	{"comm/...", []string{"internal/handshake", "comm", "comm/..."}, "numbers between ranks; it knows no graphs"},
	{"compile", []string{"graph", "pass", "quant", "backend", "backend/sampling", "weights/recipe", "comm/..."}, "any device, any model"},
	{"price/capacity", []string{"graph", "quant", "pass", "price", "internal/size"}, "a graph and its passes are enough"},
	{"price/...", []string{"graph", "quant", "price/...", "internal/size"}, "no device and no weights: a graph is enough"},
	{"engine/sample", []string{"backend/sampling"}, "ints and slices only"},
	{"engine/kv", nil, "ints and slices only"},
	{"engine/sched", nil, "ints and slices only"},
	{"compile/ranks", []string{"graph", "pass", "quant", "backend", "backend/sampling", "comm", "comm/world", "compile"}, "a program of several processes, for one"},
	{"compile/earlyexit", []string{"graph", "backend", "compile"}, "a program and parts of it, for one"},
	{"engine/draft/layerskip", []string{"backend", "compile", "engine/draft"}, "the target's first layers as a program"},
	{"engine/draft/draftmodel", []string{"backend", "compile", "engine/draft", "engine/kv"}, "a program that drafts, with pages of its own; it knows no model by name"},
	{"engine/draft/hiddenmodel", []string{"backend", "compile", "engine/draft"}, "programs that draft; it knows no model by name"},
	{"engine/draft/medusa", []string{"backend", "compile", "graph", "quant", "weights/recipe", "engine/draft"}, "heads as graphs of their own"},
	{"engine/draft", nil, "guesses at tokens, ints and slices only"},
	{"engine/diffusion", nil, "which tokens are found when, numbers only"},
	{"engine/offload", []string{"engine/kv"}, "pages by their keys, wherever they are kept"},
	{"engine/adapters", nil, "ints and slices only"},
	{"engine/predict", []string{"graph", "engine/sched"}, "numbers of steps; it knows no requests"},
	{"engine/account", []string{"graph", "price"}, "times of steps; it knows no requests' texts"},
	{"engine/grammar/syntax", nil, "the rules of a grammar stand on nothing"},
	{"engine/grammar/dfa", []string{"engine/grammar/syntax"}, ""},
	{"engine/grammar/automaton", []string{"engine/grammar/syntax", "engine/grammar/dfa", "internal/background"}, "any grammar, whatever it was read from"},
	{"engine/grammar/regex", []string{"engine/grammar/syntax"}, "text to rules; it knows no tokens"},
	{"engine/grammar/gbnf", []string{"engine/grammar/syntax"}, "text to rules; it knows no tokens"},
	{"engine/grammar/schema", []string{"engine/grammar/syntax", "engine/grammar/dfa", "engine/grammar/regex"}, "text to rules; it knows no tokens"},
	{"engine/grammar/grammartest", []string{"engine/grammar/..."}, "for tests"},
	{"engine/grammar/language", []string{"engine/grammar"}, "languages by name, compiled when asked for"},
	{"engine/grammar", []string{"engine/grammar/..."}, "the API that the engine and the library use"},
	{"engine", []string{"graph", "compile", "price", "backend", "backend/sampling", "engine/..."}, "no model or device by name"},
	{"internal/testkit/...", []string{"..."}, ""},
	{"internal/device", []string{"graph", "backend/..."}, "devices by their names"},
	{"internal/cgroup", nil, "control groups of this process"},
	{"internal/cascade", nil, "numbers and texts; it knows no models"},
	{"internal/background", nil, "threads that give way"},
	{"internal/regular", nil, "files that have an end"},
	{"internal/size", nil, "numbers and their text"},
	{"internal/builtin", nil, "the embedded model file"},
	{"internal/modeldir", []string{"quant", "weights/...", "model", "tokenizer", "chat", "internal/builtin", "internal/regular"}, "files become nouns"},
	{"internal/convert", []string{"quant", "graph", "weights/...", "model", "pass", "tokenizer", "internal/modeldir", "internal/disk", "internal/regular", "internal/size"}, "files to files"},
	{"internal/documents", []string{"internal/modeldir", "tokenizer", "chat"}, "texts in documents as a model is given them"},
	{"internal/quantize/dense", []string{"backend/cpu/gemm", "quant"}, "linear algebra on the CPU's GEMM"},
	{"internal/quantize/imatrix", []string{"quant", "weights/...", "internal/regular"}, "files of llama.cpp's; it knows no models"},
	{"internal/quantize", []string{"graph", "pass", "model", "compile", "backend", "quant", "weights/...", "tokenizer", "internal/convert", "internal/device", "internal/documents", "internal/modeldir", "internal/regular", "internal/quantize/..."}, "any model on any device, over a text, to files"},
	{"internal/recording", []string{"backend", "engine", "engine/draft", "engine/sched"}, "what an engine did, as a file"},
	{"internal/simulate", []string{"internal/recording", "quant", "backend/sampling", "graph", "weights/recipe", "backend", "compile", "engine/...", "internal/trace", "internal/loadgen", "route/policy", "route/prefix"}, "the engine on a device that computes nothing, and the router's choice before several"},
	{"internal/handshake", nil, "a secret that two processes show each other that they know"},
	{"internal/kvpeer", []string{"comm/shm", "engine/kv", "engine/offload", "internal/handshake", "internal/hostmem"}, "pages by their keys, between servers"},
	{"internal/kvstore", []string{"engine/kv", "engine/offload", "internal/disk", "internal/regular", "internal/s3"}, "pages by their keys, in files and objects"},
	{"internal/hostmem", nil, "memory that other processes map"},
	{"internal/disk", nil, "what a file system has room for"},
	{"internal/hub", []string{"internal/disk"}, "files from the hub; it does not know what is in them"},
	{"internal/s3/s3test", nil, "for tests"},
	{"internal/s3", nil, "a store's API"},
	{"internal/shelf", nil, "names of models; it fetches nothing"},
	{"internal/created", nil, "models made of others; it loads none"},
	{"internal/trace", nil, "when requests come and how long they are"},
	{"internal/loadgen/chart", []string{"internal/loadgen"}, "draws; the library does without"},
	{"internal/loadgen", []string{"internal/trace"}, "any server, over HTTP alone"},
	{"internal/calibrate", []string{"graph", "weights/recipe", "pass", "model", "compile", "price", "quant", "backend", "backend/sampling", "engine/sample", "bench/throughput", "internal/modeldir"}, "any device that can measure itself"},
	{"internal/evaluate/task", nil, "files of benchmarks as prompts; it knows no models"},
	{"internal/evaluate", []string{"graph", "pass", "model", "compile", "compile/earlyexit", "backend", "tokenizer", "internal/evaluate/task", "internal/modeldir", "internal/regular"}, "any model on any device, over a text"},
	{"internal/check", []string{"graph", "pass", "model", "compile", "compile/ranks", "comm/world", "backend", "weights", "weights/adapter", "internal/modeldir"}, "goldens against any device"},
	{"", []string{"quant/...", "graph", "pass", "model", "weights/...", "backend/...", "comm/world", "compile/...", "price/...", "engine/...", "tokenizer", "chat/...", "internal/..."}, "the library wires everything"},
	{"bench/throughput", []string{"graph", "pass", "model", "compile", "compile/earlyexit", "price", "quant", "backend", "backend/sampling"}, "any model on any device that can measure itself"},
	{"bench/speculate", []string{"graph", "pass", "model", "compile", "price", "quant", "backend", "engine", "engine/draft/...", "engine/sample", "engine/sched"}, "the engine on any model, with answers that are given"},
	{"bench/adapters", []string{"graph", "pass", "backend", "backend/cpu", "bench/throughput", "internal/modeldir"}, "steps of a model on the CPU by turns"},
	{"bench/agents", []string{"internal/testkit/agents"}, "a server, over HTTP alone; the conversations of the simulations"},
	{"bench/...", nil, "programs that run other programs"},
	{"server/store", []string{"internal/regular", "internal/size"}, "files and jobs on a disk"},
	{"server/api", []string{"", "chat", "internal/background"}, "HTTP, and errors of the library"},
	{"server/access", []string{"server/api", "internal/background"}, "keys and tenants; it knows no models"},
	{"server/serving", []string{"", "chat", "server/access", "server/api", "internal/background", "internal/cascade"}, "a model under a name, with metrics, for tenants"},
	{"server/stored", []string{"server/access", "server/api", "server/store"}, "the store on the side of HTTP"},
	{"server/openai", []string{"", "chat/...", "server/api", "server/serving", "server/store", "server/stored"}, "kept responses are its own"},
	{"server/anthropic", []string{"", "server/api", "server/serving", "server/openai"}, "an adapter of OpenAI's chat requests"},
	{"server/ollama", []string{"", "chat", "chat/gotemplate", "server/api", "server/serving", "server/openai"}, "an adapter of OpenAI's chat requests"},
	{"server/vllm", []string{"", "tokenizer", "server/api", "server/serving", "server/openai"}, "what vLLM adds to OpenAI's API"},
	{"server/llamacpp", []string{"", "server/api", "server/serving", "server/openai"}, "what llama.cpp's server has of its own"},
	{"server/batch", []string{"server/access", "server/api", "server/serving", "server/store", "server/stored"}, "lines are answered by a handler, of whatever API"},
	{"server", []string{"", "server/...", "internal/background", "internal/cascade"}, "the APIs under one address"},
	{"route/prefix", nil, "hashes of beginnings of prompts"},
	{"route/prompt", []string{"route/prefix"}, "bodies of requests; it knows no models"},
	{"route/policy", nil, "numbers only: the router and the simulation ask the same code"},
	{"route/zmtp", nil, "messages over ZeroMQ's protocol, whatever is in them"},
	{"route/kvevents", []string{"route/zmtp"}, "what a server has cached, as messages; it knows no engine"},
	{"route/upstream", nil, "HTTP to one server"},
	{"route", []string{"route/...", "server/access", "server/api"}, "any servers, over HTTP alone"},
	{"deploy/schemas", nil, "a document to files"},
	{"packaging/release", nil, "runs the Go tool and the program"},
	{"examples/...", []string{"", "chat"}, "programs as users write them: the public API alone"},
	{"cmd/ridge/...", []string{"..."}, "nothing imports it"},
}

func matches(pattern, pkg string) bool {
	if root, tree := strings.CutSuffix(pattern, "..."); tree {
		return root == "" || pkg == strings.TrimSuffix(root, "/") || strings.HasPrefix(pkg, root)
	}
	return pattern == pkg
}

func sourceFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != "." && err == nil {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			files = append(files, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestImports(t *testing.T) {
	used := make([]bool, len(policy))
	for _, file := range sourceFiles(t) {
		pkg := path.Dir(file)
		if pkg == "." {
			pkg = ""
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		rule := -1
		for i := range policy {
			if matches(policy[i].pkg, pkg) {
				rule, used[i] = i, true
				break
			}
		}
		if rule < 0 {
			t.Errorf("%s: package %q has no row in the import policy of deps_test.go; add one that says what it may import and why", file, pkg)
			continue
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			ours, ok := strings.CutPrefix(imported+"/", module+"/")
			if !ok {
				continue
			}
			ours = strings.TrimSuffix(ours, "/")
			allowed := ours == pkg || strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(ours, "cmd/")
			for _, may := range policy[rule].may {
				allowed = allowed || matches(may, ours)
			}
			if !allowed {
				t.Errorf("%s imports %s; the policy row %q does not allow that (%s)", file, ours, policy[rule].pkg, policy[rule].note)
			}
		}
	}
	for i, row := range policy {
		if !used[i] {
			t.Errorf("the policy row %q is of no package; remove it", row.pkg)
		}
	}
}

// TestFileSizes holds the size budget of DESIGN.md: median file ≤ 150 lines, none over 800; generated files apart.
func TestFileSizes(t *testing.T) {
	var sizes []int
	for _, file := range sourceFiles(t) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := bufio.NewReader(bytes.NewReader(src)).ReadLine(); strings.HasPrefix(string(first), "// Code generated ") {
			continue
		}
		n := bytes.Count(src, []byte("\n"))
		sizes = append(sizes, n)
		if n > 800 {
			t.Errorf("%s has %d lines; 800 is the limit and 400 the aim: split it by what is in it", file, n)
		}
	}
	sort.Ints(sizes)
	if median := sizes[len(sizes)/2]; median > 150 {
		t.Errorf("the median file has %d lines; the budget is 150", median)
	}
}
