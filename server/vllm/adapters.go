package vllm

import (
	"errors"
	"net/http"
	"slices"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

// Adapters are loaded and unloaded as vLLM's server does it (VLLM_ALLOW_RUNTIME_LORA_UPDATING), and listed and applied to all requests as
// llama.cpp's.

type loadRequest struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	Replace bool   `json:"load_inplace"`
}

// loadAdapter is POST /v1/load_lora_adapter.
func (s *API) loadAdapter(w http.ResponseWriter, r *http.Request) (any, error) {
	var q loadRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	switch {
	case q.Name == "" || q.Path == "":
		return nil, api.Invalid("lora_name", "lora_name and lora_path are wanted: a name, and a PEFT folder or GGUF file on the server")
	case q.Name == s.Name:
		return nil, api.Invalid("lora_name", "%q is the model itself; give the adapter another name", q.Name)
	}
	if err := s.LoadAdapter(q.Name, q.Path, q.Replace); err != nil {
		return nil, err
	}
	return map[string]any{"status": "success", "lora_name": q.Name}, nil
}

// unloadAdapter is POST /v1/unload_lora_adapter. Requests under way finish.
func (s *API) unloadAdapter(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Name string `json:"lora_name"`
	}
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := s.UnloadAdapter(q.Name); errors.Is(err, ridge.ErrNoAdapter) {
		return nil, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Param: "lora_name", Code: "model_not_found", Message: "there is no adapter of this name; /v1/models lists those that there are"}
	} else if err != nil {
		return nil, err
	}
	return map[string]any{"status": "success", "lora_name": q.Name}, nil
}

// adapterEntry is an adapter in llama.cpp's form.
type adapterEntry struct {
	ID    int     `json:"id"`
	Name  string  `json:"name,omitempty"`
	Path  string  `json:"path,omitempty"`
	Scale float32 `json:"scale"`
}

// listAdapters is GET /lora-adapters: with the scale at which each is applied to requests that name none.
func (s *API) listAdapters(http.ResponseWriter, *http.Request) (any, error) {
	applied := map[string]float32{}
	for _, a := range s.AppliedAdapters("") {
		applied[a.Name] = a.Scale
	}
	list := []adapterEntry{}
	for _, a := range s.Adapters() {
		list = append(list, adapterEntry{a.ID, a.Name, a.Path, applied[a.Name]})
	}
	slices.SortFunc(list, func(a, b adapterEntry) int { return a.ID - b.ID })
	return list, nil
}

// applyAdapters is POST /lora-adapters: the scales of all requests that name no adapter; those that are not in the list get 0.
func (s *API) applyAdapters(w http.ResponseWriter, r *http.Request) (any, error) {
	var q []adapterEntry
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	scales := map[string]float32{}
	for _, e := range q {
		a, ok := s.AdapterByID(e.ID)
		if !ok {
			return nil, api.Invalid("id", "there is no adapter %d; GET /lora-adapters lists those that there are", e.ID)
		}
		scales[a.Name] = e.Scale
	}
	s.SetAppliedAdapters(scales)
	return map[string]any{"success": true}, nil
}
