package serving

import (
	"context"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/access"
)

// TestPriority: a tenant's requests do not go before those of others; an operator's do, and those of batches stay behind.
func TestPriority(t *testing.T) {
	for _, c := range []struct {
		client *access.Client
		asked  int
		want   int
	}{
		{&access.Client{Tenant: "a"}, -1 << 40, 0},
		{&access.Client{Tenant: "a"}, 7, 7},
		{&access.Client{Tenant: "a"}, BackgroundPriority, BackgroundPriority},
		{&access.Client{Tenant: "ops", Admin: true}, -5, -5},
	} {
		p := For(access.With(context.Background(), c.client), ridge.Params{Priority: c.asked})
		if p.Priority != c.want || p.Tenant != c.client.Tenant {
			t.Errorf("%+v asks for %d and gets %d for tenant %q", c.client.Tenant, c.asked, p.Priority, p.Tenant)
		}
	}
}
