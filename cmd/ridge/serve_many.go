package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/shelf"
	"github.com/ridge-llm/ridge/server"
)

// manyFlags are the settings of a server of several models.
type manyFlags struct {
	names  []string // named as arguments
	dirs   []string
	hub    bool
	manage bool
	pinned []string
	keep   keepFlag
	most   int
	memory int64
}

func (f *manyFlags) add(fl *pflag.FlagSet) {
	f.keep = keepFlag(server.DefaultKeepAlive)
	fl.StringArrayVar(&f.dirs, "models-dir", nil, "folder of models to serve: GGUF files and Hugging Face directories, loaded when requests name them; can be given several times")
	fl.BoolVar(&f.hub, "models-hub", false, "serve the models that were downloaded from the hub (ridge list), too")
	fl.BoolVar(&f.manage, "manage-models", false, "let clients download models from the hub, delete them and name them and make others of them (/api/pull, /api/delete, /api/copy, /api/create, /api/blobs): of a server with keys those whose key is marked admin, else all; needs --models-hub")
	fl.StringArrayVar(&f.pinned, "pin", nil, "one of several models that is loaded at the start and stays in memory; can be given several times")
	fl.Var(&f.keep, "keep-alive", "how long one of several models stays in memory after its last request: seconds, or a time such as 10m; below 0: for ever. Requests may say otherwise (keep_alive)")
	fl.IntVar(&f.most, "max-loaded-models", 0, "models that are in memory at once; 0: as many as there is room for")
	fl.Var((*bytesFlag)(&f.memory), "models-memory", "memory of a device that several models may take together; default: what is free")
}

// keepFlag reads how long a model stays.
type keepFlag time.Duration

// Type implements pflag.Value.
func (*keepFlag) Type() string { return "time" }

// String implements pflag.Value.
func (k *keepFlag) String() string { return time.Duration(*k).String() }

// Set implements pflag.Value.
func (k *keepFlag) Set(text string) error {
	d, err := server.ParseKeepAlive(text)
	if err != nil {
		return fmt.Errorf("%q is not a time such as 10m, or seconds; below 0: for ever", text)
	}
	if *k = keepFlag(d); d == 0 {
		*k = 1 // at once; 0 of server.ModelsOptions is its default
	}
	return nil
}

// asked reports whether arguments and flags ask for a server of several models.
func (f *manyFlags) asked(args []string) bool {
	return len(args) > 1 || f.hub || f.manage || len(f.dirs) > 0 || len(f.pinned) > 0 || f.most > 0 || f.memory > 0
}

// serves reports whether several models are served.
func (f *manyFlags) serves() bool { return f.asked(f.names) }

// check refuses settings that are of one model.
func (f *serveFlags) checkMany() error {
	o := &f.model.options
	switch {
	case f.many.manage && !f.many.hub:
		return errors.New("--manage-models is about the models that were downloaded; give --models-hub too")
	case len(f.many.names) == 0 && len(f.many.dirs) == 0 && !f.many.hub:
		return errors.New("--pin, --max-loaded-models and --models-memory are of several models; name them, or give --models-dir or --models-hub")
	case len(f.cascade.models) > 0:
		return errors.New("--cascade and several models are both given; a cascade is served alone")
	case o.MaxLoRAs > 0:
		return errors.New("several models take no adapters (--lora, --lora-dir, --max-loras): which of the models they are for is not said")
	case f.server.Name != "":
		return errors.New("--served-model-name is of one model; ridge alias gives one of several another name")
	case f.kvEvents != "":
		return errors.New("--kv-events-config is of one model, and several are served")
	case f.record != "" || o.Speculation.Method != "" || len(o.EarlyExit.Layers) > 0 || f.model.template != "":
		return errors.New("--record, --chat-template, speculative decoding and early exits are of one model, and several are served")
	case f.many.most < 0:
		return fmt.Errorf("--max-loaded-models is %d; 0 (as many as there is room for) or more is possible", f.many.most)
	}
	return nil
}

// manyCachePart is how much of the memory that is free the cache of each model takes at most, so that others have room beside it.
const manyCachePart = 0.5

// runMany serves several models.
func (f *serveFlags) runMany(cmd *cobra.Command, r *reloading, l net.Listener) error {
	if err := f.checkMany(); err != nil {
		return err
	}
	o := f.model.options
	runtime, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: o.Threads, Memory: f.many.memory, CachePart: manyCachePart})
	if err != nil {
		return err
	}
	o.Threads, o.Warm = 0, true
	o.Note = func(text string) { f.server.Log.Info(text) }
	var named []server.ModelFile
	for _, name := range f.many.names {
		path, err := fetchedPath(cmd.Context(), name, o.Backend)
		if err != nil {
			return err
		}
		if _, err := ridge.Describe(path); err != nil { // not only once it is asked for
			return err
		}
		named = append(named, modelFile(name, path))
	}
	m := server.ModelsOptions{Options: f.server, KeepAlive: time.Duration(f.many.keep), Most: f.many.most,
		List: func() ([]server.ModelFile, error) { return f.many.list(named) },
		Load: func(x server.ModelFile) (*ridge.Model, error) { return loadCreated(runtime, x, o) },
	}
	if f.many.manage {
		m.Library = &library{backend: o.Backend, named: named}
		f.tidyCreated()
	}
	if len(named) > 0 {
		m.Default = named[0].Name
	}
	defer followHeap()()
	var models *server.Models
	var loading sync.Mutex
	defer func() {
		loading.Lock() // a load that is under way ends first
		defer loading.Unlock()
		if models != nil {
			models.Close()
			models.CloseModels()
		}
		if err := runtime.Close(); err != nil {
			f.server.Log.Error("the devices were not closed cleanly", "error", err)
		}
	}()
	r.reloadsKeys(cmd.Context())
	defer r.close()
	return r.front.ServeLoading(cmd.Context(), l, func() (server.Site, error) {
		loading.Lock()
		defer loading.Unlock()
		files, err := m.List()
		if err == nil {
			err = cmd.Context().Err()
		}
		if err != nil {
			return nil, err
		}
		if models, err = server.NewModels(m); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "ridge: serving %d models at %s://%s/v1, loaded when they are asked for; page: %s\n", len(files), f.scheme(), l.Addr(), f.page(l))
		return models, nil
	}, func() {})
}

// tidyCreated deletes files that clients have sent and no model has, and says which models are damaged.
func (f *serveFlags) tidyCreated() {
	store, err := openCreated()
	if err == nil {
		err = store.Prune()
	}
	if err != nil {
		f.server.Log.Error("models that clients have created", "error", err)
	}
}

// modelFile is a model that was named: a short name or one of the hub as it is, a path by the name of its file.
func modelFile(name, path string) server.ModelFile {
	x := server.ModelFile{Name: name, Path: path}
	if exists(name) {
		x.Name = strings.TrimSuffix(filepath.Base(filepath.Clean(path)), ".gguf")
	}
	x.Bytes, x.Modified = sizeOf(path)
	return x
}

// sizeOf is how large a model's files are, and when they were changed.
func sizeOf(path string) (bytes int64, modified time.Time) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, time.Time{}
	}
	files := []string{path}
	modified = info.ModTime()
	if info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*.safetensors")) // the pattern is a right one
	} else if part := partName.FindStringIndex(path); part != nil {
		files, _ = filepath.Glob(path[:part[0]] + "-?????-of-?????.gguf")
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			bytes += info.Size()
		}
	}
	return bytes, modified
}

// partName is how the parts of a split GGUF file end.
var partName = regexp.MustCompile(`-(\d{5})-of-\d{5}\.gguf$`)

// list is the models that there are now: those named, those of the folders, those of the hub.
func (f *manyFlags) list(named []server.ModelFile) ([]server.ModelFile, error) {
	all := slices.Clone(named)
	for _, dir := range f.dirs {
		found, err := modelsIn(dir)
		if err != nil {
			return nil, fmt.Errorf("--models-dir: %w", err)
		}
		all = append(all, found...)
	}
	if f.hub {
		found, err := downloaded()
		if err != nil {
			return nil, err
		}
		if all, err = withCreated(append(all, found...)); err != nil {
			return nil, err
		}
	}
	aliases, err := openAliases()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(x server.ModelFile) bool { // the first of a name
		twice := seen[x.Name]
		seen[x.Name] = true
		return twice
	})
	for i := range all {
		x := &all[i]
		for alias, model := range aliases.Names {
			if !seen[alias] && (model == x.Name || x.Preset == nil && (model == x.Path || slices.Contains(x.Aliases, model))) { // a created model has the path of another
				x.Aliases, x.Named = append(x.Aliases, alias), append(x.Named, alias)
			}
		}
		slices.Sort(x.Aliases)
		slices.Sort(x.Named)
		x.Pinned = slices.ContainsFunc(f.pinned, func(p string) bool { return p == x.Name || slices.Contains(x.Aliases, p) })
	}
	for _, p := range f.pinned {
		if !slices.ContainsFunc(all, func(x server.ModelFile) bool { return p == x.Name || slices.Contains(x.Aliases, p) }) {
			return nil, fmt.Errorf("--pin %s: there is no such model among those that are served", p)
		}
	}
	return all, nil
}

// modelsIn are the models of a folder: its GGUF files, Hugging Face directories, and the GGUF files of other folders in it.
func modelsIn(dir string) (all []server.ModelFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	add := func(path, name string) { x := modelFile(path, path); x.Name = name; all = append(all, x) }
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil: // it has gone, or is a link to nothing
		case !info.IsDir():
			if name, ok := ggufName(e.Name()); ok {
				add(path, name)
			}
		case exists(filepath.Join(path, "config.json")):
			add(path, e.Name())
		default:
			files, _ := filepath.Glob(filepath.Join(path, "*.gguf")) // the pattern is a right one
			for _, file := range files {
				if name, ok := ggufName(filepath.Base(file)); ok {
					add(file, e.Name()+"/"+name)
				}
			}
		}
	}
	return all, nil
}

// ggufName is the name of the model in a GGUF file; false: the file is a part of another, or of a model's eyes.
func ggufName(file string) (string, bool) {
	if !strings.EqualFold(filepath.Ext(file), ".gguf") || strings.Contains(strings.ToLower(file), "mmproj") {
		return "", false
	}
	if m := partName.FindStringSubmatchIndex(file); m != nil {
		return file[:m[0]], file[m[2]:m[3]] == "00001"
	}
	return file[:len(file)-len(".gguf")], true
}

// downloaded are the models that were pulled from the hub, with their short names.
func downloaded() (all []server.ModelFile, err error) {
	h, err := newHub()
	if err != nil {
		return nil, err
	}
	entries, err := h.List()
	if err != nil {
		return nil, err
	}
	families := map[string]bool{} // that a model was found for
	for _, e := range entries {
		if e.Format == hub.Incomplete {
			continue
		}
		x := server.ModelFile{Name: e.Name, Path: e.Path, Bytes: e.Bytes, Modified: e.Modified}
		if repo, _, ok := strings.Cut(e.Name, ":"); ok && isUsual(h, repo, e.Path) {
			x.Aliases = append(x.Aliases, repo)
		}
		all = append(all, x)
	}
	for _, m := range shelf.All() { // of a family the one that its name alone means comes first
		i := slices.IndexFunc(all, func(x server.ModelFile) bool { return strings.EqualFold(m.Ref(), x.Name) })
		if i < 0 {
			continue
		}
		all[i].Aliases = append(all[i].Aliases, m.Name())
		if !families[m.Family] {
			families[m.Family] = true
			all[i].Aliases = append(all[i].Aliases, m.Family)
		}
	}
	return all, nil
}

// isUsual reports whether a path is that of the model that a repository's name alone means, of those that are here.
func isUsual(h *hub.Hub, repo, path string) bool {
	r, err := hub.ParseRef(repo)
	if err != nil {
		return false
	}
	usual, err := h.Find(r)
	return err == nil && usual == path
}
