package ridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/shelf"
)

// PullOptions say where a model comes from and where it is to run. The zero value is a good choice.
type PullOptions struct {
	Backend  string                  // whose memory chooses among the sizes of a name without one: as Options.Backend
	Agent    string                  // how the hub is told who asks; "" is ridge
	Progress func(done, total int64) // is called several times a second with the bytes that are here; may be nil
}

// Pull makes sure that a model of the Hugging Face hub is on this machine, and returns the path for Load. The name is a short one (MODELS.md has the list), such
// as llama3.2:1b, or ORG/REPO[:QUANT]. What is here already is not asked for again; what an earlier Pull had begun is gone on with. Models are kept where Hugging
// Face's own tools keep theirs: HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE mean what they mean there.
func Pull(ctx context.Context, name string, o PullOptions) (path string, err error) {
	full := name
	if m, ok := shelf.Find(name, device.Memory(o.Backend), device.OnGPU(o.Backend)); ok {
		full = m.Ref()
	}
	r, err := hub.ParseRef(full)
	if err != nil {
		if like := shelf.Like(name); len(like) > 0 {
			return "", &Error{Kind: ErrNoModel, Reason: fmt.Sprintf("there is no model called %q; there are %q", name, like)}
		}
		return "", &Error{Kind: ErrNoModel, Reason: err.Error(), cause: err}
	}
	if o.Agent == "" {
		o.Agent = "ridge"
	}
	h, err := hub.FromEnvironment(o.Agent)
	if err != nil {
		return "", fmt.Errorf("ridge: %w", err)
	}
	if path, err = h.Find(r); !errors.Is(err, hub.ErrNotHere) {
		return path, err
	}
	var progress hub.Progress
	if o.Progress != nil {
		progress = func(s hub.Status) { o.Progress(s.Done, s.Total) }
	}
	switch path, err = h.Pull(ctx, r, progress); {
	case errors.Is(err, hub.ErrUnknown):
		return "", &Error{Kind: ErrNoModel, Reason: err.Error(), cause: err}
	case errors.Is(err, hub.ErrDenied):
		return "", &Error{Kind: ErrAccess, Reason: err.Error(), cause: err}
	case err != nil:
		return "", fmt.Errorf("ridge: %w", err)
	}
	return path, nil
}
