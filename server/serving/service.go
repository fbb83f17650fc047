// Package serving is a model as a server has it: it runs the answers of a request side by side, counts them in the metrics, and
// keeps the explanations of the latest.
package serving

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/background"
	"github.com/ridge-llm/ridge/server/access"
)

// Service is a model as it is served: under a name, with metrics, and with explanations of its latest answers.
type Service struct {
	*ridge.Model
	Name      string                      // as clients call the model
	Called    func(name string) bool      // reports whether they may call it by another name, too; its answers have Name. nil: by none
	Preset    *Preset                     // what it was created with; nil: nothing
	Created   time.Time                   // when serving began
	About     func() (ridge.About, error) // the model's, read once
	metrics   *metrics
	lane      *background.Lane // of texts that are not small
	explained explanations
	applied   appliedScales
}

// New serves a model, which stays the caller's to close, under a name. Long texts are made tokens in a lane.
func New(m *ridge.Model, name string, lane *background.Lane) *Service {
	return &Service{Model: m, Name: name, lane: lane, Created: time.Now(), About: sync.OnceValues(m.About), metrics: newMetrics(m, name)}
}

// Is reports whether a request that names a model, with Ollama's tag :latest or without, means this one itself, and none of its adapters.
func (s *Service) Is(model string) bool {
	for _, name := range []string{model, strings.TrimSuffix(model, ":latest")} {
		if name == s.Name || s.Called != nil && s.Called(name) {
			return true
		}
	}
	return model == ""
}

// Occupies is the memory that the model takes, in bytes, and how much of it is a GPU's.
func (s *Service) Occupies() (all, onGPU int64) {
	weights, cache, activations := s.Memory()
	if all = weights + cache + activations; !strings.HasPrefix(s.Device(), "cpu") {
		onGPU = all
	}
	return all, onGPU
}

// Registry is the metrics to be collected.
func (s *Service) Registry() *prometheus.Registry { return s.metrics.registry }

// Waiting is how many requests wait.
func (s *Service) Waiting() int { return s.Stats().Waiting }

// CountPrompt counts tokens of a request without an answer in tokens.
func (s *Service) CountPrompt(tokens int) { s.metrics.prompt.Add(float64(tokens)) }

// For makes a request's parameters those of its tenant: what is cached of its prompts is the tenant's own, unless tenants share, and none goes before
// the usual priority but by a key marked admin.
func For(ctx context.Context, p ridge.Params) ridge.Params {
	c := access.From(ctx)
	p.Tenant = c.Salt()
	if !c.Admin {
		p.Priority = max(p.Priority, 0)
	}
	return p
}

// GenerateMany is the model's, for the tenant of a request.
func (s *Service) GenerateMany(ctx context.Context, prompt []int32, all []ridge.Params) ([]iter.Seq2[ridge.Piece, error], error) {
	if err := access.From(ctx).TakePrompt(len(prompt)); err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = For(ctx, all[i])
	}
	return s.Model.GenerateMany(ctx, prompt, all)
}

// EmbedTokens is the model's, for the tenant of a request.
func (s *Service) EmbedTokens(ctx context.Context, ids []int32, p ridge.Params) (ridge.Embedding, error) {
	if err := access.From(ctx).TakePrompt(len(ids)); err != nil {
		return ridge.Embedding{}, err
	}
	return s.Model.EmbedTokens(ctx, ids, For(ctx, p))
}

// Score is the model's, for the tenant of a request.
func (s *Service) Score(ctx context.Context, pair ridge.Pair, p ridge.Params) (float64, error) {
	if err := access.From(ctx).TakePrompt(len(pair.IDs)); err != nil {
		return 0, err
	}
	return s.Model.Score(ctx, pair, For(ctx, p))
}

// Constrain is the model's, for the tenant of a request.
func (s *Service) Constrain(ctx context.Context, l ridge.Language) (*ridge.Constraint, error) {
	return s.Model.Constrain(ctx, l.Of(access.From(ctx).Salt()))
}

// ConstrainReply is the model's, for the tenant of a request.
func (s *Service) ConstrainReply(ctx context.Context, prompt string, r ridge.Reply) (*ridge.Constraint, error) {
	r.Owner = access.From(ctx).Salt()
	return s.Model.ConstrainReply(ctx, prompt, r)
}

// Job is one answer to make.
type Job struct {
	Index   int // of the choice
	Prompt  []int32
	Params  ridge.Params
	First   bool // of those with its prompt: the one whose prompt counts in the usage
	Choices int  // answers to its prompt
}

// UnenforcedHeader is the response header that names what of a schema is left to the model.
const UnenforcedHeader = "X-Ridge-Unenforced"

// Announce puts into the header of an answer what its jobs do not enforce of what was asked for.
func Announce(w http.ResponseWriter, all []Job) {
	for _, j := range all {
		if left := j.Params.Constraint.Unenforced(); len(left) > 0 {
			w.Header().Set(UnenforcedHeader, headerText(strings.Join(left, ", ")))
			return
		}
	}
}

// headerText is a text as a header can have it: what is not printable ASCII is written as in a URL, and too much is cut.
func headerText(s string) string {
	const most = 2000 // bytes
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()[:min(b.Len(), most)]
}

// event is a piece of a choice.
type event struct {
	job   *Job
	piece ridge.Piece
	err   error
}

// Jobs are n answers to each prompt. Those to one prompt differ by their seed, and share its cached pages.
func Jobs(prompts [][]int32, n int, p ridge.Params) []Job {
	var all []Job
	for _, prompt := range prompts {
		for i := range n {
			j := Job{Index: len(all), Prompt: prompt, Params: p, First: i == 0, Choices: n}
			j.Params.Sampling.Seed += uint64(i)
			all = append(all, j)
		}
	}
	return all
}

// begin submits the jobs, those to one prompt together: it is computed once.
func (s *Service) begin(ctx context.Context, all []Job) (answers []iter.Seq2[ridge.Piece, error], err error) {
	for len(all) > 0 {
		params := []ridge.Params{all[0].Params}
		for len(params) < len(all) && !all[len(params)].First {
			params = append(params, all[len(params)].Params)
		}
		some, err := s.begun(ctx, all[0].Prompt, params)
		if err != nil {
			return nil, err
		}
		answers, all = append(answers, some...), all[len(params):]
	}
	return answers, nil
}

// Run generates all answers concurrently and passes their pieces to each, in order of arrival, until all have finished or
// one fails.
func (s *Service) Run(ctx context.Context, all []Job, each func(*Job, ridge.Piece) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan event, 16)
	if InBackground(ctx) {
		for i := range all {
			all[i].Params.Priority = BackgroundPriority
		}
	}
	own, confidence := len(all), confidenceOf(ctx)
	left := 0 // answers that have not ended
	defer func() {
		for range left {
			s.metrics.abandoned()
		}
		if err != nil && confidence != nil {
			confidence.Fail()
		}
	}()
	all = beside(all, confidence)
	var answers []iter.Seq2[ridge.Piece, error]
	err = Contained(func() (err error) {
		answers, err = s.begin(ctx, all)
		return err
	})
	if err != nil {
		return err
	}
	for i, answer := range answers {
		j := &all[i]
		send := func(p ridge.Piece, err error) bool {
			select {
			case events <- event{j, p, err}:
				return true
			case <-ctx.Done():
				return false
			}
		}
		go answer(send)
	}
	began, client := time.Now(), access.From(ctx)
	last := make([]time.Time, len(all))
	for left = len(all); left > 0; {
		var e event
		select {
		case e = <-events:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.err != nil {
			return e.err
		}
		if e.piece.Token != nil {
			s.metrics.token(began, &last[e.job.Index])
			client.CountOutput(1)
		}
		if e.piece.Finish != nil {
			left--
			s.metrics.finished(e.job, e.piece.Finish, time.Since(began))
			client.Finished(e.piece.Finish.Cached, e.piece.Finish.Prefill, e.piece.Finish.Decode)
			s.explained.put(ctx, s.Explain(e.piece.Finish))
		}
		if !observed(confidence, e.job, e.piece, own) {
			continue
		}
		if err := Contained(func() error { return each(e.job, e.piece) }); err != nil {
			return err
		}
	}
	return nil
}

// backgroundKey marks the context of work that no client waits for.
type backgroundKey struct{}

// Background is a context for the requests of batches.
func Background(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// InBackground reports whether a request belongs to a batch.
func InBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

// BackgroundPriority comes after every priority that clients use, under the policy that looks at it.
const BackgroundPriority = 1 << 30
