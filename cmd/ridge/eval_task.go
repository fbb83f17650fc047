package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/evaluate"
	"github.com/ridge-llm/ridge/internal/evaluate/task"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// gsm8k is the benchmark whose answers are written; the others are choices.
const gsm8k = "gsm8k"

// taskFlags choose a benchmark.
type taskFlags struct {
	name             string
	data, examples   []string
	shots, questions int
	maxTokens        int
}

func (f *taskFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.name, "task", "", "benchmark to answer: "+strings.Join(taskNames(), ", "))
	fl.StringSliceVar(&f.data, "data", nil, "of a task: files with its questions, or directories of such")
	fl.StringSliceVar(&f.examples, "examples", nil, "of a task: files with questions that are shown with their answers, such as those of the train or dev split")
	fl.IntVar(&f.shots, "shots", 0, "of a task: examples before each question, the first of --examples; of mmlu the first of its subject")
	fl.IntVar(&f.questions, "questions", 0, "of a task: answer only so many; 0: all")
	fl.IntVar(&f.maxTokens, "max-tokens", 256, "of gsm8k: longest answer")
}

func taskNames() []string {
	var names []string
	for _, c := range task.All {
		names = append(names, c.Name)
	}
	return append(names, gsm8k)
}

// read reads the files that a flag names, and those in directories.
func (f *taskFlags) read(names []string) (files []string, data [][]byte, err error) {
	for _, name := range names {
		list := []string{name}
		if entries, err := os.ReadDir(name); err == nil {
			list = nil
			for _, e := range entries { // in the order of their names
				if e.Type().IsRegular() {
					list = append(list, filepath.Join(name, e.Name()))
				}
			}
		}
		for _, file := range list {
			text, err := readFile("the questions", file)
			if err != nil {
				return nil, nil, err
			}
			files, data = append(files, file), append(data, text)
		}
	}
	return files, data, nil
}

// questions are those of the files that a flag names, and what was in the files.
func questions[T any](f *taskFlags, names []string, read func(name string, data []byte) ([]T, error)) (all []T, data [][]byte, err error) {
	files, data, err := f.read(names)
	if err != nil {
		return nil, nil, err
	}
	for i, file := range files {
		some, err := read(file, data[i])
		if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
	}
	return all, data, nil
}

// load reads questions, examples and the settings that the evaluation depends on.
func load[T any](f *evalFlags, dir *modeldir.Dir, read func(name string, data []byte) ([]T, error)) (all, examples []T, s evaluate.Settings, err error) {
	if len(f.task.data) == 0 {
		return nil, nil, nil, fmt.Errorf("eval: say with --data where the questions of %s are", f.task.name)
	}
	all, data, err := questions(&f.task, f.task.data, read)
	if err != nil {
		return nil, nil, nil, err
	}
	examples, more, err := questions(&f.task, f.task.examples, read)
	if err != nil {
		return nil, nil, nil, err
	}
	if n := f.task.questions; n > 0 && n < len(all) {
		all = all[:n]
	}
	if s, err = f.settings(dir, append(data, more...)...); err == nil {
		s["shots"] = strconv.Itoa(f.task.shots)
	}
	return all, examples, s, err
}

// choices evaluates the model on a benchmark of choices.
func (f *evalFlags) choices(dir *modeldir.Dir, progress io.Writer) (*evaluate.ChoiceResult, error) {
	all, settings, err := f.prepare(dir)
	if err != nil {
		dir.Close()
		return nil, err
	}
	m, closeModel, err := f.open(dir, evaluate.Options{Quantization: f.quantization})
	if err != nil {
		return nil, err
	}
	defer closeModel()
	log, err := f.log(settings)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return evaluate.Choices(m, f.task.name, all, log, func(done int, accuracy float64) {
		fmt.Fprintf(progress, "\r%d of %d questions, accuracy %.4f ", done, len(all), accuracy)
	})
}

// prepare encodes the questions, and sets the context to what the longest needs if it is not given.
func (f *evalFlags) prepare(dir *modeldir.Dir) ([]evaluate.Prepared, evaluate.Settings, error) {
	benchmark, ok := task.ByName(f.task.name)
	if !ok {
		return nil, nil, fmt.Errorf("eval: --task is %q; %s are possible", f.task.name, strings.Join(taskNames(), ", "))
	}
	most := dir.Model.Config.Context
	if f.context > most {
		return nil, nil, fmt.Errorf("--context %d is more than the %d tokens that the model was made for", f.context, most)
	}
	all, examples, settings, err := load(f, dir, benchmark.Read)
	if err != nil {
		return nil, nil, err
	}
	t, err := dir.Tokenizer()
	if err != nil {
		return nil, nil, err
	}
	var prepared []evaluate.Prepared
	longest := 0
	for i := range all {
		prompt, err := benchmark.Prompt(&all[i], examples, f.task.shots)
		if err != nil {
			return nil, nil, err
		}
		p, err := evaluate.Prepare(t, prompt, &all[i], cmp.Or(f.context, most))
		if err != nil {
			return nil, nil, err
		}
		for _, w := range p.Windows {
			longest = max(longest, len(w.Tokens))
		}
		prepared = append(prepared, p)
	}
	if f.context == 0 {
		f.context = longest
	}
	return prepared, settings, nil
}

// answers has the model write answers, several at a time, through the engine.
func (f *evalFlags) answers(ctx context.Context, dir *modeldir.Dir, args []string, progress io.Writer) (*evaluate.AnswerResult, error) {
	if f.exact {
		dir.Close()
		return nil, fmt.Errorf("eval: --exact is not of %s, whose answers are written as ridge run writes them; leave it out", gsm8k)
	}
	all, examples, settings, err := load(f, dir, task.ReadGSM8K)
	dir.Close()
	if err != nil {
		return nil, err
	}
	if len(examples) < f.task.shots {
		return nil, fmt.Errorf("eval: --shots %d, and --examples has %d problems", f.task.shots, len(examples))
	}
	settings["max-tokens"] = strconv.Itoa(f.task.maxTokens)
	path := ""
	if len(args) > 0 {
		if path, err = modelPath(args[0]); err != nil {
			return nil, err
		}
	}
	o := ridge.Options{Backend: f.device.Backend, Threads: f.device.Threads, Deterministic: f.device.Deterministic, Context: f.context, Quantization: f.quantization, Cache: f.kvType}
	m, err := ridge.Load(path, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	log, err := f.log(settings)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := ridge.Greedy()
	p.MaxTokens, p.Stop = f.task.maxTokens, task.StopsOfGSM8K
	generate := func(ctx context.Context, prompt string) (string, error) {
		return ridge.Text(m.Generate(ctx, prompt, p))
	}
	return evaluate.Answers(ctx, generate, all, examples[:f.task.shots], m.Parallel(), log, func(done int, strict float64) {
		fmt.Fprintf(progress, "\r%d of %d problems, strict match %.4f ", done, len(all), strict)
	})
}

func printChoices(w io.Writer, r *evaluate.ChoiceResult) error {
	_, err := fmt.Fprintf(w, "%-15s %.4f ± %.4f of %d questions\n%-15s %.4f ± %.4f, likelihoods divided by the choices' characters\n", "accuracy", r.Accuracy, r.StdErr, r.Questions, "normalised", r.Normalised, r.NormalisedStdErr)
	for _, g := range slices.Sorted(maps.Keys(r.Groups)) {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-40s %.4f\n", g, r.Groups[g])
		}
	}
	if r.Cut > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%d questions were longer than the context and lost their beginnings\n", r.Cut)
	}
	return err
}
