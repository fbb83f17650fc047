package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/server"
)

// reloading is the model that serve answers with, which SIGHUP replaces when its files have changed.
type reloading struct {
	flags *serveFlags
	front *server.Front

	mu     sync.Mutex
	model  *loaded        // nil: it is not loaded yet
	server *server.Server // of model
	busy   sync.WaitGroup // the goroutine of onHangup, and models that were replaced and are not closed yet
	stop   context.CancelFunc
}

// load loads the model and makes a server of it.
func (r *reloading) load(ctx context.Context) (*server.Server, *ridge.Model, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.flags.cascade.load(ctx, &r.flags.model)
	if err != nil {
		return nil, nil, err
	}
	if _, err := r.flags.lora.load(m.Model); err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	if r.server != nil {
		r.server.Close() // two servers must not work on the same batches
	}
	o := r.flags.server
	o.Cascade = m.stages
	r.model, r.server = m, server.New(m.Model, o)
	return r.server, m.Model, nil
}

// close ends the server's batches and closes the model, once a reload that is under way has ended.
func (r *reloading) close() {
	r.stop()
	r.busy.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.model != nil {
		r.server.Close()
		r.unload(r.model)
	}
}

func (r *reloading) unload(m *loaded) {
	if err := m.Close(); err != nil {
		r.flags.server.Log.Error("the model was not closed cleanly", "error", err)
	}
}

// onHangup reloads at every SIGHUP until ctx is done or r is closed.
func (r *reloading) onHangup(ctx context.Context) { r.atHangups(ctx, r.reload) }

// reloadsKeys is onHangup for a server that looks after its models itself.
func (r *reloading) reloadsKeys(ctx context.Context) {
	r.atHangups(ctx, func(context.Context) { r.reloadAccess() })
}

func (r *reloading) atHangups(ctx context.Context, reload func(context.Context)) {
	ctx, r.stop = context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	r.busy.Go(func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
				reload(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
}

// reload reads again what may have changed: keys, the certificate, the model. What cannot be read leaves what was there before.
func (r *reloading) reload(ctx context.Context) {
	if !r.reloadAccess() {
		return
	}
	if err := r.reloadModel(ctx); err != nil {
		r.flags.server.Log.Error("the model was not loaded again; the old one stays", "error", err)
	}
}

// reloadAccess reads keys and the certificate again; false: there is no server yet.
func (r *reloading) reloadAccess() bool {
	log, s := r.flags.server.Log, r.front.Current()
	if s == nil {
		log.Warn("nothing is reloaded while the model is being loaded")
		return false
	}
	keys, err := r.flags.accessFlags.reload(s)
	if keys != nil {
		r.flags.server.Keys = keys // of a server of another model
	}
	if err != nil {
		log.Error("reloading failed; what could not be read stays as it was", "error", err)
	} else {
		log.Info("reloaded", "keys", r.flags.keyFile, "certificate", r.flags.tlsCert)
	}
	return true
}

// reloadModel loads the model again if its files are not those it was loaded from. Requests under way end on the old one.
func (r *reloading) reloadModel(ctx context.Context) error {
	f, old := r.flags, r.model
	if !old.Replaced() && !f.model.templateChanged() {
		f.server.Log.Info("the model's files have not changed")
		return nil
	}
	if f.model.options.KVTransfer.Listen != "" {
		return errors.New("others ask it for pages of its model (--role), and would be given those of another; start the server again")
	}
	if f.model.options.Ranks.Rendezvous != "" {
		return errors.New("it is of several processes (--ranks, --rendezvous), which load a model when they start; start the server again")
	}
	was := f.model.options.Record
	f.model.options.Record = nil // a recording is of one model
	s, m, err := r.load(ctx)
	if err != nil {
		f.model.options.Record = was
		return err
	}
	if was != nil {
		f.server.Log.Warn("the recording ends with the old model", "file", f.record)
	}
	f.server.Log.Info("the model was loaded again", "model", m.Name(), "context", m.Context())
	replaced := r.front.Replace(s)
	r.busy.Go(func() {
		limit, cancel := context.WithTimeout(ctx, f.server.Drain)
		defer cancel()
		if err := replaced.Drain(limit); err != nil && !errors.Is(err, context.Canceled) {
			f.server.Log.Warn("requests on the old model were cut off", "error", err)
		}
		r.unload(old)
	})
	return nil
}

// templateChanged reports whether the file of --chat-template says something else than it did.
func (f *modelFlags) templateChanged() bool {
	if f.template == "" {
		return false
	}
	now, err := regular.ReadFile(f.template)
	return err == nil && string(now) != f.options.Template
}
