package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestRoleFlags: what is said of other servers reaches the model's options where the role has a use for it, and is refused where it has none.
func TestRoleFlags(t *testing.T) {
	t.Setenv(transferVariable, "a secret of sixteen bytes")
	peers := []string{"10.0.0.1", "10.1.0.0/16"}
	for _, c := range []struct {
		f       roleFlags
		refused string
	}{
		{roleFlags{role: "decode", peers: peers}, ""}, {roleFlags{role: "both", listen: "127.0.0.1:0", peers: peers}, ""},
		{roleFlags{role: "prefill", listen: "127.0.0.1:0", peers: peers}, "--kv-transfer-peers is for"}, {roleFlags{peers: peers}, "--kv-transfer-peers are for"},
	} {
		var o ridge.Options
		err := c.f.prepare(&o, false)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) || err == nil && !slices.Equal(o.KVTransfer.Peers, peers) {
			t.Errorf("--role %q: %v, %+v", c.f.role, err, o.KVTransfer)
		}
	}
}
