// Package server serves a model over HTTP: OpenAI's API, /v1/messages as Anthropic's, /api as Ollama's.
//
//	request ─► id, log, key, limits (server.go, access) ─► the API's endpoint (routes.go) ─► decode (api)
//	        ─► run (serving) ─► one answer or events, in the API's words
//
//	openai, anthropic, ollama, vllm   an API each: its requests, answers and endpoints
//	access                            keys, tenants, limits; browsers
//	api                               what they share on the side of HTTP
//	serving                           what they share on the side of the model
//	batch, store                      files and batches; each line is like a request that came by itself
//
// A client that goes away ends its requests within a step of the engine.
package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/batch"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/server/store"
)

// Options are a server's settings. The zero value is a good choice on a loopback address.
type Options struct {
	Name        string        // of the model, as clients call it; "" is the model's own
	Keys        []access.Key  // of which a client must send one; none: no key is needed
	OpenMetrics bool          // /metrics needs no key, for a Prometheus that has none
	Shared      bool          // keys share files, batches, explanations and cached prompts; else each tenant has its own
	Origins     []string      // web pages that may call the server from a browser: their origins, or "*"
	Hosts       []string      // names and addresses of the server beside loopback, which requests without a key may be sent to
	Version     string        // what /version says
	Log         *slog.Logger  // nil: nothing is logged
	Drain       time.Duration // that requests under way have to end when the server is to stop; 0: 30 s
	Cascade     []Stage       // models that are asked before the server's own, and whose answers are the client's where they are sure enough
	Store       *store.Store  // of files, batches and responses, the caller's to close after the server; nil: there are none
}

// Server answers HTTP requests with one model.
type Server struct {
	*serving.Service
	*entrance
	batches *batch.API
	kept    *openai.Keeping
	keeps   bool // kept is this server's alone, to be closed with it
	stages  []stage
}

// New makes the server of a model, which stays the caller's to close.
func New(m *ridge.Model, o Options) *Server {
	s := newServer(m, o, openai.NewKeeping(o.Store))
	s.keeps = true
	return s
}

// newServer is New with what is kept of responses: that of a server of several models, to which files and batches belong.
func newServer(m *ridge.Model, o Options, kept *openai.Keeping) *Server {
	if o.Name == "" {
		o.Name = m.Name()
	}
	e := newEntrance(o)
	s := &Server{Service: serving.New(m, o.Name, e.Lane), entrance: e, kept: kept}
	s.addStages(o.Cascade, e.Lane)
	s.batches = batch.New(s.Service, s.Responder, o.Store, s.keys, http.HandlerFunc(s.line))
	s.route()
	s.batches.Start()
	return s
}

// Close stops the work on batches, which is resumed by the next server with the same store, and responses that are made in the background, which are kept as failed.
func (s *Server) Close() {
	if s.keeps {
		s.kept.Close()
	}
	s.batches.Close()
}
