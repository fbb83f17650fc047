package access

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/server/api"
)

// limiter counts what a tenant uses. A minute's worth of requests and tokens can be used at once, and comes back evenly (token bucket).
type limiter struct {
	now func() time.Time

	mu       sync.Mutex
	limits   Limits
	at       time.Time // of the latest refill
	requests float64   // left
	tokens   float64   // left; below 0 after answers that were longer than what was left
	running  int
}

func newLimiter(now func() time.Time) *limiter { return &limiter{now: now, at: now()} }

// limit sets the limits; what was used of the ones before stays used.
func (m *limiter) limit(l Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refill()
	m.requests += float64(l.Requests - m.limits.Requests)
	m.tokens += float64(l.Tokens - m.limits.Tokens)
	m.limits = l
}

// refill adds what has come back since the last time. m.mu is held. A clock that was set back adds nothing.
func (m *limiter) refill() {
	now := m.now()
	minutes := max(now.Sub(m.at).Minutes(), 0)
	m.at = now
	m.requests = min(m.requests+minutes*float64(m.limits.Requests), float64(m.limits.Requests))
	m.tokens = min(m.tokens+minutes*float64(m.limits.Tokens), float64(m.limits.Tokens))
}

// begin takes a request.
func (m *limiter) begin() (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refill()
	l := m.limits
	switch {
	case l.Parallel > 0 && m.running >= l.Parallel:
		return nil, limited(1, "the key has %d requests under way, the most it may have at once; wait for one to end", m.running)
	case l.Requests > 0 && m.requests < 1:
		return nil, limited(wait(1-m.requests, l.Requests), "the key has sent its %d requests of this minute", l.Requests)
	case l.Tokens > 0 && m.tokens <= 0:
		return nil, limited(wait(1-m.tokens, l.Tokens), "the key has used its %d tokens of this minute", l.Tokens)
	}
	m.requests--
	m.running++
	var once sync.Once
	return func() {
		once.Do(func() {
			m.mu.Lock()
			m.running--
			m.mu.Unlock()
		})
	}, nil
}

// take takes the tokens of a prompt.
func (m *limiter) take(tokens int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refill()
	l := m.limits
	switch n := float64(tokens); {
	case l.Tokens > 0 && tokens > l.Tokens:
		return limited(0, "the prompts have %d tokens and the key may use %d a minute; send shorter ones", tokens, l.Tokens)
	case l.Tokens > 0 && n > m.tokens:
		return limited(wait(n-m.tokens, l.Tokens), "the prompts have %d tokens and the key has %d left of its %d of this minute", tokens, max(int(m.tokens), 0), l.Tokens)
	default:
		m.tokens -= n
	}
	return nil
}

// count takes tokens that are there already.
func (m *limiter) count(tokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refill()
	m.tokens -= float64(tokens)
}

// wait is after how many seconds so much has come back.
func wait(missing float64, perMinute int) int {
	return max(1, int(math.Ceil(missing*60/float64(perMinute))))
}

func limited(retry int, format string, args ...any) error {
	return &api.Error{Status: http.StatusTooManyRequests, Retry: retry, Kind: "rate_limit_error", Code: "rate_limit_exceeded", Message: fmt.Sprintf(format, args...)}
}
